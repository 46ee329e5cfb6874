#pragma once

#include <cstdint>
#include <functional>

#include "cache/base/mutex.h"
#include "cache/base/status.h"

namespace stoker::bench {

/// Where all tasks of a test meet: a barrier that also tells the largest value somebody brought. Reusable;
/// any thread, each task once per round.
class Rendezvous {
 public:
  explicit Rendezvous(uint64_t tasks) : tasks_(tasks) {}
  /// Waits until all tasks came; returns the largest `value` of the round.
  uint64_t Meet(uint64_t value = 0) EXCLUDES(mu_);
  /// `count` of those who have not come never will. REQUIRES that somebody else is still to come.
  void Forgo(uint64_t count) EXCLUDES(mu_);

 private:
  Mutex mu_;
  uint64_t tasks_ GUARDED_BY(mu_);
  CondVar all_here_;
  uint64_t arrived_ GUARDED_BY(mu_) = 0;
  uint64_t round_ GUARDED_BY(mu_) = 0;
  uint64_t largest_ GUARDED_BY(mu_) = 0;       // of the round that is gathering
  uint64_t last_largest_ GUARDED_BY(mu_) = 0;  // of the round that ended last
};

/// The threads that stand in for the tasks (processes) of a parallel job on this host.
constexpr uint64_t kMaxTasks = 4096;

/// Runs work(task, meeting) for task 0…tasks-1, each on a thread of its own, all begun together; returns when
/// all have returned. kBusy: the system gave no more threads; nothing ran.
Status RunCrew(uint64_t tasks, const std::function<void(uint64_t task, Rendezvous& meeting)>& work);

}  // namespace stoker::bench
