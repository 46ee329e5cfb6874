#pragma once

#include <cstdint>
#include <functional>

#include "cache/base/mutex.h"
#include "cache/base/result.h"

namespace stoker::bench {

/// Where the tasks of a test meet: a barrier that also tells the largest value somebody brought. Reusable;
/// any thread, each task once per round. With tasks in other processes it is *bridged*: when all tasks here
/// have come, a further thread (Serve) learns the others' largest value before anybody is let go.
class Rendezvous {
 public:
  explicit Rendezvous(uint64_t tasks, bool bridged = false) : bridged_(bridged), tasks_(tasks) {}
  /// Waits until all tasks came; returns the largest `value` of the round. Once broken it does not wait.
  uint64_t Meet(uint64_t value = 0) EXCLUDES(mu_);
  /// `count` of those who have not come never will. REQUIRES that somebody else is still to come.
  void Forgo(uint64_t count) EXCLUDES(mu_);

  /// A task will not meet any more.
  void Leave() EXCLUDES(mu_);
  /// The bridge: `exchange` turns the largest value here into that of all processes, for every round, until
  /// all tasks have left. Not ok from `exchange`: the rendezvous breaks. `look` is called about every 0.1 s.
  Status Serve(const std::function<Result<uint64_t>(uint64_t)>& exchange, const std::function<void()>& look)
      EXCLUDES(mu_);

 private:
  void EndRound() REQUIRES(mu_);

  const bool bridged_;
  Mutex mu_;
  CondVar changed_;
  uint64_t tasks_ GUARDED_BY(mu_);
  uint64_t arrived_ GUARDED_BY(mu_) = 0;
  uint64_t left_ GUARDED_BY(mu_) = 0;
  uint64_t round_ GUARDED_BY(mu_) = 0;
  uint64_t largest_ GUARDED_BY(mu_) = 0;       // of the round that is gathering
  uint64_t last_largest_ GUARDED_BY(mu_) = 0;  // of the round that ended last
  bool broken_ GUARDED_BY(mu_) = false;
};

/// The most threads that stand in for the tasks (processes) of a parallel job.
constexpr uint64_t kMaxTasks = 4096;

/// Runs work(task) for task 0…tasks-1, each on a thread of its own, all begun together, and meanwhile `here`
/// on this thread; returns when all have returned. kBusy: the system gave no more threads; nothing ran.
Status RunThreads(uint64_t tasks, const std::function<void(uint64_t task)>& work,
                  const std::function<void()>& here);

}  // namespace stoker::bench
