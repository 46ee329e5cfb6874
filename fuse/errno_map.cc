#include "fuse/errno_map.h"

#include <cerrno>

#include "cache/base/check.h"

namespace stoker {

namespace {
constexpr int kFirstKernelInternalErrno = 512;  // ERESTARTSYS: include/linux/errno.h

bool MayBePassedOn(int err) {
  return err > 0 && err < kFirstKernelInternalErrno && err != ENOSYS;
}
}  // namespace

int ToErrno(const Status& status) {
  STOKER_CHECK(!status.ok());
  switch (status.code()) {
    // These two steer the kernel (retry with a fresh lookup; restart after the signal), so they come from our
    // code alone.
    case Code::kStale:
      return ESTALE;
    case Code::kCancelled:
      return EINTR;
    default:
      break;
  }
  if (MayBePassedOn(status.os_errno())) return status.os_errno();
  switch (status.code()) {
    case Code::kInvalidArgument:
      return EINVAL;
    case Code::kNotFound:
      return ENOENT;
    case Code::kAlreadyExists:
      return EEXIST;
    case Code::kPermissionDenied:
      return EACCES;
    case Code::kNotADirectory:
      return ENOTDIR;
    case Code::kIsADirectory:
      return EISDIR;
    case Code::kNameTooLong:
      return ENAMETOOLONG;
    case Code::kBusy:
      return EAGAIN;
    case Code::kDeadlineExceeded:
      return ETIMEDOUT;
    case Code::kUnsupported:
      return EOPNOTSUPP;
    case Code::kOk:
    case Code::kStale:
    case Code::kCancelled:
    case Code::kIo:
    case Code::kNoSpace:  // of the cache: nothing an application could free
    case Code::kCorruption:
    case Code::kUnavailable:
    case Code::kInternal:
      return EIO;
  }
  return EIO;
}

LogLevel LogLevelFor(const Status& status) {
  switch (status.code()) {
    case Code::kIo:
    case Code::kNoSpace:
    case Code::kBusy:
    case Code::kDeadlineExceeded:
    case Code::kCorruption:
    case Code::kUnavailable:
      return LogLevel::kWarn;
    case Code::kInternal:
      return LogLevel::kError;
    default:
      return LogLevel::kDebug;
  }
}

}  // namespace stoker
