#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/result.h"
#include "workload/profile.h"
#include "workload/rules.h"

namespace stoker::bench {

/// What the process leaves with.
enum ExitStatus : int {
  kExitPass = 0,         // done; run: AU at or above the threshold
  kExitError = 1,        // something failed while working: storage, disk, results
  kExitUsage = 2,        // found wrong before any work: flags, profile, dataset, results folder
  kExitBelow = 3,        // run: AU under the threshold
  kExitInterrupted = 4,  // SIGINT or SIGTERM; run: partial results were written
};

enum class Verb : uint8_t { kHelp, kDatasize, kDatagen, kRun };

/// A parsed command line: profile and rules chosen and overridden, numbers checked.
struct Command {
  Verb verb = Verb::kHelp;
  std::string text;  // kHelp: what to print
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

/// kInvalidArgument: wrong usage; the message names flag, value and what is allowed.
Result<Command> ParseCommandLine(int argc, const char* const* argv);

}  // namespace stoker::bench
