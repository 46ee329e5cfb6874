#pragma once

#include <chrono>
#include <cstdint>

#include "cache/base/mutex.h"

namespace stoker {

/// Lets work in until closed, then waits for what is inside. Stopping a room = close its gate, then wait.
/// Any thread.
class Gate {
 public:
  /// Leaves the gate when destroyed. Empty (false) when the gate was closed.
  class Pass {
   public:
    Pass() = default;
    explicit Pass(Gate* gate) : gate_(gate) {}
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }
    Pass(Pass&& other) noexcept : gate_(other.gate_) { other.gate_ = nullptr; }
    Pass& operator=(Pass&&) = delete;
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    Gate* gate_ = nullptr;
  };

  Pass Enter() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (closed_) return Pass();
    ++inside_;
    return Pass(this);
  }
  void Close() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    closed_ = true;
  }
  /// Waits until nobody is inside; false when `timeout` ran out first. Close() first, or it may never end.
  bool Wait(std::chrono::nanoseconds timeout) EXCLUDES(mu_) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(mu_);
    while (inside_ != 0) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline) return false;
      cv_.WaitFor(mu_, deadline - now);
    }
    return true;
  }

 private:
  void Leave() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (--inside_ == 0) cv_.NotifyAll();
  }

  Mutex mu_;
  CondVar cv_;
  bool closed_ GUARDED_BY(mu_) = false;
  uint64_t inside_ GUARDED_BY(mu_) = 0;
};

}  // namespace stoker
