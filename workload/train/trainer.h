#pragma once

#include <cstdint>
#include <functional>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"
#include "workload/base/format.h"
#include "workload/base/rules.h"
#include "workload/comm/communicator.h"
#include "workload/data/dataset.h"
#include "workload/train/accelerator.h"
#include "workload/train/reader.h"
#include "workload/train/sampler.h"
#include "workload/train/training_log.h"

namespace stoker::bench {

struct TrainerOptions {
  /// Accelerators of this process: [first_rank, first_rank + ranks) of the run's order.ranks.
  uint64_t first_rank = 0;
  uint64_t ranks = 1;
  uint64_t epochs = 1;
  uint64_t steps = 0;      // per epoch
  uint64_t max_steps = 0;  // of the whole run; 0: no limit
  uint64_t batch_size = 1;
  uint64_t read_threads = 1;
  uint64_t prefetch = 2;
  double computation_time = 0;  // seconds
  Framework framework = Framework::kPyTorch;
  Edition loop = Edition::kV30;      // whose pipeline, where the rounds differ
  uint64_t computation_threads = 1;  // TensorFlow
  uint64_t shuffle_size = 0;         // TensorFlow: records in the shuffle buffer; 0: none
  bool file_shuffle = false;         // TensorFlow v0.5
  OrderOptions order;
  Dataset dataset;
  uint64_t files = 0;    // of the dataset that the run reads; 0: all
  ReaderOptions reader;  // piece_bytes: of TensorFlow's reader as well
  bool null_storage = false;
  Nanos step_timeout = std::chrono::minutes(10);  // for a batch, and at the barrier
  Nanos stop_grace = std::chrono::seconds(10);    // what a stopped run gives threads that are still reading
  uint64_t max_read_errors = 100;                 // the run stops at this many
  Communicator* others = nullptr;                 // the other processes of the run; nullptr: alone
};

/// Epochs that a run of these options has: fewer than options.epochs when max_steps ends it before.
uint64_t PlannedEpochs(const TrainerOptions& options);

/// Upper bound of what reading needs in this process.
struct ReadingMemory {
  uint64_t threads = 0;       // of all its accelerators
  uint64_t buffer_bytes = 0;  // of each thread
  uint64_t other_bytes = 0;   // of each thread: stack, counts
  uint64_t order_bytes = 0;   // the epoch's order
  uint64_t stamp_bytes = 0;   // of the whole run, kept for the results
  uint64_t total() const { return threads * (buffer_bytes + other_bytes) + order_bytes + stamp_bytes; }
};
ReadingMemory MemoryOf(const TrainerOptions& options);

/// Runs the epochs. The calling thread drives the accelerators, read_threads threads for each of them read,
/// and all ranks meet after every step. `epoch_done` is called between epochs with its number from 0. Returns
/// when all is done, or soon after `cancel`.
TrainingLog Train(const TrainerOptions& options, const CancelToken& cancel,
                  const std::function<void(uint64_t, const EpochLog&)>& epoch_done);

}  // namespace stoker::bench
