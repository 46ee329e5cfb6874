#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"

namespace stoker {

/// How one thread moves bytes between files and memory, several operations at a time. Two ways behind one
/// face: a ring of its own (io_uring), or plain pread/pwrite done one by one inside Wait(). Owned by one
/// thread and used by it only. Buffers and descriptors must stay alive until their completion was returned.
class IoQueue {
 public:
  struct Completion {
    uint64_t tag = 0;
    /// Bytes moved (0 = end of file), or -errno. Short results are the caller's to continue.
    int64_t result = 0;
  };

  /// Drops what Wait() never submitted, asks the rest to end and waits for it: afterwards nothing touches the
  /// buffers. Unbounded on storage that answers nothing.
  virtual ~IoQueue() = default;
  /// Operations that may be under way at once; QueueRead/QueueWrite beyond it return false.
  virtual unsigned depth() const = 0;
  virtual bool QueueRead(int fd, std::span<std::byte> to, uint64_t offset, uint64_t tag) = 0;
  virtual bool QueueWrite(int fd, std::span<const std::byte> from, uint64_t offset, uint64_t tag) = 0;
  /// Submits what is queued, waits until at least one operation is done (or none is under way), appends all
  /// that are. An error here means that the queue itself broke, not one operation.
  virtual Status Wait(std::vector<Completion>& done) = 0;
  /// Operations queued or under way.
  virtual unsigned pending() const = 0;
  /// "io_uring" or "pread".
  virtual std::string_view kind() const = 0;
};

enum class IoMode { kAuto, kIoUring, kPread };

/// One queue for the calling thread. kAuto: io_uring, or pread where the kernel refuses it (sysctl
/// kernel.io_uring_disabled, seccomp, old kernel); kIoUring: kUnsupported with the reason instead of falling
/// back. kInvalidArgument: `depth` is not in 1 to 4096.
Result<std::unique_ptr<IoQueue>> MakeIoQueue(IoMode mode, unsigned depth);

/// Empty when this process may use io_uring, else why not (probed once, then remembered). The environment
/// variable STOKER_DISABLE_IO_URING=1 makes the process behave as if the kernel refused it.
std::string IoUringUnavailableReason();

}  // namespace stoker
