#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"
#include "workload/train/training_log.h"

namespace stoker::bench {

/// A log as bytes, for another process of the same program on a machine of the same byte order. All of it
/// but `stuck`, which concerns its own process only.
std::string EncodeTrainingLog(const TrainingLog& log);
/// kCorruption: not such bytes.
Result<TrainingLog> DecodeTrainingLog(std::string_view bytes);

/// The log of a process, as one of several that made a run together. Plain values.
struct LogPart {
  std::string name;          // of the process, for its failure's message
  uint64_t first_rank = 0;   // its ranks within the run
  uint64_t ranks = 0;        // how many there would be
  double clock_ahead_s = 0;  // its steady clock less that of the first part's process
  bool received = false;     // false: the process did not send its log
  TrainingLog log;
};

/// One log of all ranks, on the clock of the first part. An epoch is complete when it is so everywhere. The
/// first part's failure comes first, then that of the others, with their names; a missing log is a failure
/// too. REQUIRES parts not empty, in the order of their ranks, the first received.
TrainingLog MergeLogs(const std::vector<LogPart>& parts);

}  // namespace stoker::bench
