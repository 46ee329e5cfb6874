#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cache/base/result.h"

namespace stoker::bench {

/// What a Communicator needs from a message-passing library: nothing here waits, but for Split. Messages
/// between two processes keep their order. Errors (kUnavailable) come from the library and are final. One
/// caller at a time.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual uint64_t rank() const = 0;
  virtual uint64_t size() const = 0;
  virtual std::string Library() const = 0;

  /// Begins to send; the bytes are kept until they are gone.
  virtual Status Send(uint64_t to, std::string bytes) = 0;
  /// Sends that are still under way, after some progress.
  virtual Result<size_t> Unsent() = 0;

  struct Message {
    uint64_t from = 0;
    std::string bytes;
  };
  /// The next message that is here whole.
  virtual Result<std::optional<Message>> Receive() = 0;

  /// Comes to the next barrier. REQUIRES the last one done.
  virtual Status StartBarrier() = 0;
  /// True once every process has come. REQUIRES StartBarrier().
  virtual Result<bool> BarrierDone() = 0;

  /// Collective, and waits for all processes: those with the same number form a transport of their own.
  virtual Result<std::unique_ptr<Transport>> Split(uint64_t number) = 0;
  /// Collective, last: gives the library back. REQUIRES nothing under way.
  virtual Status Close() = 0;
  [[noreturn]] virtual void Abort(int exit_status) = 0;
};

}  // namespace stoker::bench
