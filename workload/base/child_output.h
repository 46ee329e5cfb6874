#pragma once

#include <string>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"
#include "cache/base/result.h"

namespace stoker::bench {

/// What a short-lived command left behind.
struct ChildOutput {
  int exit_status = 0;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

/// Runs `argv` (argv[0]: a path, looked up nowhere) without a shell: stdin is empty, stdout and stderr are
/// taken, each up to 1 MiB (what is beyond is dropped). The command has a process group of its own, so that a
/// Ctrl-C meant for this program does not reach it. kDeadlineExceeded: it had not ended after `timeout`; it
/// and what it started are killed. kNotFound, kPermissionDenied and so on: it could not be started. Any
/// thread.
/// kCancelled: `cancel` came first; the command and what it started are killed as well.
Result<ChildOutput> RunChild(const std::vector<std::string>& argv, Nanos timeout,
                             const CancelToken& cancel = {});

}  // namespace stoker::bench
