#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/base/status.h"
#include "workload/base/command.h"
#include "workload/base/cpu_use.h"
#include "workload/report/capacity_limit.h"
#include "workload/report/capacity_search.h"
#include "workload/report/step_shares.h"

namespace stoker::bench {

/// One measurement of one number of accelerators.
struct CapacityMeasurement {
  CapacityProbe probe;
  double au_percent = 0;
  StepShares shares;  // of the steps that count
  CpuUse cpu;
  uint64_t steps = 0;      // that counted
  double seconds = 0;      // all of it
  double bytes_per_s = 0;  // true bytes over the epoch's time
  bool cut = false;        // ended early: it took several times as long as a fed one takes
};

/// The search for one workload: what was asked, measured, found.
struct CapacityRecord {
  Command command;              // accelerators, epochs: not used
  CapacityOptions options;      // max: what was really tried at most
  std::string max_reason;       // why not more than max
  uint64_t counted_steps = 0;   // of one measurement; fewer where the dataset has no more
  uint64_t margin_steps = 0;    // before and after them, not counted
  double bytes_per_s_each = 0;  // demand of one accelerator at AU 100 %
  CapacityResult result;
  std::vector<CapacityMeasurement> measurements;
  std::optional<StepShares> null_shares;  // of the first number that was too many, without reading
  LimitVerdict limit;
  double seconds = 0;
  std::string ended_early;   // why the search was not finished: "" when it was
  bool interrupted = false;  // by a signal
  Status failure;            // the storage failed
  bool stuck = false;        // threads hang in reads: leave with _exit
};

/// What was proved, with the confidence, in a sentence. Pure.
std::string CapacityStatement(const CapacityRecord& record);
/// One line per workload. Pure.
std::string CapacityTable(const std::vector<CapacityRecord>& records);
/// capacity.json: all of it. Pure.
std::string CapacityJson(const std::vector<CapacityRecord>& records, const std::string& hostname);

}  // namespace stoker::bench
