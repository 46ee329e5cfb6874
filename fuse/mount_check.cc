#include "fuse/mount_check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/metrics.h"
#include "cache/ufs/ufs_factory.h"
#include "fuse/control_client.h"
#include "fuse/control_path.h"
#include "fuse/mount_table.h"

namespace stoker {
namespace {

constexpr auto kProbeTimeout =
    std::chrono::seconds(5);  // a live mount answers a stat of its root from memory

std::string Quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// What is in the way at a mount point that is a mount already. Ok: a dead mount of ours, which may be
/// cleared.
Status CheckExistingMount(const MountEntry& mount) {
  const std::string name = Quoted(mount.mountpoint);
  if (!mount.is_ours()) {
    return {Code::kAlreadyExists, "mount point " + name + " is a mount already (" + mount.type + " of " +
                                      mount.source + "): unmount it or choose another directory"};
  }
  ControlClient client(ControlSocketPath(mount.mountpoint), kProbeTimeout);
  const Result<DaemonStatus> status = client.Describe();
  if (status.ok()) {
    return {Code::kAlreadyExists, name + " is already mounted by stoker pid " + std::to_string(status->pid) +
                                      ": `stoker umount " + mount.mountpoint + "` ends it"};
  }
  const Status probe = ProbePath(mount.mountpoint, kProbeTimeout);
  if (probe.os_errno() == ENOTCONN) return Status::Ok();
  return {Code::kAlreadyExists,
          name + " is already mounted by a stoker whose control socket does not answer (" +
              status.status().message() + "): `stoker umount " + mount.mountpoint + "` takes it away"};
}

Status CheckEmptyDirectory(const std::string& mountpoint) {
  struct stat st;
  if (::stat(mountpoint.c_str(), &st) != 0) {
    if (errno == ENOENT) {
      return {Code::kNotFound, "mount point " + Quoted(mountpoint) +
                                   " does not exist: create it with `mkdir -p " + mountpoint + "`"};
    }
    return Status::FromErrno(errno, "cannot use mount point " + Quoted(mountpoint));
  }
  if (!S_ISDIR(st.st_mode)) {
    return {Code::kNotADirectory,
            "mount point " + Quoted(mountpoint) + " is not a directory: choose an empty directory"};
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(mountpoint.c_str()), &::closedir);
  if (dir == nullptr) return Status::FromErrno(errno, "cannot look into mount point " + Quoted(mountpoint));
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    return {Code::kInvalidArgument, "mount point " + Quoted(mountpoint) + " is not empty (it holds " +
                                        Quoted(name) + "): choose an empty directory"};
  }
  return Status::Ok();
}

/// The UFS, a cache directory and the mount point must not lie in each other.
Status CheckApart(const MountPlan& plan, const std::string& cache_dir) {
  struct Pair {
    const std::string& inner;
    const std::string& outer;
    std::string message;
  };
  const std::string cache = "cache directory " + Quoted(cache_dir);
  const std::string ufs = "UFS " + Quoted(plan.ufs);
  const std::string mount = "mount point " + Quoted(plan.mountpoint);
  const Pair pairs[] = {
      {cache_dir, plan.ufs, cache + " lies inside the " + ufs + ": set cache.dirs to a place outside of it"},
      {cache_dir, plan.mountpoint,
       cache + " lies inside the " + mount + ": set cache.dirs to a place outside of it"},
      {plan.ufs, cache_dir, ufs + " lies inside the " + cache + ": set cache.dirs to a place of its own"},
      {plan.mountpoint, cache_dir,
       mount + " lies inside the " + cache + ": set cache.dirs to a place of its own"},
      {plan.mountpoint, plan.ufs,
       mount + " lies inside the " + ufs + ", it would show itself: choose one outside of it"},
      {plan.ufs, plan.mountpoint,
       ufs + " lies inside the " + mount + ", which would hide it: choose another one"},
  };
  for (const Pair& pair : pairs) {
    ASSIGN_OR_RETURN(const bool within, LiesWithin(pair.inner, pair.outer));
    if (within) return {Code::kInvalidArgument, pair.message};
  }
  return Status::Ok();
}

Status CheckCacheDir(const std::string& dir) {
  std::string existing = dir;
  struct stat st;
  while (::stat(existing.c_str(), &st) != 0) {
    if (errno != ENOENT || existing == "/") {
      return Status::FromErrno(errno, "cannot use cache directory " + Quoted(dir));
    }
    existing = ParentOf(existing);
  }
  if (!S_ISDIR(st.st_mode)) {
    return {Code::kNotADirectory, "cache directory " + Quoted(dir) + ": " + Quoted(existing) +
                                      " is not a directory: set cache.dirs to another place"};
  }
  if (::faccessat(AT_FDCWD, existing.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    const Status reason = Status::FromErrno(errno, "cache directory " + Quoted(dir) + " is not writable");
    return {Code::kInvalidArgument,
            reason.message() + ": set cache.dirs to a place on a writable local disk"};
  }
  return Status::Ok();
}

/// Fills in plan.cache_dirs. With one directory everything that is wrong with it is an error; of several,
/// what only a disk can be blamed for is left to the store, which goes on without that one.
Status CheckCacheDirs(const std::vector<std::string>& dirs, MountPlan& plan) {
  Status first;
  std::vector<std::string> usable;
  for (const std::string& dir : dirs) {
    Result<std::string> resolved = ResolveFuturePath(dir);
    Status status = resolved.status();
    if (!resolved.ok()) {
      status = Status(status.code(),
                      "cannot use cache directory " + status.message() + ": set cache.dirs to another place",
                      status.os_errno());
      plan.cache_dirs.push_back(dir);
    } else {
      if (!plan.clear_dead_mount) RETURN_IF_ERROR(CheckApart(plan, *resolved));
      status = CheckCacheDir(*resolved);
      if (status.code() == Code::kNotADirectory) return status;
      if (status.ok()) usable.push_back(*resolved);
      plan.cache_dirs.push_back(*resolved);
    }
    if (!status.ok() && first.ok()) first = status;
  }
  if (usable.empty()) return first;
  for (size_t i = 0; i < plan.cache_dirs.size(); ++i) {
    for (size_t j = 0; j < plan.cache_dirs.size(); ++j) {
      if (i == j) continue;
      const std::string& one = plan.cache_dirs[i];
      const std::string& other = plan.cache_dirs[j];
      const Result<bool> within = LiesWithin(one, other);
      if (!within.ok() || !*within) continue;  // a disk that cannot tell is down, and its path says nothing
      const Result<bool> same = LiesWithin(other, one);
      const bool twice = same.ok() && *same;
      return {Code::kInvalidArgument, "cache directory " + Quoted(dirs[i]) +
                                          (twice ? " is the same as " : " lies inside ") + Quoted(dirs[j]) +
                                          ": name each disk once in cache.dirs"};
    }
  }
  return Status::Ok();
}

Status CheckFuseDevice() {
  const char* remedy =
      ": load the module with `modprobe fuse`; for a container add `--device /dev/fuse --cap-add SYS_ADMIN`";
  struct stat st;
  if (::stat("/dev/fuse", &st) != 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(10, 229)) {
    return {Code::kUnsupported, std::string("there is no /dev/fuse") + remedy};
  }
  const Fd fd(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (fd.valid()) return Status::Ok();
  if (errno == EACCES || errno == EPERM) {
    return {Code::kPermissionDenied,
            "not permitted to open /dev/fuse: run as root; for a container add `--device "
            "/dev/fuse --cap-add SYS_ADMIN`",
            errno};
  }
  if (errno == ENODEV || errno == ENXIO || errno == ENOENT) {
    return {Code::kUnsupported, std::string("/dev/fuse is there, but the kernel has no FUSE") + remedy,
            errno};
  }
  return Status::FromErrno(errno, "cannot open /dev/fuse");
}

}  // namespace

Result<std::string> ResolveFuturePath(const std::string& path) {
  std::string existing = path;
  std::string missing;
  while (true) {
    const std::unique_ptr<char, decltype(&::free)> resolved(::realpath(existing.c_str(), nullptr), &::free);
    if (resolved != nullptr) {
      const std::string base = resolved.get();
      return missing.empty() ? base : (base == "/" ? "" : base) + missing;
    }
    if (errno != ENOENT || existing.empty() || existing == "/") return Status::FromErrno(errno, Quoted(path));
    while (existing.size() > 1 && existing.back() == '/') existing.pop_back();
    const size_t slash = existing.rfind('/');
    const std::string name = slash == std::string::npos ? existing : existing.substr(slash + 1);
    if (name == "." || name == "..")
      return Status(Code::kInvalidArgument, Quoted(path) + " goes through what does not exist");
    missing = "/" + name + missing;
    existing = slash == std::string::npos ? "." : slash == 0 ? "/" : existing.substr(0, slash);
  }
}

Result<bool> LiesWithin(const std::string& path, const std::string& dir) {
  if (IsAtOrBelow(path, dir)) return true;
  struct stat target;
  if (::stat(dir.c_str(), &target) != 0) {
    if (errno == ENOENT) return false;  // nothing can be in it yet, but by name, which was asked above
    return Status::FromErrno(errno, Quoted(dir));
  }
  for (std::string at = path;; at = ParentOf(at)) {
    struct stat st;
    if (::stat(at.c_str(), &st) == 0) {
      if (SameFile(st, target)) return true;
    } else if (errno != ENOENT) {
      return Status::FromErrno(errno, Quoted(at));
    }
    if (at == "/") return false;
  }
}

Result<uint64_t> DiskBytes(const std::string& path) {
  for (std::string at = path;; at = ParentOf(at)) {
    struct statvfs st;
    if (::statvfs(at.c_str(), &st) == 0) return static_cast<uint64_t>(st.f_blocks) * st.f_frsize;
    if (errno != ENOENT || at == "/")
      return Status::FromErrno(errno, "cannot tell the size of the disk of " + Quoted(path));
  }
}

Result<MountPlan> CheckMount(const std::string& ufs, const std::string& mountpoint,
                             const Settings& settings) {
  MountPlan plan;
  {
    Metrics unused;  // this driver only tells whether the UFS can be used, and its name
    ASSIGN_OR_RETURN(const std::unique_ptr<Ufs> driver, MakeUfs(ufs, unused));
    plan.ufs = driver->uri();
  }
  Result<std::string> resolved = ResolveMountpoint(mountpoint);
  if (!resolved.ok()) {
    const Status& status = resolved.status();
    if (status.code() == Code::kNotFound) {
      return Status(Code::kNotFound, "mount point " + Quoted(mountpoint) +
                                         " does not exist: create it with `mkdir -p " + mountpoint + "`");
    }
    return Status(status.code(), "cannot use mount point " + status.message(), status.os_errno());
  }
  plan.mountpoint = *resolved;
  ASSIGN_OR_RETURN(const std::vector<MountEntry> mounts, ReadMounts());
  if (const std::optional<MountEntry> existing = MountAt(mounts, plan.mountpoint)) {
    RETURN_IF_ERROR(CheckExistingMount(*existing));
    plan.clear_dead_mount = true;
  } else {
    RETURN_IF_ERROR(CheckEmptyDirectory(plan.mountpoint));
  }
  RETURN_IF_ERROR(CheckCacheDirs(settings.cache_dirs, plan));
  RETURN_IF_ERROR(CheckFuseDevice());
  return plan;
}

Status ClearDeadMount(const std::string& mountpoint) {
  // A dead mount may lie on another one; each round takes one away.
  constexpr int kMaxLayers = 16;
  for (int layer = 0; layer < kMaxLayers; ++layer) {
    ASSIGN_OR_RETURN(const std::vector<MountEntry> mounts, ReadMounts());
    const std::optional<MountEntry> existing = MountAt(mounts, mountpoint);
    if (!existing) return CheckEmptyDirectory(mountpoint);
    RETURN_IF_ERROR(CheckExistingMount(*existing));
    RETURN_IF_ERROR(Unmount(mountpoint, true));
  }
  return {Code::kBusy,
          "mounts keep appearing at " + Quoted(mountpoint) + ": is another program mounting there?"};
}

}  // namespace stoker
