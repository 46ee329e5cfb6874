#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Annotations that clang's thread-safety analysis checks (the asan and tsan presets); nothing in gcc.
#if defined(__clang__)
#define STOKER_TSA(x) __attribute__((x))
#else
#define STOKER_TSA(x)
#endif
#define CAPABILITY(x) STOKER_TSA(capability(x))
#define SCOPED_CAPABILITY STOKER_TSA(scoped_lockable)
#define GUARDED_BY(x) STOKER_TSA(guarded_by(x))
#define PT_GUARDED_BY(x) STOKER_TSA(pt_guarded_by(x))
#define REQUIRES(...) STOKER_TSA(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) STOKER_TSA(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) STOKER_TSA(acquire_capability(__VA_ARGS__))
#define RELEASE(...) STOKER_TSA(release_capability(__VA_ARGS__))

namespace stoker {

/// std::mutex with a capability, so that GUARDED_BY is checked.
class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() ACQUIRE() { mu_.lock(); }
  void Unlock() RELEASE() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

/// Holds a Mutex for a scope; Unlock() lets go early (before I/O, a callback or a reply), Lock() takes it
/// again.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mu) ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() RELEASE() {
    if (held_) mu_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  void Unlock() RELEASE() {
    mu_.Unlock();
    held_ = false;
  }
  void Lock() ACQUIRE() {
    mu_.Lock();
    held_ = true;
  }

 private:
  Mutex& mu_;
  bool held_ = true;
};

/// Condition variable for Mutex. Waits may wake for no reason: always loop over the condition.
class CondVar {
 public:
  void Wait(Mutex& mu) REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  /// False when the time ran out.
  bool WaitFor(Mutex& mu, std::chrono::nanoseconds timeout) REQUIRES(mu) {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    const bool woken = cv_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace stoker
