#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/result.h"

namespace stoker::bench {

/// What one task did in one phase, as it travels between processes. Times in seconds on the leader's steady
/// clock.
struct TaskRecord {
  double open_begin = 0;  // of a metadata test: the phase's begin
  double open_end = 0;
  double transfer_begin = 0;
  double transfer_end = 0;
  double close_begin = 0;
  double close_end = 0;      // of a metadata test: the phase's end
  double stonewall_end = 0;  // when it passed the time limit; 0: there was none
  uint64_t done = 0;         // transfers or items
  uint64_t stonewall_done = 0;
  uint64_t wrong = 0;         // words or files
  std::string first_wrong{};  // the first of them
  Status failure{};
};

/// What one process brings to the end of a phase.
struct ProcessRecord {
  std::vector<TaskRecord> tasks;
  double cpu_s = 0;
  bool interrupted = false;
};

std::string PackRecord(const ProcessRecord& record);
/// All processes' records as one. kCorruption: `texts` are not of PackRecord().
Result<ProcessRecord> JoinRecords(const std::vector<std::string>& texts);

}  // namespace stoker::bench
