// What people ask of the store by name: listing, looking, evicting.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/store/store_support.h"

namespace stoker {
namespace {

using testing::RandomBytes;
using testing::StoreWhole;
using testing::TempDir;
using testing::Version;

constexpr uint64_t kPart = 64 * kKiB;

class StoreToolsTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    auto opened = ObjectStore::Open(
        {.dir = dir_ / "cache", .limit_bytes = 64 * kMiB, .part_length = kPart, .policy = CachePolicy::kLru},
        metrics_, Clock::Real());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(opened).value();
  }
  FileVersion Store(const std::string& name, ProtectGroup group = 0) {
    const FileVersion version = Version(name, 2 * kPart);
    const auto object = store_->Acquire(version, name, group);
    EXPECT_TRUE(object.ok());
    EXPECT_TRUE(StoreWhole(*store_, *object, RandomBytes(random_, version.size)).ok());
    return version;
  }

  TempDir dir_;
  Metrics metrics_;
  Random random_{testing::TestSeed()};
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(StoreToolsTest, ListsEveryObjectOnceInPages) {
  std::set<std::string> expected;
  for (int i = 0; i < 23; ++i) {
    expected.insert("dir/" + std::to_string(i));
    Store("dir/" + std::to_string(i));
  }
  for (const size_t limit : {1, 4, 23, 100}) {
    std::multiset<std::string> seen;
    std::optional<ObjectId> last;
    while (true) {
      const auto page = store_->List(last ? &*last : nullptr, limit);
      ASSERT_TRUE(page.ok());
      if (page->empty()) break;
      ASSERT_LE(page->size(), limit);
      for (const StoredObject& object : *page) {
        ASSERT_TRUE(!last || *last < object.id);
        last = object.id;
        seen.insert(object.name);
      }
    }
    EXPECT_EQ(seen, std::multiset<std::string>(expected.begin(), expected.end()));
  }
}

TEST_F(StoreToolsTest, EvictsWhatNobodyHolds) {
  const FileVersion open = Store("open");
  const FileVersion idle = Store("idle");
  const FileVersion other = Store("other");
  const ProtectGroup group = store_->BeginProtect();
  const FileVersion warm = Store("warm", group);
  ObjectRef held = *store_->Find(open);
  const uint64_t used = store_->Usage().used_bytes;

  const ObjectId never = MakeObjectId(Version("never", 1));
  const auto report = store_->Evict({MakeObjectId(open), MakeObjectId(idle), MakeObjectId(warm), never});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->objects, 1u);
  EXPECT_GE(report->bytes, 2 * kPart);
  const std::vector<std::pair<ObjectId, EvictReport::Kept>> kept{
      {MakeObjectId(open), EvictReport::Kept::kOpen}, {MakeObjectId(warm), EvictReport::Kept::kWarming}};
  EXPECT_EQ(report->kept, kept);
  EXPECT_EQ(store_->Usage().objects, 3u);
  EXPECT_EQ(store_->Usage().used_bytes, used - report->bytes);
  EXPECT_EQ(store_->Find(idle).status().code(), Code::kNotFound);
  EXPECT_TRUE(held.complete());
  EXPECT_TRUE(store_->Verify(held, PartIndex{1}).ok());

  held = ObjectRef();
  store_->EndProtect(group);
  const auto rest = store_->Evict({MakeObjectId(open), MakeObjectId(warm)});
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->objects, 2u);
  EXPECT_TRUE(rest->kept.empty());
  Open();  // also the rows are gone
  EXPECT_EQ(store_->Usage().objects, 1u);
  EXPECT_TRUE(store_->Find(other).ok());
}

TEST_F(StoreToolsTest, TheStoresOwnHoldIsNoReader) {
  for (int i = 0; i < 20; ++i) {
    const FileVersion version = Store("file" + std::to_string(i));  // about to be sealed, or being sealed
    const auto report = store_->Evict({MakeObjectId(version)});
    ASSERT_TRUE(report.ok());
    ASSERT_TRUE(report->kept.empty()) << i;
    ASSERT_EQ(report->objects, 1u) << i;
  }
  EXPECT_EQ(store_->Usage().used_bytes, 0u);
}

TEST_F(StoreToolsTest, PeeksByIdAndKeepsWhileHeld) {
  const FileVersion version = Store("file");
  EXPECT_EQ(store_->Peek(MakeObjectId(Version("never", 1))).status().code(), Code::kNotFound);
  {
    const auto object = store_->Peek(MakeObjectId(version));
    ASSERT_TRUE(object.ok());
    EXPECT_TRUE(object->complete());
    EXPECT_EQ(object->id(), MakeObjectId(version));
    EXPECT_TRUE(store_->Verify(*object, PartIndex{1}).ok());
    EXPECT_EQ(store_->Evict({MakeObjectId(version)})->kept.size(), 1u);
  }
  EXPECT_EQ(store_->Evict({MakeObjectId(version)})->objects, 1u);
}

}  // namespace
}  // namespace stoker
