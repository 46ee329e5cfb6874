#pragma once

#include "cache/base/cancel.h"
#include "workload/report/step_shares.h"
#include "workload/run/training_run.h"

namespace stoker::bench {

/// AU (%) that this harness must reach without any reading to be beyond suspicion.
inline constexpr double kSelfTestAu = 99.5;

/// A short run (3 s of computing, at least 10 steps) of the plan's accelerators without reading: what is
/// missing to AU 100 % is this program's and this machine's own. `steps` 0: cancelled before it could tell.
StepShares SelfTest(const TrainingPlan& plan, const CancelToken& cancel);

}  // namespace stoker::bench
