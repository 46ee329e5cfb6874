#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/base/mutex.h"
#include "prefetch/tree_walk.h"
#include "prefetch/warmer.h"

namespace stoker {

/// One warm job: walks its paths and asks the engine for every part that is missing, a bounded number of them
/// under way; counts. Several walkers take files at once. Run() on a thread of its own, held by a shared_ptr
/// that fetches under way share; everything else any thread.
class WarmJob final : public std::enable_shared_from_this<WarmJob>, private TreeWalk::Visitor {
 public:
  WarmJob(WarmJobId id, std::vector<std::string> paths, Ufs& ufs, ObjectStore& store, FetchEngine& engine,
          Metrics& metrics, Clock& clock, std::function<bool(const std::string&)> skip = {})
      : ufs_(ufs),
        store_(store),
        engine_(engine),
        metrics_(metrics),
        clock_(clock),
        skip_(std::move(skip)),
        max_parts_(std::max(kMinParts, 2 * engine.State().threads)),
        start_(clock.Now()),
        walk_(ufs, std::move(paths), *this) {
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
  /// Parts under way per job: enough for every thread to find the next one waiting.
  static constexpr size_t kMinParts = 8;
  /// The rate is taken over so many whole seconds.
  static constexpr int64_t kRateSeconds = 5;

  /// One version of one file under way. Belongs to mu_.
  struct FileTask {
    std::shared_ptr<FetchFile> file;
    std::vector<std::string> paths;  // hard links that were met meanwhile come along
    uint64_t credited = 0;           // of bytes_done, for the first path
    uint32_t outstanding = 0;        // parts wanted and not answered
    bool all_wanted = false;
    bool retried = false;
    Status failure;
  };

  void OnEntry(const std::string& path, const UfsAttr& attr) override EXCLUDES(mu_);
  void OnError(const std::string& path, const Status& why) override EXCLUDES(mu_);
  void TakeFile(const std::string& path, const UfsAttr& attr, bool retried);
  void WantParts(const std::shared_ptr<FileTask>& task);
  void OnPart(const std::shared_ptr<FileTask>& task, PartIndex part, const Status& status, FetchedFor whose)
      EXCLUDES(mu_);
  void RetryChanged() EXCLUDES(mu_);
  /// The task has nothing under way any more: counts it, and takes it off the books.
  void SettleLocked(const std::shared_ptr<FileTask>& task) REQUIRES(mu_);
  void FailLocked(const std::string& path, const Status& why) REQUIRES(mu_);
  /// For the rate: bytes that this job waited for, whoever fetched them.
  void CountLandedLocked(uint64_t bytes) REQUIRES(mu_);
  double RateLocked(Nanos now) const REQUIRES(mu_);
  bool cancelled() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return cancelled_;
  }

  Ufs& ufs_;
  ObjectStore& store_;
  FetchEngine& engine_;
  Metrics& metrics_;
  Clock& clock_;
  const std::function<bool(const std::string&)> skip_;
  const size_t max_parts_;
  const Nanos start_;
  TreeWalk walk_;
  ProtectGroup group_ = 0;  // set before the walk begins

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

}  // namespace stoker
