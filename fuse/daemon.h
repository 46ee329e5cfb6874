#pragma once

#include <string>
#include <vector>

#include "fuse/config_schema.h"
#include "fuse/daemonize.h"

namespace stoker {

struct DaemonRequest {
  std::string ufs;                      // URI
  std::string mountpoint;               // absolute, resolved, an empty directory
  Settings settings;                    // cache_dirs and log_file resolved
  std::vector<std::string> notes = {};  // what was done before the log was open; written to it first
};

/// Runs one mount from start to end on the calling thread: store, UFS, engine, file system, mount, control
/// socket; says ready once the mount and the socket answer; serves until SIGTERM, SIGINT, POST /stop or an
/// unmount from outside; stops in reverse, in bounded time. Returns the exit status: 0 after a clean stop, 1
/// otherwise. Every failure before "ready" is told to `ready` as well. Call before there are threads: it
/// decides which of them get signals.
int RunDaemon(const DaemonRequest& request, const ReadyCallback& ready);

}  // namespace stoker
