#pragma once

#include <functional>
#include <string>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"
#include "cache/base/result.h"
#include "workload/base/command.h"
#include "workload/report/capacity_report.h"
#include "workload/run/training_run.h"

namespace stoker::bench {

struct CapacityRequest {
  Command command;         // of one workload; accelerators and epochs are the search's business
  CapacityOptions search;  // threshold_percent is taken from the profile
  uint64_t steps = 0;      // that count in one measurement; 0: 5 s of computing, at least 20
  Nanos time_limit = std::chrono::minutes(30);
};

/// Steps before and after those that count in a measurement: as many as an accelerator has batches in flight,
/// so that what was read ahead before the first of them, and the reading that thins out at the end, stay
/// outside. Pure.
uint64_t MarginSteps(const Profile& profile);

/// A search that can begin: dataset found, bounds known. Plain values.
struct CapacityPlan {
  CapacityRecord record;  // what is known before the first measurement
  TrainingPlan training;  // for one accelerator
  Nanos time_limit{};
};
/// Reads no data. kInvalidArgument: no dataset, or one too small to measure one accelerator.
Result<CapacityPlan> PlanCapacity(const CapacityRequest& request);

/// Searches the largest number of accelerators that the storage feeds: short runs, each with another seed, so
/// that each reads other files (order v2, which reads the same every time, is replaced by v3 unless it was
/// asked for). `say` gets a line per measurement. A search cut short by `cancel`, by the time limit or by
/// failing storage is a record too.
CapacityRecord FindCapacity(const CapacityPlan& plan, const CancelToken& cancel,
                            const std::function<void(const std::string&)>& say);

}  // namespace stoker::bench
