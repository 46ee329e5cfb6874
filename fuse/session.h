#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "cache/base/result.h"
#include "fuse/filesystem.h"

namespace stoker {

enum class PassthroughMode { kAuto, kOn, kOff };

struct SessionOptions {
  std::string mountpoint;                                // absolute, resolved
  std::string fsname;                                    // shown in /proc/mounts: the UFS
  PassthroughMode passthrough = PassthroughMode::kAuto;  // kOn: Mount fails when it cannot be had
  bool allow_other = true;
  uint32_t max_background = 512;  // requests the kernel may have waiting (reads of different files share it)
  uint64_t read_ahead_bytes = 1 << 20;  // of the mount's backing device, for daemon-served files
  uint32_t max_threads = 0;             // 0: the library's choice
  std::chrono::nanoseconds stop_grace = std::chrono::seconds(5);  // a stop never takes longer than about this
  std::string probe_dir;  // where passthrough is tried on a scratch file: the cache directory
};

struct PassthroughState {
  bool active = false;
  std::string reason;  // for people: why it is on or off
};

/// The mount and the kernel's requests. Owner: fuse/daemon. Mount() and Run() on one thread; RequestStop()
/// from any thread or signal handler.
class Session {
 public:
  /// Mounts, negotiates, probes passthrough. When it returns ok the kernel has the mount; it answers once
  /// Run() runs.
  static Result<std::unique_ptr<Session>> Mount(const SessionOptions& options, Filesystem& filesystem);
  virtual ~Session() = default;
  /// Serves until unmounted from outside or RequestStop(). On return the mount is gone (detached if it was
  /// busy) and no handler runs any more.
  virtual Status Run() = 0;
  /// Async-signal-safe.
  virtual void RequestStop() = 0;
  /// Blocks until the mount has answered a request from this machine, at most `timeout`.
  virtual Status WaitReady(std::chrono::nanoseconds timeout) = 0;
  virtual PassthroughState passthrough() const = 0;
};

}  // namespace stoker
