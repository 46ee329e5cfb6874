#include "workload/base/network.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

class Links : public ::testing::Test {
 protected:
  void Add(const std::string& name, const std::string& speed, const std::string& state, bool hardware) {
    std::filesystem::create_directories(dir_ / (name + (hardware ? "/device" : "")));
    std::ofstream(dir_ / (name + "/speed")) << speed;
    std::ofstream(dir_ / (name + "/operstate")) << state << "\n";
  }
  const testing::TempDir dir_;
};

TEST_F(Links, HardwareThatIsUpAndTellsItsSpeedFastestFirst) {
  Add("eth0", "10000\n", "up", true);
  Add("ib0", "200000\n", "up", true);
  Add("eth1", "100000\n", "down", true);
  Add("eth2", "-1\n", "up", true);
  Add("eth3", "", "up", true);
  Add("veth7", "10000\n", "up", false);
  const std::vector<NetworkLink> links = NetworkLinks(dir_.path());
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].name, "ib0");
  EXPECT_EQ(links[0].bits_per_s, 200e9);
  EXPECT_EQ(links[1].name, "eth0");
  EXPECT_TRUE(NetworkLinks(dir_ / "missing").empty());
}

TEST(RemoteFileSystem, ByType) {
  for (const char* type : {"nfs4", "lustre", "fuse.stoker", "fuse", "wekafs"}) {
    EXPECT_TRUE(IsRemoteFileSystem(type)) << type;
  }
  for (const char* type : {"ext4", "xfs", "tmpfs", "overlay", ""})
    EXPECT_FALSE(IsRemoteFileSystem(type)) << type;
}

}  // namespace
}  // namespace stoker::bench
