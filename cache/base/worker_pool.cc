#include "cache/base/worker_pool.h"

#include <pthread.h>

#include <utility>

namespace stoker {

WorkerPool::WorkerPool(std::string name, size_t threads, size_t max_queued)
    : name_(name.substr(0, 15)), max_queued_(max_queued) {
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() {
  Stop();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::Submit(std::function<void()> task) {
  MutexLock lock(mu_);
  if (stopping_ || tasks_.size() >= max_queued_) return false;
  tasks_.push_back(std::move(task));
  cv_.NotifyOne();
  return true;
}

void WorkerPool::Stop() {
  MutexLock lock(mu_);
  stopping_ = true;
  cv_.NotifyAll();
}

void WorkerPool::Run() {
  pthread_setname_np(pthread_self(), name_.c_str());
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mu_);
      while (tasks_.empty() && !stopping_) cv_.Wait(mu_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace stoker
