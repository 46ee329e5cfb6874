#include "prefetch/warmer.h"

#include <pthread.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <thread>

#include "cache/base/log.h"
#include "cache/base/mutex.h"
#include "prefetch/warm_job.h"

namespace stoker {
namespace {

constexpr size_t kMaxRunningJobs = 16;
constexpr size_t kFinishedKept = 64;  // as the header says
/// The destructor's: the default deadline of a fetch.
constexpr std::chrono::seconds kEndPatience{60};

}  // namespace

struct Warmer::Impl {
  struct Entry {
    std::shared_ptr<WarmJob> job;
    std::thread thread;
  };
  Impl(Ufs& u, ObjectStore& s, FetchEngine& e, Metrics& m, Clock& c,
       std::function<bool(const std::string&)> k)
      : ufs(u), store(s), engine(e), metrics(m), clock(c), skip(std::move(k)) {}

  /// Joins what has ended and drops the oldest finished jobs above the limit.
  void PruneLocked() REQUIRES(mu) {
    size_t finished = 0;
    for (auto& [id, entry] : jobs) {
      if (!entry.job->finished()) continue;
      ++finished;
      // It has nothing left to do but to return.
      if (entry.thread.joinable()) entry.thread.join();
    }
    for (auto it = jobs.begin(); it != jobs.end() && finished > kFinishedKept;) {
      if (it->second.job->finished()) {
        it = jobs.erase(it);
        --finished;
      } else {
        ++it;
      }
    }
  }

  Ufs& ufs;
  ObjectStore& store;
  FetchEngine& engine;
  Metrics& metrics;
  Clock& clock;
  const std::function<bool(const std::string&)> skip;
  mutable Mutex mu;
  std::map<WarmJobId, Entry> jobs GUARDED_BY(mu);
  WarmJobId next GUARDED_BY(mu) = 1;
  bool stopping GUARDED_BY(mu) = false;
};

Warmer::Warmer(Ufs& ufs, ObjectStore& store, FetchEngine& engine, Metrics& metrics, Clock& clock,
               std::function<bool(const std::string& path)> skip)
    : impl_(std::make_unique<Impl>(ufs, store, engine, metrics, clock, std::move(skip))) {}

Warmer::~Warmer() {
  // Whoever minds hanging storage has called Stop() before, and does not come here when it said false.
  if (!Stop(kEndPatience)) LogWarn("prefetch", "a warm job outlives its warmer");
}

bool Warmer::Stop(Nanos timeout) {
  std::vector<Impl::Entry> entries;
  {
    MutexLock lock(impl_->mu);
    impl_->stopping = true;
    for (auto& [id, entry] : impl_->jobs) {
      if (entry.thread.joinable()) entries.push_back({entry.job, std::move(entry.thread)});
    }
  }
  for (const Impl::Entry& entry : entries) entry.job->Cancel();
  const auto end = std::chrono::steady_clock::now() + timeout;
  bool all_ended = true;
  for (Impl::Entry& entry : entries) {
    const auto left =
        std::max(end - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration(0));
    if (entry.job->WaitLeft(left)) {
      entry.thread.join();
    } else {
      LogWarn("prefetch", "a warm job hangs in the UFS and is left behind");
      entry.thread.detach();
      all_ended = false;
    }
  }
  return all_ended;
}

Result<WarmJobId> Warmer::Start(std::vector<std::string> paths) {
  for (std::string& path : paths) {
    while (!path.empty() && path.back() == '/') path.pop_back();
  }
  MutexLock lock(impl_->mu);
  if (impl_->stopping) return Status(Code::kCancelled, "shutting down");
  impl_->PruneLocked();
  size_t running = 0;
  for (const auto& [id, entry] : impl_->jobs) running += entry.job->finished() ? 0 : 1;
  if (running >= kMaxRunningJobs) {
    return Status(Code::kBusy,
                  std::to_string(running) + " warm jobs are running; wait for one or cancel one");
  }
  const WarmJobId id = impl_->next++;
  Impl::Entry entry;
  entry.job = std::make_shared<WarmJob>(id, std::move(paths), impl_->ufs, impl_->store, impl_->engine,
                                        impl_->metrics, impl_->clock, impl_->skip);
  try {
    entry.thread = std::thread([job = entry.job] {
      pthread_setname_np(pthread_self(), "stoker-warm");
      job->Run();
    });
  } catch (const std::system_error& error) {
    return Status(Code::kBusy, std::string("cannot start a thread for the warm job: ") + error.what());
  }
  impl_->jobs.emplace(id, std::move(entry));
  return id;
}

Result<WarmProgress> Warmer::Progress(WarmJobId id) const {
  std::shared_ptr<WarmJob> job;
  {
    MutexLock lock(impl_->mu);
    const auto found = impl_->jobs.find(id);
    if (found == impl_->jobs.end()) return Status(Code::kNotFound, "no warm job " + std::to_string(id));
    job = found->second.job;
  }
  return job->Progress();
}

Status Warmer::Cancel(WarmJobId id) {
  std::shared_ptr<WarmJob> job;
  {
    MutexLock lock(impl_->mu);
    const auto found = impl_->jobs.find(id);
    if (found == impl_->jobs.end()) return {Code::kNotFound, "no warm job " + std::to_string(id)};
    job = found->second.job;
  }
  job->Cancel();
  return Status::Ok();
}

std::vector<WarmProgress> Warmer::List() const {
  std::vector<std::shared_ptr<WarmJob>> jobs;
  {
    MutexLock lock(impl_->mu);
    for (const auto& [id, entry] : impl_->jobs) jobs.push_back(entry.job);
  }
  std::vector<WarmProgress> all;
  for (const std::shared_ptr<WarmJob>& job : jobs) all.push_back(job->Progress());
  return all;
}

}  // namespace stoker
