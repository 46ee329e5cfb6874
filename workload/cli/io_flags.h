#pragma once

#include <string>
#include <vector>

#include "cache/base/result.h"
#include "workload/comm/launcher.h"
#include "workload/io/io_options.h"

namespace stoker::bench {

/// What `stoker-bench io` was asked.
struct IoCommand {
  IoOptions options;
  uint64_t tasks = 0;  // -N, of all processes; 0: one in each process that a launcher started
  MpiChoice mpi = MpiChoice::kAuto;
  bool old_table = false;  // --old-table: also the summary in the columns of IOR before 3.0
  bool help = false;
};

/// Reads a command line in IOR's spelling and checks it. kInvalidArgument: names option, value and what is
/// allowed.
Result<IoCommand> ParseIoArguments(const std::vector<std::string>& arguments);
std::string IoHelp();

}  // namespace stoker::bench
