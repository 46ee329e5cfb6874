#pragma once

#include <chrono>

namespace stoker {

/// For a command that follows a job to its end: pauses between questions, and the first SIGINT or SIGTERM is
/// noted instead of ending the process, so that the job can be cancelled; the second leaves at once, with
/// kExitInterrupted. The signals' handlers stay. One thread.
class Follower {
 public:
  Follower();
  bool interrupted() const;
  /// Shorter while the job is young, so that a short one is not made longer by the wait for its end. Ends
  /// early when interrupted.
  void Pause() const;

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace stoker
