#include "workload/report/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cache/base/units.h"

namespace stoker::bench {
namespace {

/// [first, last) of the steps that count for AU.
struct Window {
  size_t first = 0;
  size_t last = 0;
  size_t size() const { return last - first; }
};

Window WindowOf(const MetricOptions& options, size_t steps) {
  const bool settable = options.metric == Edition::kV20 || options.metric == Edition::kV30;
  const size_t start = settable ? options.exclude_start_steps : 1;
  const size_t end = settable ? options.exclude_end_steps : 0;
  Window window;
  window.first = std::min(start, steps);
  window.last = std::max(window.first, steps - std::min(end, steps));
  return window;
}

double SumOf(const std::vector<double>& values, size_t first, size_t last) {
  double sum = 0;
  for (size_t i = first; i < last; ++i) sum += values[i];
  return sum;
}

std::string Line(const char* label, double mean, double stdev) {
  char text[160];
  std::snprintf(text, sizeof text, "[METRIC] %s: %.4f (%.4f)\n", label, mean, stdev);
  return text;
}

}  // namespace

double Mean(const std::vector<double>& values) {
  return values.empty() ? 0 : SumOf(values, 0, values.size()) / static_cast<double>(values.size());
}

double PopulationStdev(const std::vector<double>& values) {
  if (values.empty()) return 0;
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

StepArrays ArraysOf(const MetricOptions& options, const RankEpoch& rank) {
  StepArrays out;
  const bool with_barrier = options.metric == Edition::kV05;
  const bool measured = options.metric == Edition::kV20 || options.metric == Edition::kV30;
  double load_start = rank.iter_start;
  double proc_start = with_barrier ? rank.block_start : rank.iter_start;
  for (const StepTimes& step : rank.steps) {
    out.load.push_back(step.load_end - load_start);
    out.proc.push_back((with_barrier ? step.barrier_end : step.compute_end) - proc_start);
    out.compute.push_back(measured ? step.compute_end - step.load_end : options.computation_time);
    load_start = proc_start = step.barrier_end;
  }
  return out;
}

RankFigures ComputeRank(const MetricOptions& options, const RankEpoch& rank) {
  RankFigures out;
  const size_t steps = rank.steps.size();
  if (steps == 0) return out;
  const StepArrays arrays = ArraysOf(options, rank);
  const Window window = WindowOf(options, steps);
  // An interrupted epoch has no loader end yet; its last step's end stands in.
  const double last_end = rank.steps.back().barrier_end;
  const double end = options.metric == Edition::kV30 ? std::max(rank.loader_end, last_end) : last_end;
  const double whole = end - rank.block_start;
  const double time = whole - SumOf(arrays.proc, 0, window.first) - SumOf(arrays.proc, window.last, steps);
  if (window.size() > 0 && time > 0) {
    out.au_percent = 100 * SumOf(arrays.compute, window.first, window.last) / time;
  }
  const double batch = static_cast<double>(options.batch_size);
  const double n = static_cast<double>(steps);
  switch (options.metric) {
    case Edition::kV05:
    case Edition::kV10:
      if (whole > 0) out.samples_per_s = n * batch / whole;
      break;
    case Edition::kV20:
      if (time > 0 && steps > 2) out.samples_per_s = (n - 2) * batch / time;
      break;
    case Edition::kV30:
      if (time > 0) out.samples_per_s = static_cast<double>(window.size()) * batch / time;
      break;
  }
  return out;
}

EpochFigures ComputeEpoch(const MetricOptions& options, const EpochLog& epoch) {
  EpochFigures out;
  for (const RankEpoch& rank : epoch.ranks) {
    const RankFigures figures = ComputeRank(options, rank);
    out.au_per_rank.push_back(figures.au_percent);
    out.samples_per_s += figures.samples_per_s;
  }
  out.au_percent = Mean(out.au_per_rank);
  return out;
}

RunFigures ComputeRun(const MetricOptions& options, const std::vector<EpochLog>& epochs) {
  RunFigures out;
  std::vector<double> au;
  std::vector<double> samples;
  std::vector<double> mib;
  for (const EpochLog& epoch : epochs) {
    const bool all_stepped = std::all_of(epoch.ranks.begin(), epoch.ranks.end(),
                                         [](const RankEpoch& rank) { return !rank.steps.empty(); });
    if (epoch.ranks.empty() || !all_stepped) continue;
    out.epochs.push_back(ComputeEpoch(options, epoch));
    au.push_back(out.epochs.back().au_percent);
    samples.push_back(out.epochs.back().samples_per_s);
    mib.push_back(samples.back() * options.record_bytes / static_cast<double>(kMiB));
  }
  out.au_mean_percent = Mean(au);
  out.au_stdev_percent = PopulationStdev(au);
  out.samples_mean = Mean(samples);
  out.samples_stdev = PopulationStdev(samples);
  out.mib_mean = Mean(mib);
  out.mib_stdev = PopulationStdev(mib);
  out.meets_threshold = !au.empty() && out.au_mean_percent >= 100 * options.au_threshold;
  return out;
}

HarnessFigures ComputeHarness(const TrainingLog& log) {
  HarnessFigures out;
  double overhead = 0;
  double barrier_wait = 0;
  uint64_t stamps = 0;
  size_t ranks = 0;
  for (const EpochLog& epoch : log.epochs) {
    if (epoch.ranks.empty()) continue;
    ranks = std::max(ranks, epoch.ranks.size());
    out.load_wait_s.resize(ranks, 0);
    double start = epoch.ranks.front().block_start;
    double end = start;
    size_t common = epoch.ranks.front().steps.size();
    for (size_t r = 0; r < epoch.ranks.size(); ++r) {
      const RankEpoch& rank = epoch.ranks[r];
      start = std::min(start, rank.block_start);
      end = std::max({end, rank.block_end, rank.loader_end});
      common = std::min(common, rank.steps.size());
      double load_start = rank.iter_start;
      for (const StepTimes& step : rank.steps) {
        out.load_wait_s[r] += step.load_end - load_start;
        load_start = step.barrier_end;
      }
    }
    out.wall_s += end - start;
    for (size_t i = 0; i < common; ++i) {
      double last_compute = 0;
      for (const RankEpoch& rank : epoch.ranks) {
        last_compute = std::max(last_compute, rank.steps[i].compute_end);
      }
      for (const RankEpoch& rank : epoch.ranks) {
        overhead += rank.steps[i].barrier_end - last_compute;
        barrier_wait += last_compute - rank.steps[i].compute_end;
        ++stamps;
      }
    }
  }
  if (stamps > 0) {
    out.step_overhead_us = overhead / static_cast<double>(stamps) * 1e6;
    out.barrier_wait_s = barrier_wait / static_cast<double>(ranks);
  }
  const double bytes = static_cast<double>(log.reads.bytes);
  if (out.wall_s > 0) out.bytes_per_s = bytes / out.wall_s;
  if (bytes > 0) out.cpu_s_per_gb = (log.cpu_user_s + log.cpu_system_s) / (bytes / 1e9);
  return out;
}

Demand ComputeDemand(double record_bytes, uint64_t batch_size, double computation_time, uint64_t accelerators,
                     uint64_t steps, uint64_t epochs, uint64_t samples, uint64_t read_threads,
                     uint64_t piece_bytes) {
  Demand out;
  out.bytes_per_s_per_accelerator = static_cast<double>(batch_size) * record_bytes / computation_time;
  out.bytes_per_s = out.bytes_per_s_per_accelerator * static_cast<double>(accelerators);
  out.epoch_s = static_cast<double>(steps) * computation_time;
  out.run_s = out.epoch_s * static_cast<double>(epochs);
  out.dataset_bytes = static_cast<uint64_t>(std::min(1e19, static_cast<double>(samples) * record_bytes));
  out.buffer_bytes = accelerators * read_threads * piece_bytes;
  return out;
}

std::string FewStepsNote(const MetricOptions& options, uint64_t steps, uint64_t samples, uint64_t ranks) {
  if (steps == 0) {
    return std::to_string(samples) + " samples do not make one batch of " +
           std::to_string(options.batch_size) + " on each of " + std::to_string(ranks) +
           " accelerators: 0 steps, AU is 0 by definition; use at least " +
           std::to_string(options.batch_size * ranks) + " samples, fewer accelerators or a smaller batch";
  }
  const size_t counted = WindowOf(options, steps).size();
  if (counted == 0) {
    return std::to_string(steps) + (steps == 1 ? " step" : " steps") +
           " an epoch, all outside the AU window: AU is 0 by definition; use more samples or fewer "
           "accelerators";
  }
  if (options.metric == Edition::kV20 && steps <= 2) {
    return "2 steps an epoch: the v2.0 formula counts two steps less than there are, so samples/s is 0 by "
           "definition; use more samples or fewer accelerators";
  }
  if (counted == 1) {
    return std::to_string(steps) +
           " steps an epoch: AU rests on one step only; use more samples for a steady "
           "figure";
  }
  return "";
}

std::string MetricBlock(const MetricOptions& options, const RunFigures& run, uint64_t accelerators) {
  const std::string rule = "[METRIC] " + std::string(58, '=') + "\n";
  std::string out = rule;
  if (options.metric != Edition::kV05) {
    out += "[METRIC] Number of Simulated Accelerators: " + std::to_string(accelerators) + "\n";
  }
  out += Line("Training Accelerator Utilization [AU] (%)", run.au_mean_percent, run.au_stdev_percent);
  out += Line("Training Throughput (samples/second)", run.samples_mean, run.samples_stdev);
  out += Line(options.metric == Edition::kV30 ? "Training I/O Throughput (MiB/second)"
                                              : "Training I/O Throughput (MB/second)",
              run.mib_mean, run.mib_stdev);
  out +=
      std::string("[METRIC] train_au_meet_expectation: ") + (run.meets_threshold ? "success" : "fail") + "\n";
  return out + rule;
}

}  // namespace stoker::bench
