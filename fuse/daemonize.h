#pragma once

#include <functional>
#include <string>

#include "cache/base/result.h"

namespace stoker {

/// What the daemon's process tells the one that waits: ready, or why not. Once; later calls do nothing.
using ReadyCallback = std::function<void(const Status&)>;

/// Forks a daemon and waits for it to say that it is ready. Call before there are threads.
/// The child leaves the caller's session and terminal (stdin from /dev/null, stdout and stderr to `log_file`,
/// working directory /), runs `run`, and exits with what that returns; `run` is given the callback to say
/// ready with. Returns in the parent only: the daemon's pid, or the child's own Status, or kInternal when it
/// ended without a word (the message says how, and where its log is).
Result<int> RunInBackground(const std::string& log_file, const std::function<int(const ReadyCallback&)>& run);

}  // namespace stoker
