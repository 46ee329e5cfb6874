#pragma once

#include <string>
#include <vector>

#include "cache/base/result.h"
#include "fuse/mount_table.h"

namespace stoker {

/// The stoker mount that `path` is, or lies in. kNotFound: there is none; the message says what is there
/// instead. Does not touch the mount itself when `path` is its mount point.
Result<MountEntry> FindOurMount(const std::string& path);

/// A path inside a stoker mount, and where in the UFS it leads.
struct PathInMount {
  MountEntry mount;
  std::string ufs_path;  // relative to the UFS, "" = its root
};
/// Follows symlinks, a last one too: who names a link means what it leads to.
Result<PathInMount> FindInMount(const std::string& path);
/// As FindInMount, also for a path whose end does not exist (any more). kInvalidArgument: there is a ".."
/// behind what does not exist.
Result<PathInMount> FindGoneInMount(const std::string& path);

/// Why a mount of ours has nobody on its control socket, in words for people.
Status ExplainNoDaemon(const MountEntry& mount, const Status& from_client);

}  // namespace stoker
