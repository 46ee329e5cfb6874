#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stoker::bench {

/// This machine, from /proc; fields are empty or 0 where it does not tell. STOKER_HOSTNAME in the environment
/// replaces the name: for containers, whose names say nothing, and tests that take one machine for several.
struct HostInfo {
  std::string hostname;
  uint64_t cpus = 0;
  std::string processor;
  uint64_t memory_bytes = 0;
  std::map<std::string, std::string> meminfo;  // as /proc/meminfo has it, e.g. "MemTotal": "24 kB"
  std::map<std::string, std::string> cpuinfo;  // of the first processor
};
HostInfo ReadHostInfo();

/// The mount a path lies on.
struct MountInfo {
  std::string mountpoint;
  std::string fstype;
  std::string source;
  /// The file system type under which the daemon mounts.
  bool is_stoker() const { return fstype == "fuse.stoker"; }
};
/// Entry of `mountinfo` (text as in /proc/self/mountinfo) that covers the absolute `path`; nothing when none
/// does. Pure.
std::optional<MountInfo> FindMount(const std::string& mountinfo, const std::string& path);
std::optional<MountInfo> MountOf(const std::string& path);

/// Share of the bytes of `paths` that the kernel's page cache holds (0..1), by mincore; nothing when no file
/// could be looked at. Reads none of them. Seen through a passthrough mount, these are the pages of the cache
/// file.
std::optional<double> PageCacheShare(const std::vector<std::string>& paths);

}  // namespace stoker::bench
