#include "workload/train/thread_group.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cache/base/units.h"
#include "workload/base/steady.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STOKER_WIDE_FRAMES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STOKER_WIDE_FRAMES
#endif
#endif

namespace stoker::bench {

uint64_t ReadStackBytes() {
#if defined(STOKER_WIDE_FRAMES)
  return kMiB;  // sanitized frames are several times as large
#else
  return 128 * kKiB;
#endif
}

struct ThreadGroup::Running {
  Mutex mu;
  CondVar ended;
  uint64_t count GUARDED_BY(mu) = 0;
};

struct ThreadGroup::Task {
  std::function<void()> work;
  std::shared_ptr<Running> running;
};

ThreadGroup::ThreadGroup() : running_(std::make_shared<Running>()) {}

ThreadGroup::~ThreadGroup() {
  static_cast<void>(Finish(Nanos::max()));
}

void* ThreadGroup::Run(void* raw) {
  const std::unique_ptr<Task> task(static_cast<Task*>(raw));
  ::pthread_setname_np(::pthread_self(), "bench-read");
  task->work();
  task->work = nullptr;  // lets go of what it holds before the end is announced
  MutexLock lock(task->running->mu);
  --task->running->count;
  task->running->ended.NotifyAll();
  return nullptr;
}

Status ThreadGroup::Start(std::function<void()> work) {
  auto task = std::make_unique<Task>(Task{std::move(work), running_});
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, ReadStackBytes());
  {
    MutexLock lock(running_->mu);
    ++running_->count;
  }
  pthread_t thread;
  const int error = ::pthread_create(&thread, &attributes, &Run, task.get());
  ::pthread_attr_destroy(&attributes);
  if (error != 0) {
    MutexLock lock(running_->mu);
    --running_->count;
    return Status::FromErrno(error,
                             "no more reading threads can be started (use fewer accelerators or a smaller "
                             "reader.read_threads, or raise the limits of processes and threads)");
  }
  static_cast<void>(task.release());  // the thread's now
  threads_.push_back(thread);
  return Status::Ok();
}

bool ThreadGroup::Finish(Nanos deadline) {
  if (threads_.empty()) return true;
  bool all = true;
  {
    MutexLock lock(running_->mu);
    while (running_->count > 0 && all) {
      if (deadline == Nanos::max()) {
        running_->ended.Wait(running_->mu);
      } else {
        const Nanos now = SteadyNow();
        if (now >= deadline)
          all = false;
        else
          running_->ended.WaitFor(running_->mu, deadline - now);
      }
    }
  }
  for (const pthread_t thread : threads_) {
    if (all) {
      ::pthread_join(thread, nullptr);
    } else {
      ::pthread_detach(thread);
    }
  }
  threads_.clear();
  return all;
}

}  // namespace stoker::bench
