#include "workload/base/network.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace stoker::bench {
namespace {

constexpr double kMegabit = 1e6;
constexpr std::array<std::string_view, 13> kRemote = {"nfs",       "nfs4", "lustre",  "ceph",   "cifs",
                                                      "smb3",      "9p",   "gpfs",    "beegfs", "wekafs",
                                                      "glusterfs", "afs",  "virtiofs"};

}  // namespace

std::vector<NetworkLink> NetworkLinks(const std::string& sysfs) {
  std::vector<NetworkLink> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(sysfs, error)) {
    // Only hardware has a device behind it.
    if (!std::filesystem::exists(entry.path() / "device", error)) continue;
    std::string state;
    std::ifstream(entry.path() / "operstate") >> state;
    double megabits = 0;
    std::ifstream(entry.path() / "speed") >> megabits;  // -1, or an error: not known
    if (state != "up" || !(megabits > 0)) continue;
    out.push_back({entry.path().filename().string(), megabits * kMegabit});
  }
  std::sort(out.begin(), out.end(), [](const NetworkLink& a, const NetworkLink& b) {
    return a.bits_per_s != b.bits_per_s ? a.bits_per_s > b.bits_per_s : a.name < b.name;
  });
  return out;
}

bool IsRemoteFileSystem(const std::string& fstype) {
  return fstype.compare(0, 4, "fuse") == 0 ||
         std::find(kRemote.begin(), kRemote.end(), fstype) != kRemote.end();
}

}  // namespace stoker::bench
