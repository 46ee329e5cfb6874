#include "workload/base/host.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

constexpr char kMounts[] =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "30 22 0:40 / /mnt/cache ro,nosuid - fuse.stoker /srv/ufs rw\n"
    "31 22 0:41 / /mnt/with\\040blank rw - tmpfs none rw\n"
    "32 30 0:42 / /mnt/cache/inner rw - xfs /dev/vdb rw\n"
    "33 22 0:43 / /mnt/over rw - ext4 /dev/old rw\n"
    "34 33 0:44 / /mnt/over rw - nfs4 server:/new rw\n"
    "short line\n";

TEST(FindMount, TheLongestCoveringMountWins) {
  EXPECT_EQ(FindMount(kMounts, "/home/x")->fstype, "ext4");
  EXPECT_EQ(FindMount(kMounts, "/mnt/cache")->source, "/srv/ufs");
  EXPECT_TRUE(FindMount(kMounts, "/mnt/cache/unet3d/train")->is_stoker());
  EXPECT_EQ(FindMount(kMounts, "/mnt/cache/inner/x")->fstype, "xfs");
  EXPECT_EQ(FindMount(kMounts, "/mnt/cachet")->fstype, "ext4");
  EXPECT_EQ(FindMount(kMounts, "/mnt/with blank/x")->fstype, "tmpfs");
  EXPECT_EQ(FindMount(kMounts, "/mnt/over/x")->source, "server:/new");
  EXPECT_FALSE(FindMount("", "/x").has_value());
}

TEST(Host, KnowsThisMachine) {
  const HostInfo host = ReadHostInfo();
  EXPECT_FALSE(host.hostname.empty());
  EXPECT_GE(host.cpus, 1u);
  EXPECT_GT(host.memory_bytes, 64u << 20);
  EXPECT_TRUE(MountOf("/").has_value());
}

TEST(PageCacheShare, FilesJustWrittenAreResident) {
  const testing::TempDir dir;
  std::ofstream(dir / "a") << std::string(100'000, 'x');
  EXPECT_EQ(PageCacheShare({dir / "a"}), 1.0);
  EXPECT_EQ(PageCacheShare({dir / "a", dir / "missing"}), 1.0);
  EXPECT_FALSE(PageCacheShare({dir / "missing"}).has_value());
  EXPECT_FALSE(PageCacheShare({}).has_value());
}

}  // namespace
}  // namespace stoker::bench
