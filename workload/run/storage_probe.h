#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"
#include "cache/base/result.h"
#include "workload/report/prerun.h"
#include "workload/run/training_run.h"

namespace stoker::bench {

struct ProbeOptions {
  std::vector<std::string> paths;  // read in this order, a file per thread at a time
  uint64_t threads = 1;
  uint64_t piece_bytes = 0;  // of one read call; REQUIRES > 0
  bool direct = false;       // O_DIRECT; piece_bytes is then a multiple of 4 KiB
  /// Ends at whichever comes first; what is read is little, so that what a run measures later stays cold.
  Nanos time = std::chrono::seconds(2);
  uint64_t bytes = 512ull << 20;
  Nanos patience = std::chrono::seconds(3);  // after `time`, for reads that have not come back
};

/// Reads front to back, up to the limits, and gives the pages back. Threads that hang are let go (they hold
/// nothing of the caller's). kUnavailable: no threads.
Result<ProbeResult> ProbeFiles(const ProbeOptions& options, const CancelToken& cancel);

/// The probe of a plan: calls and parallelism as the run will have them, on the files that the first epoch
/// reads last, so that they are the last to be met again.
ProbeOptions ProbeOf(const TrainingPlan& plan);

/// Regular files below `folder`, at most `limit`, the last by name first. kNotFound: none.
Result<std::vector<std::string>> FilesBelow(const std::string& folder, size_t limit);

/// Plan, host and probe as one.
Prerun PrerunOf(const TrainingPlan& plan);

}  // namespace stoker::bench
