#include "cache/store/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/store/store_support.h"

namespace stoker {
namespace {

using testing::RandomBytes;
using testing::ReadPart;
using testing::StorePart;
using testing::StoreWhole;
using testing::TempDir;
using testing::Version;

constexpr uint64_t kPart = 64 * kKiB;
constexpr PartIndex kFirst{0};

class ObjectStoreTest : public ::testing::Test {
 protected:
  ObjectStoreOptions Options() {
    return {.dir = dir_ / "cache", .limit_bytes = 64 * kMiB, .part_length = kPart};
  }
  void Open() { Open(Options()); }
  void Open(const ObjectStoreOptions& options) {
    store_.reset();
    auto opened = ObjectStore::Open(options, metrics_, Clock::Real());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(opened).value();
  }
  ObjectRef Acquire(const FileVersion& version) {
    auto acquired = store_->Acquire(version, "hint/" + version.token);
    EXPECT_TRUE(acquired.ok()) << acquired.status().ToString();
    return std::move(acquired).value();
  }

  TempDir dir_;
  Metrics metrics_;
  Random random_{testing::TestSeed()};
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(ObjectStoreTest, PartsBecomeResidentOneByOneAndOutliveAReopen) {
  Open();
  const uint64_t size = 2 * kPart + 100;
  const FileVersion version = Version("a", size);
  const auto content = RandomBytes(random_, size);
  {
    const ObjectRef object = Acquire(version);
    EXPECT_EQ(object.part_count(), 3u);
    EXPECT_EQ(object.PartRange(PartIndex{2}), (ByteRange{2 * kPart, size}));
    EXPECT_FALSE(object.IsResident(kFirst));
    ASSERT_TRUE(StorePart(*store_, object, PartIndex{2}, {content.begin() + 2 * kPart, content.end()}).ok());
    EXPECT_TRUE(object.IsResident(PartIndex{2}));
    EXPECT_TRUE(object.IsResident(ByteRange{2 * kPart, size + 1000}));
    EXPECT_FALSE(object.IsResident(ByteRange{2 * kPart - 1, 2 * kPart + 1}));
    EXPECT_EQ(object.resident_bytes(), 100u);
    EXPECT_FALSE(object.complete());
  }
  Open();
  {
    const auto found = store_->Find(version);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_TRUE(found.value().IsResident(PartIndex{2}));
    EXPECT_FALSE(found.value().IsResident(kFirst));
    EXPECT_EQ(ReadPart(found.value(), PartIndex{2}),
              std::vector<std::byte>(content.begin() + 2 * kPart, content.end()));
    ASSERT_TRUE(StoreWhole(*store_, found.value(), content).ok());
    EXPECT_TRUE(found.value().complete());
  }
  ASSERT_TRUE(store_->Flush(std::chrono::seconds(10)).ok());
  Open();
  const auto found = store_->Find(version);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found.value().complete());
  EXPECT_EQ(store_->Usage().complete_objects, 1u);
}

}  // namespace
}  // namespace stoker
