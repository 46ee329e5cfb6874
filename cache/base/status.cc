#include "cache/base/status.h"

#include <cerrno>
#include <system_error>

namespace stoker {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "Ok";
    case Code::kInvalidArgument:
      return "InvalidArgument";
    case Code::kNotFound:
      return "NotFound";
    case Code::kAlreadyExists:
      return "AlreadyExists";
    case Code::kPermissionDenied:
      return "PermissionDenied";
    case Code::kNotADirectory:
      return "NotADirectory";
    case Code::kIsADirectory:
      return "IsADirectory";
    case Code::kNameTooLong:
      return "NameTooLong";
    case Code::kIo:
      return "Io";
    case Code::kNoSpace:
      return "NoSpace";
    case Code::kBusy:
      return "Busy";
    case Code::kCancelled:
      return "Cancelled";
    case Code::kDeadlineExceeded:
      return "DeadlineExceeded";
    case Code::kStale:
      return "Stale";
    case Code::kCorruption:
      return "Corruption";
    case Code::kUnsupported:
      return "Unsupported";
    case Code::kUnavailable:
      return "Unavailable";
    case Code::kInternal:
      return "Internal";
  }
  return "Unknown";
}

namespace {
Code CodeFromErrno(int err) {
  switch (err) {
    case 0:
      return Code::kOk;
    case EINVAL:
      return Code::kInvalidArgument;
    case ENOENT:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case ENOTDIR:
      return Code::kNotADirectory;
    case EISDIR:
      return Code::kIsADirectory;
    case ENAMETOOLONG:
      return Code::kNameTooLong;
    case ENOSPC:
    case EDQUOT:
      return Code::kNoSpace;
    case EBUSY:
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::kBusy;
    case EINTR:
    case ECANCELED:
      return Code::kCancelled;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    case ESTALE:
      return Code::kStale;
    case EOPNOTSUPP:
    case ENOSYS:
      return Code::kUnsupported;
    case ENOTCONN:
    case ECONNREFUSED:
      return Code::kUnavailable;
    default:
      return Code::kIo;
  }
}
}  // namespace

Status Status::FromErrno(int err, std::string_view what) {
  if (err == 0) return {Code::kInternal, std::string(what) + ": failed without an errno"};
  return {CodeFromErrno(err), std::string(what) + ": " + std::generic_category().message(err), err};
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(CodeName(code_)) + ": " + message_;
}

}  // namespace stoker
