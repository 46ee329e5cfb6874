#include "prefetch/warm_job.h"

#include <sys/stat.h>

#include <algorithm>
#include <tuple>

namespace stoker {
namespace {

/// After a cancel, what is under way may take so long before the job ends without it.
constexpr std::chrono::seconds kCancelPatience{5};
/// A full fetch queue is asked again after this, or when something of ours lands.
constexpr std::chrono::milliseconds kBusyPause{10};

}  // namespace

void WarmJob::CountLandedLocked(uint64_t bytes) {
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(clock_.Now() - start_).count();
  Second& slot = seconds_[static_cast<size_t>(now) % seconds_.size()];
  if (slot.second != now) slot = {now, 0};
  slot.bytes += bytes;
}

double WarmJob::RateLocked(Nanos now) const {
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

void WarmJob::FailLocked(const std::string& path, const Status& why) {
  ++progress_.files_failed;
  if (failures_.size() < WarmProgress::kMaxFailuresKept) failures_.emplace_back(path, why);
}

void WarmJob::OnError(const std::string& path, const Status& why) {
  MutexLock lock(mu_);
  ++progress_.files_total;
  FailLocked(path, why);
}

void WarmJob::OnEntry(const std::string& path, const UfsAttr& attr) {
  RetryChanged();
  if (S_ISREG(attr.mode) && !(skip_ && skip_(path))) return TakeFile(path, attr, false);
  MutexLock lock(mu_);
  ++progress_.files_skipped;
}

void WarmJob::TakeFile(const std::string& path, const UfsAttr& attr, bool retried) {
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

void WarmJob::WantParts(const std::shared_ptr<FileTask>& task) {
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
    const Status status =
        engine_.Want(task->file, PartIndex{i}, FetchPriority::kWarm,
                     [self = shared_from_this(), task, i](const Status& done, FetchedFor whose) {
                       self->OnPart(task, PartIndex{i}, done, whose);
                     });
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

void WarmJob::OnPart(const std::shared_ptr<FileTask>& task, PartIndex part, const Status& status,
                     FetchedFor whose) {
  MutexLock lock(mu_);
  --parts_;
  --task->outstanding;
  if (status.ok()) {
    const uint64_t bytes = task->file->object().PartRange(part).size();
    CountLandedLocked(bytes);
    if (whose == FetchedFor::kThisWish) {
      progress_.bytes_fetched += bytes;
      metrics_.warm_bytes.Add(bytes);
    }
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

void WarmJob::SettleLocked(const std::shared_ptr<FileTask>& task) {
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

void WarmJob::RetryChanged() {
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

void WarmJob::Run() {
  group_ = store_.BeginProtect();
  walk_.Run();
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

void WarmJob::Cancel() {
  {
    MutexLock lock(mu_);
    cancelled_ = true;
    changed_.NotifyAll();
  }
  walk_.Stop();
}

WarmProgress WarmJob::Progress() const {
  const StoreUsage usage = store_.Usage();
  const bool retains = store_.Policy().configured == CachePolicy::kRetain;
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
  std::string no_room = "no room in the cache: the paths of this job need " +
                        FormatBytesExact(progress.bytes_total) + ", cache.size is " +
                        FormatBytesExact(usage.limit_bytes);
  no_room +=
      retains && progress.bytes_total <= usage.limit_bytes
          ? " and it keeps what it has (cache.policy: retain); set cache.policy: auto, which makes room "
            "for warm jobs, or raise cache.size"
          : "; raise it or warm less";
  for (const auto& [path, why] : failures_) {
    progress.failures.emplace_back(path, why.code() == Code::kNoSpace ? no_room : why.message());
  }
  return progress;
}

bool WarmJob::WaitLeft(Nanos timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(mu_);
  while (progress_.state == WarmProgress::State::kRunning) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return false;
    changed_.WaitFor(mu_, end - now);
  }
  return true;
}

}  // namespace stoker
