#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "cache/base/log.h"
#include "fuse/filesystem.h"
#include "fuse/interrupt_watch.h"

namespace stoker {

/// What the kernel said at the start, and what was asked of it.
struct InitFacts {
  std::atomic<bool> done{false};
  uint32_t kernel_minor = 0;
  bool passthrough_offered = false;
};

/// What every request needs: libfuse's userdata. One per mount; outlives all requests.
class FuseContext {
 public:
  FuseContext(Filesystem& filesystem, uint32_t max_background, bool want_passthrough)
      : filesystem_(filesystem),
        interrupts_(filesystem),
        max_background_(max_background),
        want_passthrough_(want_passthrough) {}

  Filesystem& filesystem() { return filesystem_; }
  uint32_t max_background() const { return max_background_; }
  bool want_passthrough() const { return want_passthrough_; }
  InterruptWatch& interrupts() { return interrupts_; }
  InitFacts& init() { return init_; }
  /// A broken storage fails thousands of requests a second.
  LogLimiter& failures_log() { return failures_log_; }

  /// A request was taken on / has been answered and will not touch libfuse again.
  void Begin();
  void End();
  /// Waits until no request is being answered; false when that took longer than `timeout`.
  bool Drain(std::chrono::nanoseconds timeout) const;

 private:
  Filesystem& filesystem_;
  InterruptWatch interrupts_;
  const uint32_t max_background_;
  const bool want_passthrough_;
  InitFacts init_;
  LogLimiter failures_log_{10};  // enough to see which kinds there are
  std::atomic<int64_t> open_requests_{0};
};

/// Request ↔ Filesystem call, nothing else. Operations that are not here are refused by the kernel (the mount
/// is read-only) or answered ENOSYS once, after which the kernel does without them (flush, access, fsync,
/// locks).
const fuse_lowlevel_ops& FuseOps();

/// Called by each thread that serves requests, first. Only these keep pipes: libfuse gives a thread's own
/// pipe back only when the thread ends before the session does, and others (the engine's) do not.
void BeServingThread();

/// The way to and from /dev/fuse: libfuse 3.14 knows neither passthrough nor parallel directory operations,
/// so its INIT reply is completed on the way out. `userdata` is the FuseContext.
const fuse_custom_io& FuseIo();

}  // namespace stoker
