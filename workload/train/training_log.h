#pragma once

#include <cstdint>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/status.h"
#include "workload/train/reader.h"

namespace stoker::bench {

/// Stamps of one step of one rank, seconds since the run's start.
struct StepTimes {
  double load_end = 0;     // the batch was there; loading began where the step before ended
  double compute_end = 0;  // the accelerator's sleep, begun at load_end, was over
  double barrier_end = 0;  // all ranks had come: end of the step
};

/// One rank's epoch. INVARIANT: stamps do not decrease.
struct RankEpoch {
  double block_start = 0;  // before the loader exists
  double iter_start = 0;   // the loader exists, its threads do not yet
  std::vector<StepTimes> steps;
  double block_end = 0;   // after the last barrier
  double loader_end = 0;  // after the loader's threads are gone; block_end for a loader that goes on
};

struct EpochLog {
  double unix_start = 0;  // seconds
  double unix_end = 0;
  std::vector<RankEpoch> ranks;  // those of this process, from first_rank on
  bool complete = false;         // every rank did all its steps
};

struct TrainingLog {
  Nanos steady_start{0};  // SteadyNow() at which the stamps are 0
  std::vector<EpochLog> epochs;
  uint64_t epochs_planned = 0;  // as many are here when nothing ended the run early
  ReadStats reads;
  double cpu_user_s = 0;  // of this process, while epochs ran
  double cpu_system_s = 0;
  bool interrupted = false;  // cancelled from outside
  /// Not ok: a time-out or too many read errors ended the run before its time.
  Status failure;
  /// Threads still hang in reads that the storage does not answer. The process must leave with _exit: they
  /// cannot be joined.
  bool stuck = false;
};

}  // namespace stoker::bench
