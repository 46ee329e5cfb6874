#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workload/report/results.h"

namespace stoker::bench {

/// One run of one contender, reduced to what is compared.
struct TurnFigures {
  size_t contender = 0;
  uint64_t round = 0;     // from 0
  uint64_t position = 0;  // in the round's order, from 0
  std::string status;     // "complete", "interrupted", "failed"
  bool valid = false;     // others are listed, not counted
  uint64_t read_errors = 0;
  std::string first_read_error;  // names the file; empty without errors
  double au_percent = 0;
  double nominal_mib_per_s = 0;
  double true_mib_per_s = 0;
  double call_p50_us = 0, call_p99_us = 0, file_p99_us = 0;
  std::optional<double> page_cache_before;  // share of a sample of the dataset
  std::optional<uint64_t> ufs_bytes;        // what the daemon brought in, on a Stoker mount
  uint64_t read_bytes = 0;
  bool client_cpu_limits = false;
};
TurnFigures TurnOf(const RunRecord& record, size_t contender, uint64_t round, uint64_t position);

/// Where a contender's data lies.
struct ContenderPlace {
  std::string name, dir, mount, fstype;
};

/// Middle and ends of one figure over the rounds that count.
struct Spread {
  double median = 0, low = 0, high = 0;
};
/// Of no values: all 0. An even number: the mean of the two in the middle.
Spread SpreadOf(std::vector<double> values);

/// One contender over all rounds.
struct ContenderFigures {
  uint64_t counted = 0;  // valid turns
  Spread au_percent, nominal_mib_per_s, true_mib_per_s;
  Spread call_p50_us, call_p99_us, file_p99_us;
  Spread ratio;  // nominal MiB/s to the first contender's in the same round; 0 when they share none
  std::optional<double> page_cache_before;  // the largest
  std::optional<uint64_t> ufs_bytes;        // of all counted turns
  uint64_t read_bytes = 0;
  bool client_cpu_limits = false;  // in any turn
};
std::vector<ContenderFigures> CompareTurns(size_t contenders, const std::vector<TurnFigures>& turns);

/// The table, and below it what has to be known to read it: page cache, the client, turns that do not count.
/// Pure.
std::string ComparisonText(const std::vector<ContenderPlace>& places, const std::vector<TurnFigures>& turns);
/// The same with every turn. Pure.
std::string ComparisonJson(const std::vector<ContenderPlace>& places, const std::vector<TurnFigures>& turns,
                           const Command& command);

}  // namespace stoker::bench
