#include "cache/ufs/ufs_factory.h"

#include <stdlib.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "cache/ufs/posix_ufs.h"

namespace stoker {
namespace {

constexpr std::string_view kFileScheme = "file://";

/// "scheme" of "scheme://…", "" when there is none. Letters, digits, '+', '-' and '.', as in RFC 3986.
std::string_view SchemeOf(std::string_view uri) {
  const size_t end = uri.find("://");
  if (end == std::string_view::npos || end == 0) return {};
  const std::string_view scheme = uri.substr(0, end);
  for (const char c : scheme) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '+' || c == '-' || c == '.';
    if (!fits) return {};
  }
  return scheme;
}

}  // namespace

Result<std::unique_ptr<Ufs>> MakeUfs(const std::string& uri, Metrics& metrics) {
  std::string path = uri;
  const std::string_view scheme = SchemeOf(uri);
  if (scheme == "file") {
    path = uri.substr(kFileScheme.size());
    if (path.empty() || path.front() != '/') {
      return Status(Code::kInvalidArgument,
                    "UFS '" + uri + "' names a host; a file URI has three slashes: file:///path");
    }
  } else if (!scheme.empty()) {
    return Status(Code::kInvalidArgument, "UFS '" + uri + "': unknown scheme '" + std::string(scheme) +
                                              "'; use /path or file:///path");
  }
  if (path.empty()) {
    return Status(Code::kInvalidArgument, "the UFS is empty; use /path or file:///path");
  }
  // One absolute name without symlinks: what is shown, and what other paths are compared with.
  const std::unique_ptr<char, decltype(&::free)> absolute(::realpath(path.c_str(), nullptr), &::free);
  if (absolute == nullptr) {
    const int err = errno;
    if (err == ENOENT) {
      return Status(
          Code::kNotFound,
          "UFS '" + path + "' does not exist; create it, mount the storage it lives on, or correct the path",
          err);
    }
    return Status::FromErrno(err, "cannot use UFS '" + path + "'");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<PosixUfs> ufs, PosixUfs::Open(absolute.get(), metrics));
  return std::unique_ptr<Ufs>(std::move(ufs));
}

}  // namespace stoker
