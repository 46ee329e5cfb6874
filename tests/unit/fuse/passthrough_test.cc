#include "fuse/passthrough.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "cache/base/fd.h"
#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

ObjectId Id(uint8_t n) {
  ObjectId id;
  id.bytes[0] = n;
  return id;
}

/// Counts, and knows what is registered now.
class FakeDevice final : public BackingDevice {
 public:
  Result<int32_t> Register(int) override {
    if (error != 0) return Status::FromErrno(error, "register");
    open.insert(++last);
    return last;
  }
  void Unregister(int32_t id) override {
    EXPECT_EQ(open.erase(id), 1U) << "closed twice, or never open: " << id;
  }
  std::set<int32_t> open;
  int32_t last = 0;
  int error = 0;
};

class BackingTableTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<BackingId>> Get(BackingTable& table, uint8_t n) {
    return table.Get(Id(n), device_, [this]() -> Result<std::shared_ptr<const Fd>> {
      ++files_opened_;
      return std::make_shared<const Fd>();
    });
  }
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  Metrics metrics_;
  int files_opened_ = 0;
};

TEST_F(BackingTableTest, OneIdPerObjectKeptWhenUnused) {
  BackingTable table(8, metrics_);
  const int32_t first = (*Get(table, 1))->id();
  EXPECT_EQ((*Get(table, 1))->id(), first);
  EXPECT_EQ(files_opened_, 1);
  EXPECT_NE((*Get(table, 2))->id(), first);
  EXPECT_EQ(metrics_.backing_ids.value(), 2);
}

TEST_F(BackingTableTest, BoundClosesTheLeastRecentlyUsed) {
  BackingTable table(2, metrics_);
  const int32_t one = (*Get(table, 1))->id();
  const int32_t two = (*Get(table, 2))->id();
  ASSERT_TRUE(Get(table, 1).ok());
  ASSERT_TRUE(Get(table, 3).ok());
  EXPECT_EQ(device_->open.count(one), 1U);
  EXPECT_EQ(device_->open.count(two), 0U);
  EXPECT_EQ(metrics_.backing_ids.value(), 2);
}

TEST_F(BackingTableTest, AnIdInUseOutlivesEvictionAndBound) {
  BackingTable table(1, metrics_);
  std::shared_ptr<BackingId> used = *Get(table, 1);
  const int32_t id = used->id();
  ASSERT_TRUE(Get(table, 2).ok());  // pushes 1 out of the table
  EXPECT_EQ(table.Remove(Id(1)), nullptr);
  EXPECT_EQ(device_->open.count(id), 1U);
  used.reset();
  EXPECT_EQ(device_->open.count(id), 0U);
}

TEST_F(BackingTableTest, RemovedIdsCloseAndGaugesReturnToZero) {
  BackingTable table(8, metrics_);
  ASSERT_TRUE(Get(table, 1).ok());
  ASSERT_TRUE(Get(table, 2).ok());
  table.Remove(Id(1)).reset();
  EXPECT_EQ(device_->open.size(), 1U);
  table.Clear();
  EXPECT_TRUE(device_->open.empty());
  EXPECT_EQ(metrics_.backing_ids.value(), 0);
}

TEST_F(BackingTableTest, RefusalIsAnErrorAndLeavesNothing) {
  BackingTable table(8, metrics_);
  device_->error = EPERM;
  EXPECT_EQ(Get(table, 1).status().os_errno(), EPERM);
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(metrics_.backing_ids.value(), 0);
}

TEST(ProbePassthroughTest, SaysWhyAndWhatToDo) {
  testing::TempDir dir;
  FakeDevice device;
  EXPECT_TRUE(ProbePassthrough(device, dir.path()).ok());
  EXPECT_TRUE(device.open.empty());
  device.error = EPERM;
  EXPECT_NE(ProbePassthrough(device, dir.path()).message().find("CAP_SYS_ADMIN"), std::string::npos);
  device.error = ELOOP;
  const std::string stacked = ProbePassthrough(device, dir.path()).message();
  EXPECT_NE(stacked.find("overlayfs"), std::string::npos);
  EXPECT_NE(stacked.find(dir.path()), std::string::npos);
  EXPECT_FALSE(ProbePassthrough(device, dir / "missing").ok());
}

TEST(FuseBackingDeviceTest, AfterTheMountNothingIsAsked) {
  FuseBackingDevice device(-1);
  device.Disconnect();
  EXPECT_EQ(device.Register(0).status().code(), Code::kUnavailable);
  device.Unregister(1);
}

}  // namespace
}  // namespace stoker
