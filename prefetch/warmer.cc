#include "prefetch/warmer.h"

#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <thread>
#include <tuple>
#include <unordered_map>

#include "cache/base/log.h"
#include "cache/base/mutex.h"

namespace stoker {
namespace {

constexpr size_t kMaxRunningJobs = 16;
constexpr size_t kFinishedKept = 64;  // as the header says
/// Entries taken from one listing at a time.
constexpr size_t kPageEntries = 256;
/// Directories kept open while what is below them is walked. Deeper ones are read whole and closed, so that a
/// deep tree does not use up the descriptors.
constexpr size_t kMaxOpenDirs = 64;
/// Parts under way per job: enough for every thread to find the next one waiting.
constexpr size_t kMinParts = 8;
/// The rate is taken over so many whole seconds.
constexpr int64_t kRateSeconds = 5;
/// After a cancel, what is under way may take so long before the job ends without it.
constexpr std::chrono::seconds kCancelPatience{5};
/// The destructor's: the default deadline of a fetch.
constexpr std::chrono::seconds kEndPatience{60};
/// A full fetch queue is asked again after this, or when something of ours lands.
constexpr std::chrono::milliseconds kBusyPause{10};

/// One version of one file under way. Belongs to Job::mu.
struct FileTask {
  std::shared_ptr<FetchFile> file;
  std::vector<std::string> paths;  // hard links that were met meanwhile come along
  uint64_t credited = 0;           // of bytes_done, for the first path
  uint32_t outstanding = 0;        // parts wanted and not answered
  bool all_wanted = false;
  bool retried = false;
  Status failure;
};

struct Frame {
  std::string path;
  std::unique_ptr<UfsDir> dir;
  std::vector<UfsDirEntry> page;
  size_t next = 0;
  bool whole = false;  // the page is all there is
};

std::string Join(const std::string& dir, const std::string& name) {
  return dir.empty() ? name : dir + "/" + name;
}

class Job : public std::enable_shared_from_this<Job> {
 public:
  Job(WarmJobId id, std::vector<std::string> paths, Ufs& ufs, ObjectStore& store, FetchEngine& engine,
      Metrics& metrics, Clock& clock)
      : paths_(std::move(paths)),
        ufs_(ufs),
        store_(store),
        engine_(engine),
        metrics_(metrics),
        clock_(clock),
        max_parts_(std::max(kMinParts, 2 * engine.State().threads)),
        start_(clock.Now()) {
    progress_.id = id;
  }

  void Run() EXCLUDES(mu_);
  WarmProgress Progress() const EXCLUDES(mu_);
  void Cancel() EXCLUDES(mu_);
  bool finished() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return progress_.state != WarmProgress::State::kRunning;
  }
  /// Waits for the end of Run(); false when `timeout` was not enough.
  bool WaitLeft(Nanos timeout) EXCLUDES(mu_);

 private:
  void WalkPath(const std::string& path);
  void WalkBelow(const std::string& path);
  void TakeEntry(const std::string& path, const Result<UfsAttr>& attr, std::vector<Frame>& frames);
  void OpenFrame(const std::string& path, std::vector<Frame>& frames);
  void TakeFile(const std::string& path, const UfsAttr& attr, bool retried);
  void WantParts(const std::shared_ptr<FileTask>& task);
  void OnPart(const std::shared_ptr<FileTask>& task, PartIndex part, const Status& status) EXCLUDES(mu_);
  void RetryChanged() EXCLUDES(mu_);
  /// The task has nothing under way any more: counts it, and takes it off the books.
  void SettleLocked(const std::shared_ptr<FileTask>& task) REQUIRES(mu_);
  void FailLocked(const std::string& path, const Status& why) REQUIRES(mu_);
  void FailPath(const std::string& path, const Status& why) EXCLUDES(mu_);
  void CountFetchedLocked(uint64_t bytes) REQUIRES(mu_);
  double RateLocked(Nanos now) const REQUIRES(mu_);
  bool cancelled() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return cancelled_;
  }

  const std::vector<std::string> paths_;
  Ufs& ufs_;
  ObjectStore& store_;
  FetchEngine& engine_;
  Metrics& metrics_;
  Clock& clock_;
  const size_t max_parts_;
  const Nanos start_;
  ProtectGroup group_ = 0;

  mutable Mutex mu_;
  CondVar changed_;
  WarmProgress progress_ GUARDED_BY(mu_);
  std::vector<std::pair<std::string, Status>> failures_ GUARDED_BY(mu_);
  std::unordered_map<ObjectId, std::shared_ptr<FileTask>> tasks_ GUARDED_BY(mu_);  // under way
  std::vector<std::pair<std::string, uint64_t>> changed_files_ GUARDED_BY(mu_);    // to be tried once more
  size_t parts_ GUARDED_BY(mu_) = 0;                                               // under way
  bool no_space_ GUARDED_BY(mu_) = false;
  bool cancelled_ GUARDED_BY(mu_) = false;
  struct Second {
    int64_t second = -1;
    uint64_t bytes = 0;
  };
  std::array<Second, kRateSeconds + 1> seconds_ GUARDED_BY(mu_);
};

void Job::CountFetchedLocked(uint64_t bytes) {
  progress_.bytes_fetched += bytes;
  metrics_.warm_bytes.Add(bytes);
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(clock_.Now() - start_).count();
  Second& slot = seconds_[static_cast<size_t>(now) % seconds_.size()];
  if (slot.second != now) slot = {now, 0};
  slot.bytes += bytes;
}

double Job::RateLocked(Nanos now) const {
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const auto second = static_cast<int64_t>(elapsed);
  uint64_t bytes = 0;
  for (const Second& slot : seconds_) {
    if (slot.second >= 0 && slot.second > second - kRateSeconds) bytes += slot.bytes;
  }
  // The second under way counts with what has passed of it.
  const double span =
      std::min(elapsed, static_cast<double>(kRateSeconds - 1) + elapsed - static_cast<double>(second));
  return span > 0 ? static_cast<double>(bytes) / span : 0;
}

void Job::FailLocked(const std::string& path, const Status& why) {
  ++progress_.files_failed;
  if (failures_.size() < WarmProgress::kMaxFailuresKept) failures_.emplace_back(path, why);
}

void Job::FailPath(const std::string& path, const Status& why) {
  MutexLock lock(mu_);
  ++progress_.files_total;
  FailLocked(path, why);
}

void Job::OpenFrame(const std::string& path, std::vector<Frame>& frames) {
  Result<std::unique_ptr<UfsDir>> dir = ufs_.OpenDir(path);
  if (!dir.ok()) return FailPath(path, dir.status());
  Frame frame;
  frame.path = path;
  frame.dir = std::move(dir).value();
  if (frames.size() >= kMaxOpenDirs) {
    while (true) {
      const size_t before = frame.page.size();
      if (const Status status = frame.dir->Next(kPageEntries, frame.page); !status.ok()) {
        FailPath(path, status);
        break;
      }
      if (frame.page.size() == before) break;
    }
    frame.whole = true;
    frame.dir.reset();
  }
  frames.push_back(std::move(frame));
}

void Job::TakeEntry(const std::string& path, const Result<UfsAttr>& attr, std::vector<Frame>& frames) {
  if (!attr.ok()) {
    // Gone between the listing and now: it is not there to be cached.
    if (attr.status().code() != Code::kNotFound) FailPath(path, attr.status());
    return;
  }
  if (S_ISDIR(attr->mode)) return OpenFrame(path, frames);
  if (S_ISREG(attr->mode)) return TakeFile(path, *attr, false);
  MutexLock lock(mu_);
  ++progress_.files_skipped;
}

void Job::WalkBelow(const std::string& path) {
  std::vector<Frame> frames;
  OpenFrame(path, frames);
  while (!frames.empty() && !cancelled()) {
    RetryChanged();
    Frame& frame = frames.back();
    if (frame.next == frame.page.size()) {
      if (!frame.whole) {
        frame.page.clear();
        frame.next = 0;
        if (const Status status = frame.dir->Next(kPageEntries, frame.page); !status.ok()) {
          FailPath(frame.path, status);
          frame.page.clear();
        }
      }
      if (frame.next == frame.page.size()) {
        frames.pop_back();
        continue;
      }
    }
    const std::string name = frame.page[frame.next++].name;
    const std::string child = Join(frame.path, name);
    TakeEntry(child, frame.dir != nullptr ? frame.dir->StatEntry(name) : ufs_.Stat(child), frames);
  }
}

void Job::WalkPath(const std::string& path) {
  const Result<UfsAttr> attr = ufs_.Stat(path);
  if (!attr.ok()) return FailPath(path, attr.status());
  if (S_ISDIR(attr->mode)) return WalkBelow(path);
  std::vector<Frame> none;
  TakeEntry(path, attr, none);
}

void Job::TakeFile(const std::string& path, const UfsAttr& attr, bool retried) {
  bool no_space;
  {
    MutexLock lock(mu_);
    if (!retried) {
      ++progress_.files_total;
      progress_.bytes_total += attr.size;
    }
    if (attr.size == 0) {
      ++progress_.files_done;
      metrics_.warm_files.Add();
      return;
    }
    no_space = no_space_;
  }
  const auto done_already = [&] {
    MutexLock lock(mu_);
    ++progress_.files_done;
    progress_.bytes_done += attr.size;
    metrics_.warm_files.Add();
  };
  if (no_space) {
    // What is whole in the cache counts; nothing else is worth fetching.
    const Result<ObjectRef> object = store_.Find(attr.version);
    if (object.ok() && object->complete()) return done_already();
    MutexLock lock(mu_);
    return FailLocked(path, Status(Code::kNoSpace, ""));
  }
  Result<ObjectRef> object = store_.Acquire(attr.version, path, group_);
  if (!object.ok()) {
    MutexLock lock(mu_);
    if (object.status().code() == Code::kNoSpace) no_space_ = true;
    return FailLocked(path, object.status());
  }
  if (object->complete()) return done_already();

  auto task = std::make_shared<FileTask>();
  task->paths.push_back(path);
  task->retried = retried;
  task->file = std::make_shared<FetchFile>(ufs_, path, attr.version, std::move(object).value());
  const ObjectRef& ref = task->file->object();
  {
    MutexLock lock(mu_);
    const auto [known, fresh] = tasks_.try_emplace(ref.id(), task);
    if (!fresh) {
      known->second->paths.push_back(path);
      return;
    }
    task->credited = ref.resident_bytes();
    progress_.bytes_done += task->credited;
  }
  WantParts(task);
  MutexLock lock(mu_);
  task->all_wanted = true;
  if (task->outstanding == 0) SettleLocked(task);
}

void Job::WantParts(const std::shared_ptr<FileTask>& task) {
  const ObjectRef& object = task->file->object();
  for (uint32_t i = 0; i < object.part_count();) {
    if (object.IsResident(PartIndex{i})) {
      ++i;
      continue;
    }
    {
      MutexLock lock(mu_);
      while (parts_ >= max_parts_ && !cancelled_) changed_.Wait(mu_);
      if (cancelled_ && task->failure.ok()) task->failure = Status(Code::kCancelled, "the job was cancelled");
      if (no_space_ && task->failure.ok()) task->failure = Status(Code::kNoSpace, "");
      if (!task->failure.ok()) return;
      ++parts_;
      ++task->outstanding;
    }
    const Status status = engine_.Want(
        task->file, PartIndex{i}, FetchPriority::kWarm,
        [self = shared_from_this(), task, i](const Status& done) { self->OnPart(task, PartIndex{i}, done); });
    if (status.ok()) {
      ++i;
      continue;
    }
    MutexLock lock(mu_);
    --parts_;
    --task->outstanding;
    if (status.code() != Code::kBusy) {
      task->failure = status;
      return;
    }
    // Others fill the queue; they are being served, so there will be room.
    if (!cancelled_) changed_.WaitFor(mu_, kBusyPause);
  }
}

void Job::OnPart(const std::shared_ptr<FileTask>& task, PartIndex part, const Status& status) {
  MutexLock lock(mu_);
  --parts_;
  --task->outstanding;
  if (status.ok()) {
    const uint64_t bytes = task->file->object().PartRange(part).size();
    CountFetchedLocked(bytes);
    if (task->failure.ok()) {
      task->credited += bytes;
      progress_.bytes_done += bytes;
    }
  } else {
    if (status.code() == Code::kNoSpace) no_space_ = true;
    if (task->failure.ok()) task->failure = status;
  }
  if (task->outstanding == 0 && task->all_wanted) SettleLocked(task);
  changed_.NotifyAll();
}

void Job::SettleLocked(const std::shared_ptr<FileTask>& task) {
  const ObjectRef& object = task->file->object();
  const auto found = tasks_.find(object.id());
  if (found == tasks_.end() || found->second != task) return;  // settled before
  if (task->failure.ok() && !object.complete()) {
    task->failure = Status(Code::kIo, "the cache lost a part of it again");
  }
  if (task->failure.ok()) {
    progress_.files_done += task->paths.size();
    progress_.bytes_done += object.size() * task->paths.size() - task->credited;
    metrics_.warm_files.Add(task->paths.size());
  } else {
    progress_.bytes_done -= task->credited;
    for (const std::string& path : task->paths) {
      if (task->failure.code() == Code::kStale && !task->retried) {
        changed_files_.emplace_back(path, object.size());
      } else if (task->failure.code() == Code::kStale) {
        FailLocked(path, Status(Code::kStale, "changed while being read"));
      } else if (task->failure.code() != Code::kCancelled || !cancelled_) {
        FailLocked(path, task->failure);
      }
    }
  }
  tasks_.erase(found);
  changed_.NotifyAll();
}

void Job::RetryChanged() {
  while (true) {
    std::string path;
    uint64_t old_size = 0;
    {
      MutexLock lock(mu_);
      if (changed_files_.empty() || cancelled_) return;
      std::tie(path, old_size) = std::move(changed_files_.back());
      changed_files_.pop_back();
    }
    const Result<UfsAttr> attr = ufs_.Stat(path);
    if (attr.ok() && S_ISREG(attr->mode)) {
      {
        MutexLock lock(mu_);
        progress_.bytes_total += attr->size - old_size;
      }
      TakeFile(path, *attr, true);
      continue;
    }
    MutexLock lock(mu_);
    FailLocked(path, attr.ok() ? Status(Code::kStale, "is no regular file any more") : attr.status());
  }
}

void Job::Run() {
  group_ = store_.BeginProtect();
  for (const std::string& path : paths_) {
    if (cancelled()) break;
    WalkPath(path);
  }
  {
    MutexLock lock(mu_);
    progress_.walk_finished = !cancelled_;
  }
  while (true) {
    RetryChanged();
    MutexLock lock(mu_);
    if (cancelled_ || (tasks_.empty() && changed_files_.empty())) break;
    if (changed_files_.empty()) changed_.Wait(mu_);
  }
  if (cancelled()) {
    std::vector<std::shared_ptr<FetchFile>> files;
    {
      MutexLock lock(mu_);
      for (const auto& [id, task] : tasks_) files.push_back(task->file);
    }
    for (const std::shared_ptr<FetchFile>& file : files) engine_.Forget(*file, FetchPriority::kWarm);
    const auto end = std::chrono::steady_clock::now() + kCancelPatience;
    MutexLock lock(mu_);
    while (parts_ > 0) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= end) break;
      changed_.WaitFor(mu_, end - now);
    }
  }
  store_.EndProtect(group_);
  std::unordered_map<ObjectId, std::shared_ptr<FileTask>> dropped;  // its files unpin outside the lock
  MutexLock lock(mu_);
  dropped.swap(tasks_);
  progress_.seconds = std::chrono::duration<double>(clock_.Now() - start_).count();
  progress_.bytes_per_second =
      progress_.seconds > 0 ? static_cast<double>(progress_.bytes_fetched) / progress_.seconds : 0;
  progress_.state = cancelled_                   ? WarmProgress::State::kCancelled
                    : progress_.files_failed > 0 ? WarmProgress::State::kFailed
                                                 : WarmProgress::State::kDone;
  changed_.NotifyAll();
}

void Job::Cancel() {
  MutexLock lock(mu_);
  cancelled_ = true;
  changed_.NotifyAll();
}

WarmProgress Job::Progress() const {
  const StoreUsage usage = store_.Usage();
  MutexLock lock(mu_);
  WarmProgress progress = progress_;
  if (progress.state == WarmProgress::State::kRunning) {
    const Nanos now = clock_.Now();
    progress.seconds = std::chrono::duration<double>(now - start_).count();
    progress.bytes_per_second = RateLocked(now);
    const uint64_t left = progress.bytes_total - std::min(progress.bytes_total, progress.bytes_done);
    if (progress.walk_finished && progress.bytes_per_second > 0) {
      progress.eta_seconds = static_cast<double>(left) / progress.bytes_per_second;
    }
  } else {
    progress.eta_seconds = 0;
  }
  progress.failures.reserve(failures_.size());
  for (const auto& [path, why] : failures_) {
    progress.failures.emplace_back(path, why.code() != Code::kNoSpace
                                             ? why.message()
                                             : "no room in the cache: the paths of this job need " +
                                                   FormatBytesExact(progress.bytes_total) +
                                                   ", cache.size is " + FormatBytesExact(usage.limit_bytes) +
                                                   "; raise it or warm less");
  }
  return progress;
}

}  // namespace

struct Warmer::Impl {
  struct Entry {
    std::shared_ptr<Job> job;
    std::thread thread;
  };
  Impl(Ufs& u, ObjectStore& s, FetchEngine& e, Metrics& m, Clock& c)
      : ufs(u), store(s), engine(e), metrics(m), clock(c) {}

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
  mutable Mutex mu;
  std::map<WarmJobId, Entry> jobs GUARDED_BY(mu);
  WarmJobId next GUARDED_BY(mu) = 1;
  bool stopping GUARDED_BY(mu) = false;
};

Warmer::Warmer(Ufs& ufs, ObjectStore& store, FetchEngine& engine, Metrics& metrics, Clock& clock)
    : impl_(std::make_unique<Impl>(ufs, store, engine, metrics, clock)) {}

Warmer::~Warmer() {
  std::vector<Impl::Entry> entries;
  {
    MutexLock lock(impl_->mu);
    impl_->stopping = true;
    for (auto& [id, entry] : impl_->jobs) entries.push_back(std::move(entry));
    impl_->jobs.clear();
  }
  for (const Impl::Entry& entry : entries) entry.job->Cancel();
  const auto end = std::chrono::steady_clock::now() + kEndPatience;
  for (Impl::Entry& entry : entries) {
    if (!entry.thread.joinable()) continue;
    const auto left =
        std::max(end - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration(0));
    if (entry.job->WaitLeft(left)) {
      entry.thread.join();
    } else {
      LogWarn("prefetch", "a warm job hangs in the UFS and is left behind");
      entry.thread.detach();
    }
  }
}

bool Job::WaitLeft(Nanos timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(mu_);
  while (progress_.state == WarmProgress::State::kRunning) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return false;
    changed_.WaitFor(mu_, end - now);
  }
  return true;
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
  entry.job = std::make_shared<Job>(id, std::move(paths), impl_->ufs, impl_->store, impl_->engine,
                                    impl_->metrics, impl_->clock);
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
  std::shared_ptr<Job> job;
  {
    MutexLock lock(impl_->mu);
    const auto found = impl_->jobs.find(id);
    if (found == impl_->jobs.end()) return Status(Code::kNotFound, "no warm job " + std::to_string(id));
    job = found->second.job;
  }
  return job->Progress();
}

Status Warmer::Cancel(WarmJobId id) {
  std::shared_ptr<Job> job;
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
  std::vector<std::shared_ptr<Job>> jobs;
  {
    MutexLock lock(impl_->mu);
    for (const auto& [id, entry] : impl_->jobs) jobs.push_back(entry.job);
  }
  std::vector<WarmProgress> all;
  for (const std::shared_ptr<Job>& job : jobs) all.push_back(job->Progress());
  return all;
}

}  // namespace stoker
