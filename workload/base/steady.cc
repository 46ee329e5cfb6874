#include "workload/base/steady.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

namespace stoker::bench {
namespace {
constexpr Nanos kSleepSlice = std::chrono::milliseconds(200);  // a cancelled run is noticed this soon
}  // namespace

timespec ToTimespec(Nanos time) {
  timespec out;
  out.tv_sec = static_cast<time_t>(time.count() / 1'000'000'000);
  out.tv_nsec = static_cast<long>(time.count() % 1'000'000'000);
  return out;
}

Nanos SteadyNow() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

void SleepUntil(Nanos deadline, const CancelToken& cancel) {
  while (!cancel.cancelled()) {
    const Nanos now = SteadyNow();
    if (now >= deadline) return;
    const timespec until = ToTimespec(std::min(deadline, now + kSleepSlice));
    // EINTR only makes the slice shorter.
    static_cast<void>(::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr));
  }
}

void UseFineTimers() {
  // Cannot fail on a kernel that knows the option; otherwise sleeps end up to 50 us later, as they are
  // measured.
  static_cast<void>(::prctl(PR_SET_TIMERSLACK, 1));
}

}  // namespace stoker::bench
