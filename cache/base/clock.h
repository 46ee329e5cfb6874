#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace stoker {

/// Time since an arbitrary start; never goes back.
using Nanos = std::chrono::nanoseconds;

/// Where rooms get the time from, so that tests can move it. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos Now() const = 0;
  /// The process-wide steady clock.
  static Clock& Real();
};

/// A clock that stands still until told to move.
class ManualClock final : public Clock {
 public:
  Nanos Now() const override { return Nanos(now_.load(std::memory_order_acquire)); }
  void Advance(Nanos by) { now_.fetch_add(by.count(), std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> now_{1};
};

}  // namespace stoker
