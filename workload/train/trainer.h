#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"
#include "cache/base/result.h"
#include "workload/comm/communicator.h"
#include "workload/data/dataset.h"
#include "workload/train/reader.h"
#include "workload/train/sampler.h"

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
  double loader_end = 0;  // after the loader's threads are gone
};

struct EpochLog {
  double unix_start = 0;  // seconds
  double unix_end = 0;
  std::vector<RankEpoch> ranks;
  bool complete = false;  // every rank did all its steps
};

struct TrainerOptions {
  uint64_t ranks = 1;       // of this process
  uint64_t first_rank = 0;  // the ranks of all processes are order.ranks
  uint64_t epochs = 1;
  uint64_t steps = 0;  // per epoch
  uint64_t batch_size = 1;
  uint64_t read_threads = 1;
  uint64_t prefetch = 2;
  double computation_time = 0;  // seconds
  OrderOptions order;
  Dataset dataset;
  ReaderOptions reader;
  bool null_storage = false;
  Nanos step_timeout = std::chrono::minutes(10);  // for a batch, and at the barrier
  Nanos stop_grace = std::chrono::seconds(10);    // what a stopped run gives threads that are still reading
  uint64_t max_read_errors = 100;                 // the run stops at this many
  Communicator* others = nullptr;                 // the other processes of the run; nullptr: alone
};

struct TrainingLog {
  Nanos steady_start{0};  // SteadyNow() at which the stamps are 0
  std::vector<EpochLog> epochs;
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

/// Runs the epochs: a thread per rank, read_threads more for each, a barrier after every step, over the ranks
/// of all processes. `epoch_done` is called between epochs with its number from 0. Returns when all is done,
/// or soon after `cancel` or the stop of another process; `others` hear of ours.
TrainingLog Train(const TrainerOptions& options, const CancelToken& cancel,
                  const std::function<void(uint64_t, const EpochLog&)>& epoch_done);

}  // namespace stoker::bench
