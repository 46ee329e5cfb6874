#pragma once

#include <pthread.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/mutex.h"
#include "cache/base/result.h"

namespace stoker::bench {

/// Stack of a reading thread: what it calls is ours and shallow, and there may be thousands of them.
uint64_t ReadStackBytes();

/// Threads with small stacks that are waited for together, but not for ever: one that hangs in a read that
/// storage does not answer is let go. Owner: one thread.
class ThreadGroup {
 public:
  ThreadGroup();
  /// As Finish() without a deadline.
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  /// What `work` touches must live as long as the thread, which may be longer than this group's owner.
  /// kUnavailable: the system gives no more threads; the message says how to need fewer.
  Status Start(std::function<void()> work);
  /// Joins all, or lets all go when some have not ended by `deadline`; false then. A second call has nothing
  /// to do.
  bool Finish(Nanos deadline);

 private:
  struct Running;  // how many have not ended; shared with the threads
  struct Task;
  static void* Run(void* task);

  const std::shared_ptr<Running> running_;
  std::vector<pthread_t> threads_;
};

}  // namespace stoker::bench
