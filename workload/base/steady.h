#pragma once

#include <ctime>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"

namespace stoker::bench {

/// Steady time in nanoseconds; what all stamps of a run are taken from.
Nanos SteadyNow();

/// For calls that take an absolute time on the steady clock (CLOCK_MONOTONIC).
timespec ToTimespec(Nanos time);

/// Sleeps until the steady clock shows `deadline`; in slices, so that a cancelled run ends soon. Returns
/// early only when cancelled.
void SleepUntil(Nanos deadline, const CancelToken& cancel);

/// Asks the kernel not to gather this thread's timer ends with others' (50 us by default).
void UseFineTimers();

}  // namespace stoker::bench
