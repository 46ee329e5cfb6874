#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"

namespace stoker {

/// File system type of our mounts in /proc/self/mountinfo.
inline constexpr std::string_view kMountType = "fuse.stoker";

/// One line of /proc/self/mountinfo.
struct MountEntry {
  std::string mountpoint;
  std::string type;    // "ext4", "fuse.stoker"
  std::string source;  // what was mounted: for ours, the UFS
  unsigned dev_major = 0;
  unsigned dev_minor = 0;        // for FUSE: the name of its directory in /sys/fs/fuse/connections
  std::optional<uid_t> user_id;  // FUSE: who mounted it

  bool is_ours() const { return type == kMountType; }
};

/// The mounts this process sees, in the kernel's order (a later one covers an earlier one at the same place).
Result<std::vector<MountEntry>> ReadMounts();
/// The same from text, for tests. Lines that cannot be understood are left out.
std::vector<MountEntry> ParseMountInfo(std::string_view text);

/// What is mounted exactly at this absolute path: the uppermost one.
std::optional<MountEntry> MountAt(const std::vector<MountEntry>& mounts, const std::string& path);
/// The mount that an absolute, resolved path lies in: the longest mount point that is a prefix of it.
std::optional<MountEntry> MountOf(const std::vector<MountEntry>& mounts, const std::string& path);

/// True when `path` is `dir` or lies below it, by name; both absolute and resolved.
bool IsAtOrBelow(const std::string& path, const std::string& dir);

/// Absolute path without symlinks, where the last component is not looked at when it is (or may be) a mount
/// point that does not answer: its parent is resolved, its name is kept. A symlink to a directory is
/// followed.
Result<std::string> ResolveMountpoint(const std::string& path);

/// What a stat of the path (never from the kernel's memory) says when asked from another process, so that a
/// mount whose daemon hangs cannot hold us: ok, the error (ENOTCONN: the daemon is dead), or
/// kDeadlineExceeded. Call before there are threads.
Status ProbePath(const std::string& path, std::chrono::milliseconds timeout);

/// Takes the mount away; `detach`: even when it is busy, its users keep what they have open. Uses fusermount3
/// when we may not do it ourselves.
Status Unmount(const std::string& mountpoint, bool detach);

/// Tells the kernel to answer everything that waits on this FUSE mount with an error. For a daemon that
/// hangs.
Status AbortConnection(const MountEntry& mount);

}  // namespace stoker
