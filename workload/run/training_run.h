#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/result.h"
#include "workload/base/command.h"
#include "workload/report/results.h"
#include "workload/train/trainer.h"

namespace stoker::bench {

/// Everything about one training run that is known before it begins. Plain values: the same plan may be run
/// any number of times.
struct TrainingPlan {
  RunRecord record;  // command, host, metric options, steps, demand, note; the rest is filled by the run
  TrainerOptions options;
  uint64_t host_ranks = 0;                    // accelerators of this host's processes; 0: all
  uint64_t piece_bytes = 0;                   // of one read call, as it will be
  std::vector<std::string> residency_sample;  // files looked at for the page cache's share; none for --null
};

/// Reads the host's figures, looks for the dataset, works out steps and demand. Reads no data.
/// kInvalidArgument: the dataset is missing or too small for the accelerators; the message says how to make
/// one.
Result<TrainingPlan> PlanTraining(const Command& command);

/// What a person should know before the run: sizes, demand, buffers, duration. One line each.
std::vector<std::string> PlanLines(const TrainingPlan& plan);
/// What makes the figures doubtful: a dataset that fits in memory, too few steps. One sentence each.
std::vector<std::string> PlanWarnings(const TrainingPlan& plan);

/// What a run says while it works; empty functions are silent. Called from the thread that called RunOnce().
struct RunListener {
  std::function<void(const std::string&)> say;   // a line per epoch
  std::function<void(const std::string&)> warn;  // what was found at the start, e.g. a hot page cache
};

/// Runs the plan once: page cache looked at before and after, epochs, figures. Nothing is written. A run cut
/// short by `cancel`, by a time-out or by read errors is a record too: see RunRecord::status() and
/// log.failure. When record.log.stuck the process must leave with _exit: threads wait in reads that may never
/// return.
RunRecord RunOnce(const TrainingPlan& plan, const CancelToken& cancel, const RunListener& listener = {});

/// "AU 93.1 % (threshold 90 %): PASS", FAIL, PARTIAL or INVALID.
std::string Verdict(const RunRecord& record);

}  // namespace stoker::bench
