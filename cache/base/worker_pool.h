#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cache/base/mutex.h"

namespace stoker {

/// A fixed number of threads that run tasks in the order they came, behind a bounded queue. For work that may
/// block (a stat on a slow UFS) so that the thread that asked does not. Any thread may call; tasks must not
/// throw.
class WorkerPool {
 public:
  /// `name` becomes the threads' name (15 bytes at most are kept).
  WorkerPool(std::string name, size_t threads, size_t max_queued);
  /// Runs what is queued, then joins. Call Stop() first to bound it.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// False when the queue is full or the pool is stopping; the task was not taken.
  bool Submit(std::function<void()> task) EXCLUDES(mu_);
  /// Takes no more tasks and drops none: what is queued still runs.
  void Stop() EXCLUDES(mu_);

 private:
  void Run();

  const std::string name_;
  const size_t max_queued_;
  mutable Mutex mu_;
  CondVar cv_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mu_);
  bool stopping_ GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace stoker
