#pragma once

#include <string>
#include <vector>

namespace stoker::bench {

/// A network interface that is up and says how fast it is.
struct NetworkLink {
  std::string name;
  double bits_per_s = 0;
};
/// Physical ones (no bridges, bonds or virtual cables, whose speeds are made up), fastest first. `sysfs`:
/// where the kernel lists them. Cloud interfaces often do not tell.
std::vector<NetworkLink> NetworkLinks(const std::string& sysfs = "/sys/class/net");

/// True for the types of file systems whose bytes come over a network, and for FUSE, behind which they may.
bool IsRemoteFileSystem(const std::string& fstype);

}  // namespace stoker::bench
