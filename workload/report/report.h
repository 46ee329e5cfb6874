#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workload/base/rules.h"
#include "workload/train/trainer.h"

namespace stoker::bench {

/// What the formulas need besides the stamps.
struct MetricOptions {
  Edition metric = Edition::kV30;
  uint64_t batch_size = 1;
  double computation_time = 0;       // seconds; v0.5 and v1.0 count it instead of the measured sleep
  uint64_t exclude_start_steps = 1;  // v2.0 and later; before, always the first step only
  uint64_t exclude_end_steps = 0;
  double record_bytes = 0;     // nominal
  double au_threshold = 0.90;  // 0..1
};

/// One rank, one epoch.
struct RankFigures {
  double au_percent = 0;
  double samples_per_s = 0;
};

/// The stamps as the public benchmark's arrays: seconds per step.
struct StepArrays {
  std::vector<double> load;     // waiting for the batch
  std::vector<double> proc;     // load + compute (v1.0 and later), + barrier and what lies between (v0.5)
  std::vector<double> compute;  // configured (v0.5, v1.0) or measured
};
StepArrays ArraysOf(const MetricOptions& options, const RankEpoch& rank);

// clang-format off
/// AU = compute inside the window / (end - start - what lies outside the window). What differs by edition:
///
///   |             | v0.5                 | v1.0              | v2.0             | v3.0                 |
///   | proc[i]     | step end to step end | without barrier   | as v1.0          | as v1.0              |
///   | proc[0] from| block_start          | iter_start        | iter_start       | iter_start           |
///   | compute[i]  | configured           | configured        | measured         | measured             |
///   | window      | 1..N-1               | 1..N-1            | s..N-1-e         | s..N-1-e             |
///   | end         | last barrier         | last barrier      | last barrier     | loader's threads gone|
///   | samples/s   | N b / (end - start)  | as v0.5           | (N-2) b / T      | window steps b / T   |
///
/// An empty window or no time gives 0. Pure.
// clang-format on
RankFigures ComputeRank(const MetricOptions& options, const RankEpoch& rank);

struct EpochFigures {
  double au_percent = 0;     // mean over ranks
  double samples_per_s = 0;  // sum over ranks
  std::vector<double> au_per_rank;
};
EpochFigures ComputeEpoch(const MetricOptions& options, const EpochLog& epoch);

/// The run: means and population standard deviations over epochs. MiB/s are nominal: samples/s times the
/// nominal record, whatever the files' real sizes; true bytes are in HarnessFigures.
struct RunFigures {
  std::vector<EpochFigures> epochs;
  double au_mean_percent = 0;
  double au_stdev_percent = 0;
  double samples_mean = 0;
  double samples_stdev = 0;
  double mib_mean = 0;
  double mib_stdev = 0;
  bool meets_threshold = false;  // mean AU >= 100 x threshold
};
/// Epochs in which no step ended on some rank are left out (they have no figures). Pure.
RunFigures ComputeRun(const MetricOptions& options, const std::vector<EpochLog>& epochs);

double Mean(const std::vector<double>& values);
/// Divides by n, as the public reports do.
double PopulationStdev(const std::vector<double>& values);

/// Our own figures about the same run.
struct HarnessFigures {
  double wall_s = 0;                // sum over epochs, first start to last loader end
  double bytes_per_s = 0;           // true bytes
  double cpu_s_per_gb = 0;          // user + system, per 1e9 true bytes; 0 when nothing was read
  double step_overhead_us = 0;      // mean time from the last rank's compute end to a rank's step end
  double barrier_wait_s = 0;        // per rank, mean: waiting for slower ranks
  std::vector<double> load_wait_s;  // [ranks]: waiting for batches, all epochs
};
HarnessFigures ComputeHarness(const TrainingLog& log);

/// What must hold before a run, worked out from the profile alone.
struct Demand {
  double bytes_per_s_per_accelerator = 0;  // at 100 % AU
  double bytes_per_s = 0;
  double epoch_s = 0;  // accelerators never waiting
  double run_s = 0;
  uint64_t dataset_bytes = 0;  // nominal, of one epoch
  uint64_t buffer_bytes = 0;   // upper bound of read buffers
};
Demand ComputeDemand(double record_bytes, uint64_t batch_size, double computation_time, uint64_t accelerators,
                     uint64_t steps, uint64_t epochs, uint64_t samples, uint64_t read_threads,
                     uint64_t piece_bytes);

/// Steps an epoch needs to have a defined AU; below that a sentence that says so, else "".
std::string FewStepsNote(const MetricOptions& options, uint64_t steps, uint64_t samples, uint64_t ranks);

/// The console block, each line beginning "[METRIC] ".
std::string MetricBlock(const MetricOptions& options, const RunFigures& run, uint64_t accelerators);

}  // namespace stoker::bench
