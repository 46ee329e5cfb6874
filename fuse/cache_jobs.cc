#include "fuse/cache_jobs.h"

#include <linux/ioprio.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "cache/base/mutex.h"

namespace stoker {
namespace {

constexpr size_t kMaxRunning = 8;
constexpr size_t kFinishedKept = 64;  // as the header says
/// Names asked of the index at once; also what one index write evicts.
constexpr size_t kPage = 256;
/// Parts read while an object is held: as long as that lasts it cannot be evicted.
constexpr uint32_t kPartsPerHold = 16;
/// What a reader has just closed is released a moment later: what was open is tried again for so long.
constexpr auto kOpenPatience = std::chrono::seconds(1);
constexpr auto kOpenPause = std::chrono::milliseconds(50);

bool Covers(const std::vector<std::string>& roots, const std::string& name) {
  return std::any_of(roots.begin(), roots.end(), [&](const std::string& root) {
    return root.empty() || (name.compare(0, root.size(), root) == 0 &&
                            (name.size() == root.size() || name[root.size()] == '/'));
  });
}

/// Readers come first. Does nothing where the kernel or the disk's scheduler knows no priorities.
void LowerIoPriority() {
  ::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

class Job {
 public:
  Job(CacheJobId id, CacheJobRequest request, ObjectStore& store)
      : request_(std::move(request)), store_(store) {
    progress_.id = id;
    progress_.kind = request_.kind;
    progress_.objects_total = store.Usage().objects;
  }

  void Run() EXCLUDES(mu_) {
    const Status status = Walk();
    MutexLock lock(mu_);
    using State = CacheJobProgress::State;
    progress_.state = !status.ok() ? State::kFailed : cancelled_ ? State::kCancelled : State::kDone;
    if (!status.ok()) progress_.error = status.message();
  }
  void Cancel() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    cancelled_ = true;
    changed_.NotifyAll();
  }
  bool finished() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return progress_.state != CacheJobProgress::State::kRunning;
  }
  CacheJobProgress Progress() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return progress_;
  }

 private:
  using Names = std::unordered_map<ObjectId, std::string>;

  bool cancelled() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return cancelled_;
  }
  void NoteLocked(const std::string& name, std::string what) REQUIRES(mu_) {
    if (progress_.notes.size() < CacheJobProgress::kMaxNotes) {
      progress_.notes.emplace_back(name, std::move(what));
    }
  }

  Status Walk() EXCLUDES(mu_) {
    std::optional<ObjectId> last;
    while (!cancelled()) {
      ASSIGN_OR_RETURN(const std::vector<StoredObject> page, store_.List(last ? &*last : nullptr, kPage));
      if (page.empty()) return Status::Ok();
      last = page.back().id;
      Names names;
      for (const StoredObject& object : page) {
        if (Covers(request_.paths, object.name)) names.emplace(object.id, object.name);
      }
      if (request_.kind == CacheJobRequest::Kind::kEvict) {
        RETURN_IF_ERROR(EvictPage(names));
      } else {
        for (const auto& [id, name] : names) RETURN_IF_ERROR(VerifyObject(id, name));
      }
      MutexLock lock(mu_);
      progress_.objects_seen += page.size();
    }
    return Status::Ok();
  }

  Status EvictPage(const Names& names) EXCLUDES(mu_) {
    std::vector<ObjectId> ids;
    for (const auto& [id, name] : names) ids.push_back(id);
    while (!ids.empty() && !cancelled()) {
      ASSIGN_OR_RETURN(const EvictReport report, store_.Evict(ids));
      ids.clear();
      for (const auto& [id, why] : report.kept) ids.push_back(id);
      MutexLock lock(mu_);
      progress_.objects += report.objects;
      progress_.bytes += report.bytes;
      if (!ids.empty() && !cancelled_ && open_patience_ > std::chrono::nanoseconds(0)) {
        open_patience_ -= kOpenPause;
        changed_.WaitFor(mu_, kOpenPause);
        continue;
      }
      for (const auto& [id, why] : report.kept) {
        const std::string& name = names.at(id);
        if (why == EvictReport::Kept::kOpen) {
          ++progress_.kept_open;
          NoteLocked(name, "is open or being fetched");
        } else if (why == EvictReport::Kept::kWarming) {
          ++progress_.kept_warming;
          NoteLocked(name, "belongs to a warm job that is running");
        } else {
          return {Code::kIo, "the index of the cache cannot be written: see the daemon's log"};
        }
      }
      break;
    }
    return Status::Ok();
  }

  Status VerifyObject(const ObjectId& id, const std::string& name) EXCLUDES(mu_) {
    for (uint32_t next = 0; !cancelled();) {
      const Result<ObjectRef> object = store_.Peek(id);
      if (object.status().code() == Code::kNotFound) return Status::Ok();  // evicted meanwhile
      if (!object.ok()) return object.status();
      const uint32_t end = std::min(object->part_count(), next + kPartsPerHold);
      for (; next < end && !cancelled(); ++next) {
        const PartIndex part{next};
        if (!object->IsResident(part)) continue;
        const Status checked = store_.Verify(*object, part);
        if (checked.code() == Code::kNotFound) continue;
        if (checked.code() == Code::kStale) return Status::Ok();  // its content is past, or it was dropped
        MutexLock lock(mu_);
        if (checked.code() == Code::kCorruption || checked.code() == Code::kIo) {
          ++progress_.damaged_parts;
          NoteLocked(name, "part " + std::to_string(next) + " was damaged and is dropped");
          continue;
        }
        if (!checked.ok()) return checked;
        const uint64_t bytes = object->PartRange(part).size();
        progress_.bytes += bytes;
        WaitForRateLocked(bytes);
      }
      if (next < object->part_count()) continue;
      if (!cancelled()) {
        MutexLock lock(mu_);
        ++progress_.objects;
      }
      break;
    }
    return Status::Ok();
  }

  /// The next byte is read no sooner than the rate allows; what was not used of it is not saved up.
  void WaitForRateLocked(uint64_t bytes) REQUIRES(mu_) {
    if (request_.bytes_per_second == 0) return;
    const double seconds = static_cast<double>(bytes) / static_cast<double>(request_.bytes_per_second);
    // A day is for ever; more would overflow.
    const auto cost = std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, 86400.0) * 1e9));
    const auto now = std::chrono::steady_clock::now();
    due_ = std::max(due_, now) + cost;
    for (auto at = now; at < due_ && !cancelled_; at = std::chrono::steady_clock::now()) {
      changed_.WaitFor(mu_, due_ - at);
    }
  }

  const CacheJobRequest request_;
  ObjectStore& store_;
  mutable Mutex mu_;
  CondVar changed_;
  CacheJobProgress progress_ GUARDED_BY(mu_);
  bool cancelled_ GUARDED_BY(mu_) = false;
  std::chrono::nanoseconds open_patience_ GUARDED_BY(mu_) = kOpenPatience;  // left, of the whole job
  std::chrono::steady_clock::time_point due_ GUARDED_BY(mu_){};
};

}  // namespace

struct CacheJobs::Impl {
  struct Entry {
    std::shared_ptr<Job> job;  // shared with its thread and with whoever asks
    std::thread thread;
  };
  explicit Impl(ObjectStore& s) : store(s) {}

  void PruneLocked() REQUIRES(mu) {
    size_t finished = 0;
    for (auto& [id, entry] : jobs) {
      if (!entry.job->finished()) continue;
      ++finished;
      if (entry.thread.joinable()) entry.thread.join();  // it has nothing left to do but to return
    }
    for (auto it = jobs.begin(); it != jobs.end() && finished > kFinishedKept;) {
      if (!it->second.job->finished() || it->second.thread.joinable()) {
        ++it;
        continue;
      }
      it = jobs.erase(it);
      --finished;
    }
  }
  Result<std::shared_ptr<Job>> Find(CacheJobId id) EXCLUDES(mu) {
    MutexLock lock(mu);
    const auto found = jobs.find(id);
    if (found == jobs.end()) return Status(Code::kNotFound, "no cache job " + std::to_string(id));
    return found->second.job;
  }

  ObjectStore& store;
  Mutex mu;
  std::map<CacheJobId, Entry> jobs GUARDED_BY(mu);
  CacheJobId next GUARDED_BY(mu) = 1;
  bool stopping GUARDED_BY(mu) = false;
};

CacheJobs::CacheJobs(ObjectStore& store) : impl_(std::make_unique<Impl>(store)) {}

CacheJobs::~CacheJobs() {
  Stop();
}

void CacheJobs::Stop() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(impl_->mu);
    impl_->stopping = true;
    for (auto& [id, entry] : impl_->jobs) {
      entry.job->Cancel();
      if (entry.thread.joinable()) threads.push_back(std::move(entry.thread));
    }
  }
  for (std::thread& thread : threads) thread.join();
}

Result<CacheJobId> CacheJobs::Start(CacheJobRequest request) {
  for (std::string& path : request.paths) {
    while (!path.empty() && path.back() == '/') path.pop_back();
  }
  MutexLock lock(impl_->mu);
  if (impl_->stopping) return Status(Code::kCancelled, "shutting down");
  impl_->PruneLocked();
  size_t running = 0;
  for (const auto& [id, entry] : impl_->jobs) running += entry.job->finished() ? 0 : 1;
  if (running >= kMaxRunning) {
    return Status(Code::kBusy, std::to_string(running) + " cache jobs are running; wait for one of them");
  }
  const CacheJobId id = impl_->next++;
  Impl::Entry entry;
  entry.job = std::make_shared<Job>(id, std::move(request), impl_->store);
  try {
    entry.thread = std::thread([job = entry.job] {
      ::pthread_setname_np(::pthread_self(), "stoker-cache");
      LowerIoPriority();
      job->Run();
    });
  } catch (const std::system_error& error) {
    return Status(Code::kBusy, std::string("cannot start a thread for the cache job: ") + error.what());
  }
  impl_->jobs.emplace(id, std::move(entry));
  return id;
}

Result<CacheJobProgress> CacheJobs::Progress(CacheJobId id) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<Job> job, impl_->Find(id));
  return job->Progress();
}

Status CacheJobs::Cancel(CacheJobId id) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Job> job, impl_->Find(id));
  job->Cancel();
  return Status::Ok();
}

}  // namespace stoker
