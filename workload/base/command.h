#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/clock.h"
#include "workload/base/profile.h"
#include "workload/base/rules.h"

namespace stoker::bench {

/// What was asked of the training verbs (datasize, datagen, run, …): profile and rules chosen and overridden,
/// numbers checked. Plain values.
struct Command {
  Profile profile;
  Rules rules;
  std::vector<std::string> rule_overrides;  // flags that changed `rules`, e.g. "--order"
  uint64_t accelerators = 1;
  double host_memory_gb = 0;  // 0: not given
  uint64_t client_hosts = 1;
  std::string data_dir;
  std::string results_dir;
  uint64_t writers = 0;
  uint64_t seed = 0;  // datagen: of sizes and bytes; run: of the order
  bool null_storage = false;
  uint64_t read_piece_bytes = 0;  // 0: the shape's default
  Nanos step_timeout = std::chrono::minutes(10);
  std::string org;
  std::string system;
};

}  // namespace stoker::bench
