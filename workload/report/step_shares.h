#pragma once

#include <cstddef>

#include "workload/train/trainer.h"

namespace stoker::bench {

/// What a stretch of steps was spent on: shares (0..1) of its time, mean over the ranks. Together they are 1.
struct StepShares {
  double compute = 0;       // as AU, 0..1
  double load_wait = 0;     // waiting for the own batch
  double barrier_wait = 0;  // own compute over, a slower rank's not
  double overhead = 0;      // all computes over, the step not: the barrier itself, and being woken
  size_t steps = 0;         // in the stretch; 0: nothing could be said
  double seconds = 0;       // mean over ranks
  double lost() const { return load_wait + barrier_wait + overhead; }
};

/// Steps [first, last) of an epoch, cut to what every rank has done. Unlike the public formulas it holds
/// nothing of the start and the end, so that a short run says what a long one would. Pure.
StepShares SharesOf(const EpochLog& epoch, size_t first, size_t last);

}  // namespace stoker::bench
