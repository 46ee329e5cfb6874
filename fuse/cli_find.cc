#include "fuse/cli_find.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace stoker {
namespace {

constexpr auto kProbeTimeout = std::chrono::seconds(5);

Status NotOurs(const std::string& path, const std::optional<MountEntry>& there) {
  std::string message = "'" + path + "' is not inside a stoker mount";
  if (there && there->mountpoint != "/")
    message += " but in a mount of type " + there->type + " at " + there->mountpoint;
  return {Code::kNotFound, message + ": `stoker status` lists the mounts there are"};
}

Result<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> resolved(::realpath(path.c_str(), nullptr), &::free);
  if (resolved != nullptr) return std::string(resolved.get());
  const int error = errno;
  if (error == ENOTCONN) {
    return Status(
        Code::kUnavailable,
        "'" + path +
            "': the mount is dead, its daemon has died: `stoker umount` on its mount point clears it",
        error);
  }
  return Status::FromErrno(error, "'" + path + "'");
}

}  // namespace

Result<MountEntry> FindOurMount(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<MountEntry> mounts, ReadMounts());
  const Result<std::string> mountpoint = ResolveMountpoint(path);
  if (mountpoint.ok()) {
    const std::optional<MountEntry> exact = MountAt(mounts, *mountpoint);
    if (exact && exact->is_ours()) return *exact;
  }
  ASSIGN_OR_RETURN(const std::string real, RealPath(path));
  const std::optional<MountEntry> around = MountOf(mounts, real);
  if (around && around->is_ours()) return *around;
  return NotOurs(path, around);
}

namespace {

Result<PathInMount> FindReal(const std::string& path, const std::string& real) {
  ASSIGN_OR_RETURN(const std::vector<MountEntry> mounts, ReadMounts());
  const std::optional<MountEntry> mount = MountOf(mounts, real);
  if (!mount || !mount->is_ours()) {
    // Who names the UFS itself most likely means the mount that shows it.
    for (const MountEntry& other : mounts) {
      if (other.is_ours() && IsAtOrBelow(real, other.source)) {
        return Status(Code::kNotFound, "'" + path + "' is in the UFS itself: name it below its mount point " +
                                           other.mountpoint);
      }
    }
    return NotOurs(path, mount);
  }
  PathInMount found;
  found.mount = *mount;
  if (real.size() > mount->mountpoint.size()) found.ufs_path = real.substr(mount->mountpoint.size() + 1);
  return found;
}

/// As RealPath, but what does not exist at the end is taken as it is written.
Result<std::string> RealPathOfGone(const std::string& path) {
  std::string there = path;
  std::string gone;
  while (true) {
    const Result<std::string> real = RealPath(there.empty() ? "." : there);
    if (real.ok()) return gone.empty() ? *real : (*real == "/" ? "" : *real) + gone;
    if (real.status().os_errno() != ENOENT) return real.status();
    while (there.size() > 1 && there.back() == '/') there.pop_back();
    const size_t slash = there.rfind('/');
    const std::string name = slash == std::string::npos ? there : there.substr(slash + 1);
    if (name.empty() || name == "." || name == "..") {
      return Status(Code::kInvalidArgument,
                    "'" + path + "': '" + name +
                        "' stands behind something that does not exist: write the path without it");
    }
    gone = "/" + name + gone;
    there = slash == std::string::npos ? "" : slash == 0 ? "/" : there.substr(0, slash);
  }
}

}  // namespace

Result<PathInMount> FindInMount(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string real, RealPath(path));
  return FindReal(path, real);
}

Result<PathInMount> FindGoneInMount(const std::string& path) {
  if (path.empty())
    return Status(Code::kInvalidArgument, "a PATH is empty: name a file or directory inside a mount");
  ASSIGN_OR_RETURN(const std::string real, RealPathOfGone(path));
  return FindReal(path, real);
}

Status ExplainNoDaemon(const MountEntry& mount, const Status& from_client) {
  if (from_client.code() != Code::kUnavailable) return from_client;
  const Status probe = ProbePath(mount.mountpoint, kProbeTimeout);
  if (probe.os_errno() == ENOTCONN) {
    return {Code::kUnavailable, "'" + mount.mountpoint +
                                    "' is a dead mount, its daemon has died: `stoker umount " +
                                    mount.mountpoint + "` clears it, `stoker mount` there replaces it"};
  }
  if (mount.user_id && *mount.user_id != ::geteuid()) {
    return {Code::kPermissionDenied,
            "'" + mount.mountpoint + "' was mounted by user " + std::to_string(*mount.user_id) +
                ": ask as that user or as root, others may not use its control socket"};
  }
  return {Code::kUnavailable, "'" + mount.mountpoint + "' is mounted, but " + from_client.message()};
}

}  // namespace stoker
