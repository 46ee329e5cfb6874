#include "workload/train/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel sees a plain word");

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Doorbell::Ring() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  if (!waiting_.load(std::memory_order_seq_cst)) return;
  static_cast<void>(::syscall(SYS_futex, &rings_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0));
}

void Doorbell::Wait(uint32_t seen, Nanos deadline) {
  // Either the ringer sees `waiting_`, or the kernel sees the new count.
  waiting_.store(true, std::memory_order_seq_cst);
  const timespec until = ToTimespec(deadline);
  static_cast<void>(::syscall(SYS_futex, &rings_, FUTEX_WAIT_BITSET_PRIVATE, seen, &until, nullptr,
                              FUTEX_BITSET_MATCH_ANY));
  waiting_.store(false, std::memory_order_seq_cst);
}

void PreciseWaiter::Wait(Doorbell& bell, uint32_t seen, Nanos deadline) {
  const Nanos asked = deadline - watch_;
  if (SteadyNow() < asked) {
    bell.Wait(seen, asked);
    if (bell.rings() != seen) return;
    const Nanos late = SteadyNow() - asked;
    if (late < Nanos(0)) return;  // woken for no reason; the caller looks again
    // Up quickly, down slowly: being late costs more than watching a little longer.
    watch_ += late > watch_ ? (late - watch_) / 4 : (late - watch_) / 32;
    watch_ = std::min(watch_, watch_limit_);
  }
  while (SteadyNow() < deadline && bell.rings() == seen) Relax();
}

}  // namespace stoker::bench
