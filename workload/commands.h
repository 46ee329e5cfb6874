#pragma once

#include "cache/base/cancel.h"
#include "workload/cli.h"

namespace stoker::bench {

/// Does what the command line asked for, talks on stdout and stderr, returns the exit status. `cancel` is set
/// by SIGINT and SIGTERM.
int RunCommand(const Command& command, const CancelToken& cancel);

}  // namespace stoker::bench
