#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "cache/base/mutex.h"
#include "cache/base/status.h"

namespace stoker {

using WaitId = uint64_t;  // never 0, never used twice

/// Requests whose answer comes later. Each is answered once: by its result, by an interrupt, or by the end of
/// the mount, whoever takes it first. The work behind it may go on; its result then finds the request gone.
/// Any thread; `fail` functions run with no lock held.
class WaitList {
 public:
  /// `fail` answers the request with an error. `announce` is told the id, with no lock held, and nobody
  /// answers before it has returned: it may still touch what the answer frees. 0 when the request was failed
  /// already (the list is closed, or was failed while it was announced); then `fail` has run.
  WaitId Add(std::function<void(Status)> fail, const std::function<void(WaitId)>& announce = nullptr)
      EXCLUDES(mu_);
  /// True for exactly one caller: the request is the caller's to answer now.
  bool Take(WaitId id) EXCLUDES(mu_);
  bool Waiting(WaitId id) const EXCLUDES(mu_);
  /// What to do, after answering, when the request is given up (end a read). Runs at once, on the caller's
  /// thread, when the request does not wait any more for whatever reason, so it must be harmless after an
  /// answer.
  void OnGivenUp(WaitId id, std::function<void()> cleanup) EXCLUDES(mu_);
  /// Answers one request with `why` if it still waits.
  void Fail(WaitId id, const Status& why) EXCLUDES(mu_);
  /// Answers all, and refuses what comes after.
  void Close(const Status& why) EXCLUDES(mu_);
  size_t size() const EXCLUDES(mu_);

 private:
  struct Entry {
    std::function<void(Status)> fail;
    std::function<void()> cleanup;
    bool announcing = false;
    std::optional<Status> failed;  // came while it was announced
  };
  mutable Mutex mu_;
  std::unordered_map<WaitId, Entry> waiting_ GUARDED_BY(mu_);
  WaitId next_ GUARDED_BY(mu_) = 1;
  std::optional<Status> closed_ GUARDED_BY(mu_);
};

}  // namespace stoker
