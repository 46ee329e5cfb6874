#include "cache/store/store_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/store/store_support.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT(google-build-using-namespace): the store's own test tools

constexpr size_t kObjects = 60;
constexpr size_t kSize = 10'000;
constexpr auto kPatience = std::chrono::seconds(60);

class StoreSetTest : public ::testing::Test {
 protected:
  ObjectStoreOptions Options(const std::string& name, uint64_t limit = 64 * kMiB) {
    ObjectStoreOptions options;
    options.dir = dir_ / name;
    options.limit_bytes = limit;
    options.part_length = 4096;
    options.policy = CachePolicy::kLru;
    return options;
  }

  Status Open(const std::vector<std::string>& names, const std::vector<DirectoryReport>& down = {}) {
    store_.reset();
    std::vector<ObjectStoreOptions> all;
    all.reserve(names.size());
    for (const std::string& name : names) all.push_back(Options(name));
    auto opened = StoreSet::OpenAll(all, down, metrics_, Clock::Real());
    if (opened.ok()) store_ = std::move(opened).value();
    return opened.status();
  }

  static FileVersion VersionOf(size_t i) { return Version("f" + std::to_string(i), kSize); }

  void Fill() {
    Random random(TestSeed());
    for (size_t i = 0; i < kObjects; ++i) {
      auto object = store_->Acquire(VersionOf(i), "f", 0);
      ASSERT_TRUE(object.ok()) << object.status().ToString();
      if (contents_.size() <= i) contents_.push_back(RandomBytes(random, kSize));
      if (object->complete()) continue;
      const Status stored = StoreWhole(*store_, *object, contents_[i]);
      ASSERT_TRUE(stored.ok()) << stored.ToString();
    }
    ASSERT_TRUE(store_->Flush(kPatience).ok());
  }

  /// Indices of the objects that are there; their bytes are looked at.
  std::set<size_t> Present() {
    std::set<size_t> there;
    for (size_t i = 0; i < kObjects; ++i) {
      const auto object = store_->Find(VersionOf(i));
      if (!object.ok() || !object->complete()) continue;
      there.insert(i);
      for (uint32_t part = 0; part < object->part_count(); ++part) {
        const ByteRange range = object->PartRange(PartIndex{part});
        const std::vector<std::byte> expected(contents_[i].begin() + static_cast<ptrdiff_t>(range.begin),
                                              contents_[i].begin() + static_cast<ptrdiff_t>(range.end));
        EXPECT_EQ(ReadPart(*object, PartIndex{part}), expected);
      }
    }
    return there;
  }

  uint64_t ObjectsIn(const std::string& name) {
    for (const DirectoryReport& one : store_->Directories()) {
      if (one.dir == dir_ / name) return one.usage.objects;
    }
    return 0;
  }

  /// What has no place where it lies is dropped in the background.
  void WaitForObjects(uint64_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (store_->Usage().objects != count && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_EQ(store_->Usage().objects, count);
  }

  TempDir dir_;
  Metrics metrics_;
  std::vector<std::vector<std::byte>> contents_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(StoreSetTest, ListsAndEvictsOverAllDirectories) {
  ASSERT_TRUE(Open({"a", "b", "c"}).ok());
  Fill();
  std::vector<ObjectId> ids;
  while (true) {
    const auto page = store_->List(ids.empty() ? nullptr : &ids.back(), 7);
    ASSERT_TRUE(page.ok());
    if (page->empty()) break;
    std::vector<ObjectId> more;  // not into `ids` while its last is the cursor
    for (const StoredObject& object : *page) more.push_back(object.id);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  std::set<ObjectId> expected;
  for (size_t i = 0; i < kObjects; ++i) expected.insert(MakeObjectId(VersionOf(i)));
  EXPECT_EQ(std::vector<ObjectId>(expected.begin(), expected.end()), ids);
  {
    const auto held = store_->Peek(ids.front());
    ASSERT_TRUE(held.ok());
    const auto report = store_->Evict(ids);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->objects, kObjects - 1);
    ASSERT_EQ(report->kept.size(), 1u);
    EXPECT_EQ(report->kept.front().first, ids.front());
  }
  EXPECT_EQ(store_->Evict({ids.front()})->objects, 1u);
  EXPECT_EQ(store_->Usage().objects, 0u);
  EXPECT_EQ(store_->Usage().used_bytes, 0u);
}

TEST_F(StoreSetTest, EachObjectLivesOnOneDirectoryAndIsFoundAgain) {
  ASSERT_TRUE(Open({"a", "b", "c"}).ok());
  Fill();
  EXPECT_EQ(store_->Usage().objects, kObjects);
  EXPECT_EQ(store_->Usage().complete_objects, kObjects);
  EXPECT_EQ(store_->Usage().limit_bytes, 3 * 64 * kMiB);
  uint64_t sum = 0;
  for (const DirectoryReport& one : store_->Directories()) {
    EXPECT_TRUE(one.up);
    EXPECT_GT(one.usage.objects, 0U) << one.dir;
    sum += one.usage.objects;
  }
  EXPECT_EQ(sum, kObjects);
  EXPECT_EQ(metrics_.cache_objects.value(), static_cast<int64_t>(kObjects));
  EXPECT_EQ(metrics_.cache_used_bytes.value(), static_cast<int64_t>(store_->Usage().used_bytes));
  EXPECT_EQ(metrics_.cache_limit_bytes.value(), static_cast<int64_t>(3 * 64 * kMiB));
  ASSERT_TRUE(Open({"c", "a", "b"}).ok());
  EXPECT_EQ(Present().size(), kObjects);
  store_.reset();
  EXPECT_EQ(metrics_.cache_objects.value(), 0);
  EXPECT_EQ(metrics_.cache_used_bytes.value(), 0);
  EXPECT_EQ(metrics_.cache_limit_bytes.value(), 0);
}

TEST_F(StoreSetTest, WhatWasInvalidatedIsGone) {
  ASSERT_TRUE(Open({"a", "b"}).ok());
  Fill();
  for (size_t i = 0; i < kObjects; i += 2) store_->Invalidate(MakeObjectId(VersionOf(i)));
  EXPECT_EQ(Present().size(), kObjects / 2);
}

TEST_F(StoreSetTest, ARemovedDirectoryTakesOnlyItsOwnObjects) {
  ASSERT_TRUE(Open({"a", "b", "c"}).ok());
  Fill();
  const uint64_t lost = ObjectsIn("b");
  ASSERT_TRUE(Open({"a", "c"}).ok());
  EXPECT_EQ(Present().size(), kObjects - lost);
}

TEST_F(StoreSetTest, AnAddedDirectoryLosesOnlyWhatItTakesOver) {
  ASSERT_TRUE(Open({"a", "b"}).ok());
  Fill();
  ASSERT_TRUE(Open({"a", "b", "c"}).ok());
  const size_t kept = Present().size();
  EXPECT_GT(kept, 0U);
  EXPECT_LT(kept, kObjects);
  WaitForObjects(kept);  // nothing is left that nobody would ask for
  Fill();
  EXPECT_EQ(ObjectsIn("c"), kObjects - kept);
  EXPECT_EQ(Present().size(), kObjects);
}

TEST_F(StoreSetTest, ADiskThatFailsAtStartCostsOnlyItsOwnObjects) {
  ASSERT_TRUE(Open({"a", "b"}).ok());
  Fill();
  const uint64_t first = ObjectsIn("a");
  store_.reset();
  // A file in the place of the index: the directory cannot be opened, and not for a mistake of the caller's.
  std::filesystem::rename(dir_ / "b/index/CURRENT", dir_ / "current");
  std::filesystem::create_directory(dir_ / "b/index/CURRENT");
  ASSERT_TRUE(Open({"a", "b"}).ok());
  const std::vector<DirectoryReport> reports = store_->Directories();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_TRUE(reports[0].up);
  EXPECT_FALSE(reports[1].up);
  EXPECT_EQ(reports[1].dir, dir_ / "b");
  EXPECT_THAT(reports[1].reason, HasSubstr(dir_ / "b"));
  EXPECT_EQ(Present().size(), first);
  Fill();  // the others take what has no place now
  EXPECT_EQ(ObjectsIn("a"), kObjects);
  store_.reset();
  std::filesystem::remove(dir_ / "b/index/CURRENT");
  std::filesystem::rename(dir_ / "current", dir_ / "b/index/CURRENT");
  ASSERT_TRUE(Open({"a", "b"}).ok());
  WaitForObjects(kObjects);  // each on one directory again
  EXPECT_EQ(ObjectsIn("a"), first);
  EXPECT_EQ(Present().size(), kObjects);
}

TEST_F(StoreSetTest, ADirectoryThatCouldNotBeLookedAtIsDown) {
  ASSERT_TRUE(Open({"a"}, {{"/gone", false, "no such disk", {}}}).ok());
  Fill();
  EXPECT_EQ(Present().size(), kObjects);
  const std::vector<DirectoryReport> reports = store_->Directories();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[1].reason, "no such disk");
  EXPECT_EQ(Open({}, {{"/gone", false, "no such disk", {}}}).message(), "no such disk");
}

TEST_F(StoreSetTest, MistakesAreNotPassedOver) {
  ASSERT_TRUE(Open({"a"}).ok());
  std::unique_ptr<ObjectStore> holder = std::move(store_);
  EXPECT_EQ(Open({"b", "a"}).code(), Code::kBusy);
  holder.reset();
  std::ofstream(dir_ / "a/format.json") << R"({"format": 999})";
  EXPECT_EQ(Open({"b", "a"}).code(), Code::kUnsupported);
  std::filesystem::create_directories(dir_ / "foreign/thing");
  EXPECT_EQ(Open({"b", "foreign"}).code(), Code::kInvalidArgument);
}

TEST_F(StoreSetTest, ProtectGroupsReachEveryDirectory) {
  // Three objects' room in each directory: a protected object is spared whatever else comes.
  std::vector<ObjectStoreOptions> all{Options("a", 64 * 1024), Options("b", 64 * 1024)};
  auto opened = StoreSet::OpenAll(all, {}, metrics_, Clock::Real());
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  store_ = std::move(opened).value();
  Random random(TestSeed());
  const std::vector<std::byte> content = RandomBytes(random, kSize);
  const auto bring = [&](const std::string& name, ProtectGroup group) {
    const auto object = store_->Acquire(Version(name, kSize), name, group);
    return object.ok() ? StoreWhole(*store_, *object, content) : object.status();
  };
  const ProtectGroup group = store_->BeginProtect();
  ASSERT_TRUE(bring("kept", group).ok());
  for (size_t i = 0; i < 40; ++i) ASSERT_TRUE(bring("other" + std::to_string(i), 0).ok());
  EXPECT_TRUE(store_->Find(Version("kept", kSize)).ok());
  store_->EndProtect(group);
  for (size_t i = 0; i < 40; ++i) ASSERT_TRUE(bring("more" + std::to_string(i), 0).ok());
  EXPECT_FALSE(store_->Find(Version("kept", kSize)).ok());
}

}  // namespace
}  // namespace stoker
