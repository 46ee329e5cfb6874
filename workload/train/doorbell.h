#pragma once

#include <atomic>
#include <cstdint>

#include "cache/base/clock.h"

namespace stoker::bench {

/// Wakes one waiting thread. A ring is never lost: the waiter notes rings() before it looks at what it waits
/// for, and Wait() returns at once when a ring came since. Ringing costs an atomic addition, and a system
/// call only while somebody waits. Ring from any thread; Wait from one.
class Doorbell {
 public:
  Doorbell() = default;
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  uint32_t rings() const { return rings_.load(std::memory_order_seq_cst); }
  void Ring();
  /// Returns when rings() is no longer `seen`, or at `deadline` on the steady clock, or for no reason.
  void Wait(uint32_t seen, Nanos deadline);

 private:
  std::atomic<uint32_t> rings_{0};  // the futex word
  std::atomic<bool> waiting_{false};
};

/// Waits that end when their deadline is reached and not a wake-up latency later: sleeps to shortly before
/// it, watches the clock for the rest. How long that rest must be is learnt from how late the sleeps ended;
/// it is never more than `watch_limit`, which bounds the CPU spent. One thread.
class PreciseWaiter {
 public:
  explicit PreciseWaiter(Nanos watch_limit) : watch_limit_(watch_limit) {}
  /// As bell.Wait(), but does not return before `deadline` unless the bell was rung.
  void Wait(Doorbell& bell, uint32_t seen, Nanos deadline);
  Nanos watch() const { return watch_; }

 private:
  const Nanos watch_limit_;
  Nanos watch_{0};
};

}  // namespace stoker::bench
