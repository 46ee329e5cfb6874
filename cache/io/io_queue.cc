#include "cache/io/io_queue.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "cache/base/log.h"
#include "cache/io/queues.h"

namespace stoker {
namespace {

/// More than any device takes at once, far below the kernel's own limit of 32768.
constexpr unsigned kMaxDepth = 4096;

/// STOKER_DISABLE_IO_URING=1 makes this process behave as if the kernel refused io_uring: the fallback can be
/// tested, and chosen for good where a ring misbehaves.
bool DisabledByEnvironment() {
  const char* text = std::getenv("STOKER_DISABLE_IO_URING");
  return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
}

}  // namespace

std::string IoUringUnavailableReason() {
  static const std::string reason =
      DisabledByEnvironment() ? "switched off by STOKER_DISABLE_IO_URING" : ProbeRing();
  return reason;
}

Result<std::unique_ptr<IoQueue>> MakeIoQueue(IoMode mode, unsigned depth) {
  if (depth == 0 || depth > kMaxDepth) {
    return Status(Code::kInvalidArgument,
                  "I/O queue depth " + std::to_string(depth) + ": must be 1 to " + std::to_string(kMaxDepth));
  }
  if (mode == IoMode::kPread) return MakePreadQueue(depth);
  const std::string reason = IoUringUnavailableReason();
  if (reason.empty()) {
    Result<std::unique_ptr<IoQueue>> ring = MakeRingQueue(depth);
    if (ring.ok() || mode == IoMode::kIoUring) return ring;
    // The kernel has rings but not for us now (descriptors or locked memory ran out): slower beats not at
    // all.
    LogWarn("io", ring.status().message() + "; this thread reads with pread instead");
    return MakePreadQueue(depth);
  }
  if (mode == IoMode::kIoUring) return Status(Code::kUnsupported, "io_uring: " + reason);
  return MakePreadQueue(depth);
}

}  // namespace stoker
