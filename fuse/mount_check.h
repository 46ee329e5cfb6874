#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "fuse/config_schema.h"

namespace stoker {

/// What a mount needs to know, once all checks have passed.
struct MountPlan {
  std::string ufs;                      // as its driver names it: for trees, absolute and without symlinks
  std::string mountpoint;               // absolute, without symlinks
  std::vector<std::string> cache_dirs;  // the same; may not exist yet, or be on a disk that has failed
  bool clear_dead_mount = false;        // a dead mount of ours covers the mount point: take it away first
};

/// Looks at everything that can be wrong before anything is touched. Call before there are threads. Errors
/// are one line that names the thing and the remedy. kInvalidArgument, kNotFound, kNotADirectory,
/// kAlreadyExists: the arguments or the configuration are wrong; anything else: the machine is not as it must
/// be.
Result<MountPlan> CheckMount(const std::string& ufs, const std::string& mountpoint, const Settings& settings);

/// Takes the dead mount away that CheckMount found, and looks again at what was below it.
Status ClearDeadMount(const std::string& mountpoint);

/// Size of the file system that holds the path, or its nearest parent that exists.
Result<uint64_t> DiskBytes(const std::string& path);

/// The nearest parent that exists, resolved, and what does not exist yet appended to it.
Result<std::string> ResolveFuturePath(const std::string& path);

/// True when `path` (which may not exist yet) is `dir` or lies below it: compared by device and inode on the
/// way up, so that bind mounts and other names for one directory do not hide it.
Result<bool> LiesWithin(const std::string& path, const std::string& dir);

}  // namespace stoker
