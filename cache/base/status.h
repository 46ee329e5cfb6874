#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace stoker {

/// Closed list of what can go wrong. Rooms speak Code; only fuse/errno_map turns it into what the kernel is
/// told.
enum class Code : uint8_t {
  kOk = 0,
  kInvalidArgument,  // the caller's value is wrong; the message names it and the remedy
  kNotFound,         // the thing asked for does not exist
  kAlreadyExists,
  kPermissionDenied,
  kNotADirectory,
  kIsADirectory,
  kNameTooLong,
  kIo,         // a device or a server failed; os_errno() kept when there is one
  kNoSpace,    // the cache (or its disk) cannot take more; callers bypass
  kBusy,       // a bounded resource is full or held by somebody else; may be tried again
  kCancelled,  // the asker went away or we are shutting down
  kDeadlineExceeded,
  kStale,       // the UFS no longer holds the version that was asked for
  kCorruption,  // stored bytes or records do not match their checksum
  kUnsupported,
  kUnavailable,  // the other side cannot be reached now
  kInternal,     // a broken assumption of ours
};

/// Short stable name, e.g. "NotFound".
std::string_view CodeName(Code code);

/// Success, or a Code with a message for people and, where the operating system said no, its errno.
/// A value type; must be looked at (nodiscard).
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, int os_errno = 0)
      : code_(code), os_errno_(os_errno), message_(std::move(message)) {}

  static Status Ok() { return {}; }
  /// "what: strerror(err)" with the Code that fits err (ENOENT → kNotFound, ENOSPC → kNoSpace, …).
  static Status FromErrno(int err, std::string_view what);

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  /// The operating system's errno, 0 when it was not involved.
  int os_errno() const { return os_errno_; }
  const std::string& message() const { return message_; }
  /// True when the same call may succeed later without anybody changing anything.
  bool retryable() const {
    return code_ == Code::kBusy || code_ == Code::kUnavailable || code_ == Code::kDeadlineExceeded ||
           code_ == Code::kIo;
  }
  /// "NotFound: message", or "ok".
  std::string ToString() const;

 private:
  Code code_ = Code::kOk;
  int os_errno_ = 0;
  std::string message_;
};

/// States on purpose that a Status does not matter here; say why in a comment beside the call.
inline void IgnoreStatus(const Status&) {}

}  // namespace stoker

#define STOKER_CONCAT_INNER(a, b) a##b
#define STOKER_CONCAT(a, b) STOKER_CONCAT_INNER(a, b)

/// Returns the Status of `expr` from this function unless it is ok.
#define RETURN_IF_ERROR(expr)                                             \
  do {                                                                    \
    if (::stoker::Status status_ = (expr); !status_.ok()) return status_; \
  } while (0)

/// Evaluates a Result; returns its Status on error, else moves its value into `lhs`.
#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_IMPL(STOKER_CONCAT(result_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                          \
  if (!tmp.ok()) return tmp.status();         \
  lhs = std::move(tmp).value()
