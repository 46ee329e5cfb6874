#include "cache/store/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cache/base/log.h"
#include "cache/base/mutex.h"
#include "cache/base/sync_point.h"
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

namespace fs = std::filesystem;

constexpr uint64_t kPart = 64 * kKiB;
constexpr PartIndex kFirst{0};

/// Remembers what it was told.
class RecordingListener final : public StoreListener {
 public:
  void OnComplete(const ObjectId& id) override { Note(complete_, id); }
  void OnGone(const ObjectId& id) override { Note(gone_, id); }
  std::vector<ObjectId> complete() const { return Copy(complete_); }
  std::vector<ObjectId> gone() const { return Copy(gone_); }

 private:
  void Note(std::vector<ObjectId>& list, const ObjectId& id) {
    MutexLock lock(mu_);
    list.push_back(id);
  }
  std::vector<ObjectId> Copy(const std::vector<ObjectId>& list) const {
    MutexLock lock(mu_);
    return list;
  }
  mutable Mutex mu_;
  std::vector<ObjectId> complete_;
  std::vector<ObjectId> gone_;
};

/// Sets an environment variable for a scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~ScopedEnv() { ::unsetenv(name_); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  const char* name_;
};

class ObjectStoreTest : public ::testing::Test {
 protected:
  ObjectStoreOptions Options() {
    return {
        .dir = dir_ / "cache", .limit_bytes = 64 * kMiB, .part_length = kPart, .policy = CachePolicy::kLru};
  }
  void Open() { Open(Options()); }
  void Open(const ObjectStoreOptions& options) {
    store_.reset();
    auto opened = ObjectStore::Open(options, metrics_, Clock::Real());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(opened).value();
    store_->SetListener(&listener_);
  }
  ObjectRef Acquire(const FileVersion& version, ProtectGroup group = 0) {
    auto acquired = store_->Acquire(version, "hint/" + version.token, group);
    EXPECT_TRUE(acquired.ok()) << acquired.status().ToString();
    return acquired.ok() ? std::move(acquired).value() : ObjectRef();
  }
  /// An object of `parts` whole parts, all resident, held by nobody.
  FileVersion StoreObject(const std::string& name, uint64_t parts, ProtectGroup group = 0) {
    const FileVersion version = Version(name, parts * kPart);
    const ObjectRef object = Acquire(version, group);
    const Status stored = StoreWhole(*store_, object, RandomBytes(random_, version.size));
    EXPECT_TRUE(stored.ok()) << stored.ToString();
    return version;  // perhaps held a little longer by the store's own thread: see Settle()
  }
  /// Until the store's own thread has sealed all there is, and so holds nothing.
  void Settle() { ASSERT_TRUE(store_->Flush(std::chrono::seconds(20)).ok()); }
  bool InCache(const FileVersion& version) { return store_->Find(version).ok(); }
  std::string FilePath(const ObjectId& id) {
    const std::string hex = id.ToHex();
    return dir_ / "cache/objects/" + hex.substr(0, 2) + "/" + hex;
  }
  void Garble(const FileVersion& version, uint64_t offset) {
    std::fstream file(FilePath(MakeObjectId(version)), std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.good());
    file.seekp(static_cast<std::streamoff>(offset));
    file << "garbled";
  }
  /// Allocated bytes of all object files, and how many there are.
  std::pair<uint64_t, uint64_t> OnDisk() {
    uint64_t bytes = 0, files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / "cache/objects")) {
      struct stat info = {};
      if (!entry.is_regular_file() || ::stat(entry.path().c_str(), &info) != 0) continue;
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
      ++files;
    }
    return {bytes, files};
  }
  void ExpectBooksBalance() {
    Settle();
    const auto [bytes, files] = OnDisk();
    const StoreUsage usage = store_->Usage();
    EXPECT_EQ(usage.used_bytes, bytes);
    EXPECT_EQ(usage.objects, files);
    EXPECT_EQ(usage.reserved_bytes, 0u);
    EXPECT_EQ(metrics_.cache_used_bytes.value(), static_cast<int64_t>(bytes));
    EXPECT_EQ(metrics_.cache_objects.value(), static_cast<int64_t>(files));
    EXPECT_EQ(metrics_.cache_complete_objects.value(), static_cast<int64_t>(usage.complete_objects));
    EXPECT_EQ(metrics_.cache_pinned_objects.value(), 0);
  }

  TempDir dir_;
  Metrics metrics_;
  RecordingListener listener_;
  Random random_{testing::TestSeed()};
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(ObjectStoreTest, PartsBecomeResidentOneByOneAndOutliveAReopen) {
  Open();
  const uint64_t size = 2 * kPart + 100;
  const FileVersion version = Version("a", size);
  const auto content = RandomBytes(random_, size);
  const std::vector<std::byte> tail(content.begin() + 2 * kPart, content.end());
  {
    const ObjectRef object = Acquire(version);
    EXPECT_EQ(object.part_count(), 3u);
    EXPECT_EQ(object.part_length(), kPart);
    EXPECT_EQ(object.size(), size);
    EXPECT_EQ(object.PartRange(PartIndex{2}), (ByteRange{2 * kPart, size}));
    EXPECT_FALSE(object.IsResident(kFirst));
    ASSERT_TRUE(StorePart(*store_, object, PartIndex{2}, tail).ok());
    EXPECT_TRUE(object.IsResident(PartIndex{2}));
    EXPECT_TRUE(object.IsResident(ByteRange{2 * kPart, size + 1000}));
    EXPECT_FALSE(object.IsResident(ByteRange{2 * kPart - 1, 2 * kPart + 1}));
    EXPECT_EQ(object.resident_bytes(), 100u);
    EXPECT_FALSE(object.complete());
  }
  Open();
  {
    ObjectStoreOptions other = Options();
    other.part_length = 2 * kPart;  // the object keeps the one it was made with
    Open(other);
    const auto found = store_->Find(version);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    const ObjectRef& object = found.value();
    EXPECT_EQ(object.part_length(), kPart);
    EXPECT_TRUE(object.IsResident(PartIndex{2}));
    EXPECT_FALSE(object.IsResident(kFirst));
    EXPECT_EQ(ReadPart(object, PartIndex{2}), tail);
    ASSERT_TRUE(StoreWhole(*store_, object, content).ok());
    EXPECT_TRUE(object.complete());
    EXPECT_EQ(object.resident_bytes(), size);
  }
  EXPECT_THAT(listener_.complete(), ::testing::ElementsAre(MakeObjectId(version)));
  Settle();
  ExpectBooksBalance();
  Open();
  const auto found = store_->Find(version);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found.value().complete());
  EXPECT_EQ(store_->Usage().complete_objects, 1u);
  EXPECT_EQ(listener_.complete().size(), 1u);
}

TEST_F(ObjectStoreTest, NothingIsKeptOfWhatWasOnlyLookedAt) {
  Open();
  const FileVersion version = Version("looked-at", 10);
  {
    const ObjectRef object = Acquire(version);
    EXPECT_EQ(metrics_.cache_pinned_objects.value(), 1);
    const ObjectRef copy = object;  // one object, pinned twice
    EXPECT_EQ(metrics_.cache_pinned_objects.value(), 1);
    EXPECT_EQ(store_->Find(version).status().code(), Code::kNotFound);
  }
  EXPECT_FALSE(InCache(version));
  EXPECT_EQ(store_->Usage().objects, 0u);
  ExpectBooksBalance();
}

TEST_F(ObjectStoreTest, AnEmptyFileIsCompleteFromTheStart) {
  Open();
  const FileVersion version = Version("empty", 0);
  {
    const ObjectRef object = Acquire(version);
    EXPECT_TRUE(object.complete());
    EXPECT_EQ(object.part_count(), 0u);
    EXPECT_TRUE(object.IsResident(ByteRange{0, 10}));
    ASSERT_TRUE(object.File().ok());
  }
  Settle();
  Open();
  ASSERT_TRUE(InCache(version));
  EXPECT_TRUE(store_->Find(version).value().complete());
  EXPECT_TRUE(listener_.complete().empty());  // no part ever landed
  ExpectBooksBalance();
}

TEST_F(ObjectStoreTest, AHoleIsAPartToo) {
  Open();
  const FileVersion version = Version("hole", kPart);
  const ObjectRef object = Acquire(version);
  const std::vector<std::byte> zeros(kPart);
  ASSERT_TRUE(store_->Commit(object, kFirst, Checksum64(zeros), SpaceReservation()).ok());
  EXPECT_TRUE(object.complete());
  EXPECT_EQ(ReadPart(object, kFirst), zeros);
  EXPECT_TRUE(store_->Verify(object, kFirst).ok());
  EXPECT_EQ(store_->Usage().used_bytes, 0u);
}

TEST_F(ObjectStoreTest, CommittingTwiceChangesNothing) {
  Open();
  const FileVersion version = Version("twice", kPart);
  const ObjectRef object = Acquire(version);
  const auto content = RandomBytes(random_, kPart);
  ASSERT_TRUE(StorePart(*store_, object, kFirst, content).ok());
  const StoreUsage before = store_->Usage();
  ASSERT_TRUE(StorePart(*store_, object, kFirst, content).ok());
  EXPECT_EQ(store_->Usage().used_bytes, before.used_bytes);
  EXPECT_EQ(store_->Usage().reserved_bytes, 0u);
  EXPECT_EQ(metrics_.cache_committed_parts.value(), 1u);
  EXPECT_EQ(listener_.complete().size(), 1u);
  EXPECT_EQ(store_->Commit(object, PartIndex{1}, 0, SpaceReservation()).code(), Code::kInvalidArgument);
}

TEST_F(ObjectStoreTest, AnAbandonedFetchGivesItsRoomBackAndIsStillCounted) {
  Open();
  const FileVersion version = Version("abandoned", 4 * kPart);
  {
    const ObjectRef object = Acquire(version);
    ASSERT_TRUE(StorePart(*store_, object, kFirst, RandomBytes(random_, kPart)).ok());
    auto reservation = store_->Reserve(object, kPart);
    ASSERT_TRUE(reservation.ok());
    EXPECT_GE(store_->Usage().reserved_bytes, kPart);
    // Bytes without a commit: the part is not resident, its blocks are there.
    const auto bytes = RandomBytes(random_, kPart);
    ASSERT_EQ(::pwrite(object.File().value()->get(), bytes.data(), kPart, kPart),
              static_cast<ssize_t>(kPart));
    SpaceReservation moved = std::move(reservation).value();
    moved = SpaceReservation();
    EXPECT_EQ(store_->Usage().reserved_bytes, 0u);
    EXPECT_FALSE(object.IsResident(PartIndex{1}));
  }
  ExpectBooksBalance();
}

// ---- damage
// ---------------------------------------------------------------------------------------------------

TEST_F(ObjectStoreTest, VerifyDropsAPartThatDoesNotMatch) {
  Open();
  const FileVersion version = Version("damaged", 2 * kPart);
  const auto content = RandomBytes(random_, version.size);
  const ObjectRef object = Acquire(version);
  const std::vector<std::byte> first(content.begin(), content.begin() + kPart);
  ASSERT_TRUE(StorePart(*store_, object, kFirst, first).ok());
  EXPECT_TRUE(store_->Verify(object, kFirst).ok());
  EXPECT_EQ(store_->Verify(object, PartIndex{1}).code(), Code::kNotFound);
  Garble(version, 1000);
  EXPECT_EQ(store_->Verify(object, kFirst).code(), Code::kCorruption);
  EXPECT_FALSE(object.IsResident(kFirst));
  EXPECT_EQ(metrics_.cache_damaged_parts.value(), 1u);
  // Fetched again, into the same object.
  ASSERT_TRUE(StoreWhole(*store_, object, content).ok());
  EXPECT_TRUE(object.complete());
  EXPECT_EQ(ReadPart(object, kFirst), first);
  EXPECT_TRUE(listener_.gone().empty());
}

TEST_F(ObjectStoreTest, ADroppedPartStaysDroppedAfterAReopen) {
  Open();
  const FileVersion version = Version("dropped", 2 * kPart);
  {
    const ObjectRef object = Acquire(version);
    ASSERT_TRUE(StorePart(*store_, object, kFirst, RandomBytes(random_, kPart)).ok());
    store_->DropDamaged(object, kFirst);
    store_->DropDamaged(object, kFirst);  // nothing left to drop
    EXPECT_EQ(metrics_.cache_damaged_parts.value(), 1u);
  }
  Open();
  EXPECT_FALSE(InCache(version));
}

TEST_F(ObjectStoreTest, DamageInACompleteObjectMakesItASnapshotAndTheNextOneFresh) {
  Open();
  const FileVersion version = StoreObject("whole", 2);
  const ObjectRef object = Acquire(version);
  const auto second = ReadPart(object, PartIndex{1});
  store_->DropDamaged(object, kFirst);
  EXPECT_FALSE(object.IsResident(kFirst));
  EXPECT_TRUE(object.IsResident(PartIndex{1}));
  EXPECT_EQ(ReadPart(object, PartIndex{1}), second);  // the name is gone, the bytes are not
  EXPECT_FALSE(fs::exists(FilePath(object.id())));
  EXPECT_THAT(listener_.gone(), ::testing::ElementsAre(object.id()));
  EXPECT_EQ(store_->Verify(object, PartIndex{1}).code(), Code::kStale);

  const ObjectRef fresh = Acquire(version);
  EXPECT_EQ(fresh.id(), object.id());
  EXPECT_FALSE(fresh.IsResident(PartIndex{1}));
  ASSERT_TRUE(StoreWhole(*store_, fresh, RandomBytes(random_, version.size)).ok());
  EXPECT_EQ(ReadPart(object, PartIndex{1}), second);
  EXPECT_NE(ReadPart(fresh, PartIndex{1}), second);
  // The old holder reports more damage: that is no news about the new object.
  store_->DropDamaged(object, PartIndex{1});
  EXPECT_TRUE(fresh.complete());
  EXPECT_TRUE(InCache(version));
}

TEST_F(ObjectStoreTest, AFileThatIsNotOursIsNeverRead) {
  struct Case {
    const char* name;
    std::function<void(const std::string&)> spoil;
  };
  const Case cases[] = {
      {"deleted", [](const std::string& path) { fs::remove(path); }},
      {"cut", [](const std::string& path) { ASSERT_EQ(::truncate(path.c_str(), 5), 0); }},
      {"grown", [](const std::string& path) { ASSERT_EQ(::truncate(path.c_str(), 100 * kPart), 0); }},
      {"emptied",
       [](const std::string& path) {
         ASSERT_EQ(::truncate(path.c_str(), 0), 0);
         ASSERT_EQ(::truncate(path.c_str(), 2 * kPart), 0);
       }},
      {"replaced",
       [](const std::string& path) {
         const std::string aside = path + ".copy";
         fs::copy_file(path, aside);
         fs::rename(aside, path);
       }},
      {"linked",
       [](const std::string& path) {
         fs::rename(path, path + ".moved");
         fs::create_symlink(path + ".moved", path);
       }},
      {"a directory",
       [](const std::string& path) {
         fs::remove(path);
         fs::create_directory(path);
       }},
  };
  for (const Case& spoiled : cases) {
    SCOPED_TRACE(spoiled.name);
    Open();
    const FileVersion version = StoreObject(spoiled.name, 2);
    Settle();
    Open();
    spoiled.spoil(FilePath(MakeObjectId(version)));
    const ObjectRef object = Acquire(version);
    EXPECT_EQ(object.File().status().code(), Code::kCorruption);
    EXPECT_FALSE(object.IsResident(kFirst));
    EXPECT_FALSE(object.complete());
    EXPECT_EQ(object.File().status().code(), Code::kCorruption);  // never another file under the same ref
    EXPECT_FALSE(store_->Commit(object, kFirst, 0, SpaceReservation()).ok());
    EXPECT_FALSE(InCache(version));
    if (std::string(spoiled.name) == "a directory") fs::remove(FilePath(MakeObjectId(version)));
    const ObjectRef fresh = Acquire(version);
    const auto content = RandomBytes(random_, version.size);
    ASSERT_TRUE(StoreWhole(*store_, fresh, content).ok());
    EXPECT_EQ(ReadPart(fresh, kFirst), std::vector<std::byte>(content.begin(), content.begin() + kPart));
  }
}

// ---- invalidation
// ---------------------------------------------------------------------------------------------

TEST_F(ObjectStoreTest, HoldersKeepTheirSnapshotAndItsBytesStayCounted) {
  Open();
  const FileVersion version = StoreObject("snapshot", 3);
  Settle();
  ObjectRef object = Acquire(version);  // its file is not open now
  const uint64_t used = store_->Usage().used_bytes;
  EXPECT_GE(used, 3 * kPart);
  store_->Invalidate(object.id());
  EXPECT_FALSE(fs::exists(FilePath(object.id())));
  EXPECT_FALSE(InCache(version));
  EXPECT_EQ(store_->Usage().used_bytes, used);
  EXPECT_EQ(store_->Usage().objects, 0u);
  EXPECT_TRUE(object.complete());
  EXPECT_EQ(ReadPart(object, PartIndex{2}).size(), kPart);
  object = ObjectRef();
  EXPECT_EQ(store_->Usage().used_bytes, 0u);
  EXPECT_THAT(listener_.gone(), ::testing::ElementsAre(MakeObjectId(version)));
  store_->Invalidate(MakeObjectId(version));  // nothing there
  EXPECT_EQ(listener_.gone().size(), 1u);
  ExpectBooksBalance();
}

TEST_F(ObjectStoreTest, FetchesGoOnIntoASnapshotWithoutAName) {
  Open();
  const FileVersion version = Version("nameless", 2 * kPart);
  const auto content = RandomBytes(random_, version.size);
  {
    const ObjectRef object = Acquire(version);
    store_->Invalidate(object.id());  // before any file was made
    ASSERT_TRUE(StoreWhole(*store_, object, content).ok());
    EXPECT_EQ(ReadPart(object, PartIndex{1}), std::vector<std::byte>(content.begin() + kPart, content.end()));
    EXPECT_TRUE(object.complete());
    EXPECT_GE(store_->Usage().used_bytes, version.size);
    EXPECT_TRUE(listener_.complete().empty());
    EXPECT_EQ(OnDisk().second, 0u);
  }
  EXPECT_FALSE(InCache(version));
  ExpectBooksBalance();
}

// ---- room
// -----------------------------------------------------------------------------------------------------

TEST_F(ObjectStoreTest, EvictionTakesTheOldestDownToTheLowWatermark) {
  ObjectStoreOptions options = Options();
  options.limit_bytes = 10 * (kPart + kPageBytes);
  options.low_watermark = 0.5;
  Open(options);
  std::vector<FileVersion> versions;
  for (int i = 0; i < 9; ++i) versions.push_back(StoreObject("old-" + std::to_string(i), 1));
  Settle();
  ASSERT_TRUE(InCache(versions[0]));  // used again: the newest now
  StoreObject("new-1", 1);
  StoreObject("new-2", 1);
  Settle();
  EXPECT_TRUE(InCache(versions[0]));
  EXPECT_TRUE(InCache(Version("new-2", kPart)));
  EXPECT_FALSE(InCache(versions[1]));
  EXPECT_FALSE(InCache(versions[4]));
  EXPECT_LE(store_->Usage().used_bytes, options.limit_bytes / 2 + kPart);
  EXPECT_EQ(metrics_.cache_evicted_objects.value(), listener_.gone().size());
  EXPECT_GT(metrics_.cache_evicted_bytes.value(), 0u);
  ExpectBooksBalance();
}

TEST_F(ObjectStoreTest, UsesAreRememberedAcrossAReopen) {
  ObjectStoreOptions options = Options();
  options.limit_bytes = 4 * (kPart + kPageBytes);
  options.low_watermark = 1.0;
  Open(options);
  std::vector<FileVersion> versions;
  for (int i = 0; i < 3; ++i) versions.push_back(StoreObject("u-" + std::to_string(i), 1));
  Settle();
  ASSERT_TRUE(InCache(versions[0]));
  Open(options);
  Settle();
  StoreObject("v-1", 1);
  Settle();
  StoreObject("v-2", 1);
  EXPECT_FALSE(InCache(versions[1]));
  EXPECT_TRUE(InCache(versions[0]));
}

TEST_F(ObjectStoreTest, WhatIsHeldStaysAndTheRestIsNotSacrificedInVain) {
  ObjectStoreOptions options = Options();
  options.limit_bytes = 6 * (kPart + kPageBytes);
  Open(options);
  const FileVersion idle = StoreObject("idle", 1);
  const FileVersion held_version = StoreObject("held", 4);
  Settle();
  ObjectRef held = Acquire(held_version);
  const ObjectRef other = Acquire(Version("other", 3 * kPart));
  // Three parts do not fit beside the four held ones even without the idle one.
  EXPECT_EQ(store_->Reserve(other, 3 * kPart).status().code(), Code::kNoSpace);
  EXPECT_EQ(metrics_.cache_no_space.value(), 1u);
  EXPECT_TRUE(InCache(idle));
  // Two do, in place of the idle one.
  EXPECT_TRUE(store_->Reserve(other, 2 * kPart).ok());
  EXPECT_FALSE(InCache(idle));
  EXPECT_TRUE(held.complete());
  held = ObjectRef();
  EXPECT_TRUE(store_->Reserve(other, 3 * kPart).ok());
  EXPECT_FALSE(InCache(held_version));
  EXPECT_EQ(store_->Reserve(other, options.limit_bytes).status().code(), Code::kNoSpace);  // never fits
  EXPECT_EQ(store_->Usage().reserved_bytes, 0u);
}

TEST_F(ObjectStoreTest, InvalidatedButHeldBytesCannotBeEvicted) {
  ObjectStoreOptions options = Options();
  options.limit_bytes = 4 * (kPart + kPageBytes);
  Open(options);
  ObjectRef held = Acquire(StoreObject("held", 3));
  Settle();
  store_->Invalidate(held.id());
  const ObjectRef other = Acquire(Version("other", 3 * kPart));
  EXPECT_EQ(store_->Reserve(other, 3 * kPart).status().code(), Code::kNoSpace);
  held = ObjectRef();
  EXPECT_TRUE(store_->Reserve(other, 3 * kPart).ok());
}

TEST_F(ObjectStoreTest, AProtectGroupSparesWhatItBroughtUntilItEnds) {
  ObjectStoreOptions options = Options();
  options.limit_bytes = 6 * (kPart + kPageBytes);
  Open(options);
  const ProtectGroup one = store_->BeginProtect();
  const ProtectGroup two = store_->BeginProtect();
  const FileVersion in_one = StoreObject("in-one", 2, one);
  const FileVersion in_both = StoreObject("in-both", 2, one);
  EXPECT_TRUE(Acquire(in_both, two));
  Settle();
  const ObjectRef other = Acquire(Version("other", 6 * kPart));
  EXPECT_EQ(store_->Reserve(other, 4 * kPart).status().code(), Code::kNoSpace);
  store_->EndProtect(one);
  store_->EndProtect(one);  // once is enough
  EXPECT_TRUE(store_->Reserve(other, 3 * kPart).ok());
  EXPECT_FALSE(InCache(in_one));
  EXPECT_TRUE(InCache(in_both));
  EXPECT_EQ(store_->Reserve(other, 5 * kPart).status().code(), Code::kNoSpace);
  // Invalidated and made anew outside: the group that still has the name does not have the object.
  store_->Invalidate(MakeObjectId(in_both));
  StoreObject("in-both", 2);
  Settle();
  EXPECT_TRUE(store_->Reserve(other, 5 * kPart).ok());
  store_->EndProtect(two);
  EXPECT_FALSE(InCache(in_both));
}

TEST_F(ObjectStoreTest, RetainKeepsWhatIsThereAndTakesInNothingNew) {
  ObjectStoreOptions options = Options();
  options.limit_bytes = 8 * (kPart + kPageBytes);
  options.policy = CachePolicy::kRetain;
  Open(options);
  std::vector<FileVersion> versions;
  for (int i = 0; i < 8; ++i) versions.push_back(StoreObject("kept-" + std::to_string(i), 1));
  Settle();
  const uint64_t used = store_->Usage().used_bytes;
  for (const ProtectGroup group : {ProtectGroup{0}, store_->BeginProtect()}) {
    const ObjectRef fresh = Acquire(Version("fresh", kPart), group);
    const Status refused = store_->Reserve(fresh, kPart).status();
    EXPECT_EQ(refused.code(), Code::kNoSpace);
    EXPECT_THAT(refused.message(), ::testing::HasSubstr("cache.policy retain"));
    store_->EndProtect(group);
  }
  EXPECT_EQ(metrics_.cache_refused.value(), 2u);
  EXPECT_EQ(metrics_.cache_no_space.value(), 0u) << "that is no shortage";
  EXPECT_EQ(metrics_.cache_evicted_objects.value(), 0u);
  EXPECT_EQ(store_->Usage().used_bytes, used);
  for (const FileVersion& version : versions) EXPECT_TRUE(InCache(version));
  EXPECT_EQ(store_->Policy().deciding, CachePolicy::kRetain);
  // A smaller limit is kept all the same, and what goes is what was unused for longest.
  options.limit_bytes = 4 * (kPart + kPageBytes);
  Open(options);
  Settle();
  EXPECT_LE(store_->Usage().used_bytes, options.limit_bytes);
  EXPECT_TRUE(InCache(versions.back()));
  EXPECT_FALSE(InCache(versions.front()));
  EXPECT_GT(metrics_.cache_evicted_retain.value(), 0u);
  ExpectBooksBalance();
}

TEST_F(ObjectStoreTest, AutoRefusesReadersButNotWarmJobs) {
  ObjectStoreOptions options = Options();
  options.limit_bytes = 8 * (kPart + kPageBytes);
  options.policy = CachePolicy::kAuto;
  Open(options);
  const FileVersion first = StoreObject("kept-0", 1);
  for (int i = 1; i < 8; ++i) StoreObject("kept-" + std::to_string(i), 1);
  Settle();
  const FileVersion version = Version("fresh", kPart);
  {
    const ObjectRef fresh = Acquire(version);
    EXPECT_EQ(store_->Reserve(fresh, kPart).status().code(), Code::kNoSpace);
    EXPECT_TRUE(InCache(first));
  }
  const ProtectGroup group = store_->BeginProtect();
  {
    const ObjectRef fresh = Acquire(version, group);
    EXPECT_TRUE(store_->Reserve(fresh, kPart).ok());
  }
  store_->EndProtect(group);
  EXPECT_GT(metrics_.cache_evicted_objects.value(), 0u);
  EXPECT_EQ(metrics_.cache_refused.value(), 1u);
  const PolicyReport report = store_->Policy();
  EXPECT_EQ(report.configured, CachePolicy::kAuto);
  EXPECT_EQ(report.deciding, CachePolicy::kRetain);
  EXPECT_NE(report.reason, "");
  ExpectBooksBalance();
}

TEST_F(ObjectStoreTest, ASmallerLimitIsReachedAfterReopening) {
  Open();
  for (int i = 0; i < 20; ++i) StoreObject("s-" + std::to_string(i), 1);
  ObjectStoreOptions options = Options();
  options.limit_bytes = 5 * (kPart + kPageBytes);
  Open(options);
  Settle();
  EXPECT_LE(store_->Usage().used_bytes, options.limit_bytes);
  EXPECT_GT(store_->Usage().objects, 0u);
  ExpectBooksBalance();
}

TEST_F(ObjectStoreTest, TheDisksMinimumFreeSpaceIsLeft) {
  ObjectStoreOptions options = Options();
  options.min_free_bytes = uint64_t{1} << 60;
  Open(options);
  const ObjectRef object = Acquire(Version("a", kPart));
  EXPECT_EQ(store_->Reserve(object, kPart).status().code(), Code::kNoSpace);
}

// ---- opening
// --------------------------------------------------------------------------------------------------

TEST_F(ObjectStoreTest, ADirectoryThatIsGoneDoesNotFloodTheLog) {
  ManualClock clock;
  auto opened = ObjectStore::Open(Options(), metrics_, clock);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  store_ = std::move(opened).value();
  fs::remove_all(dir_ / "cache");
  ASSERT_TRUE(ConfigureLog("info", dir_ / "log").ok());
  constexpr int kFiles = 200;
  for (int i = 0; i < kFiles; ++i) {
    EXPECT_FALSE(Acquire(Version("lost" + std::to_string(i), kPart)).File().ok());
  }
  clock.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(Acquire(Version("later", kPart)).File().ok());
  ASSERT_TRUE(ConfigureLog("info", "").ok());
  std::ifstream log(dir_ / "log");
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) {
    if (line.find("cache disk: making") != std::string::npos) lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines.back(), ::testing::HasSubstr("lines like this one left out: 195"));
  EXPECT_GE(metrics_.cache_errors.value(), static_cast<uint64_t>(kFiles));  // each is counted all the same
}

TEST_F(ObjectStoreTest, OneDirectoryHasOneStore) {
  Open();
  Metrics other_metrics;
  const auto second = ObjectStore::Open(Options(), other_metrics, Clock::Real());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kBusy);
  EXPECT_EQ(second.status().message(), "cache directory " + dir_ / "cache is in use by stoker pid " +
                                           std::to_string(::getpid()) +
                                           ": stop it or choose another cache.dirs");
}

TEST_F(ObjectStoreTest, ImpossibleOptionsAreNamed) {
  const auto message = [&](const ObjectStoreOptions& options) {
    const auto opened = ObjectStore::Open(options, metrics_, Clock::Real());
    EXPECT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), Code::kInvalidArgument);
    return opened.status().message();
  };
  ObjectStoreOptions options = Options();
  options.part_length = 5000;
  EXPECT_EQ(message(options), "prefetch.part_length 5000B: must be a multiple of 4KiB, from 4KiB to 1GiB");
  options.part_length = 0;
  EXPECT_EQ(message(options), "prefetch.part_length 0B: must be a multiple of 4KiB, from 4KiB to 1GiB");
  options = Options();
  options.limit_bytes = kPart;
  EXPECT_EQ(message(options),
            "cache.size 64KiB does not hold one part (prefetch.part_length 64KiB): give it at least 68KiB");
  options = Options();
  options.low_watermark = 1.5;
  EXPECT_THAT(message(options), ::testing::HasSubstr("must be above 0 and at most 1"));
  options = Options();
  options.dir = "";
  EXPECT_EQ(message(options), "cache directory: the name is empty (cache.dirs)");
}

TEST_F(ObjectStoreTest, AFileOfTooManyPartsIsNotCached) {
  Open();
  const auto refused = store_->Acquire(Version("huge", uint64_t{1} << 62), "huge", 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
}

TEST_F(ObjectStoreTest, AnUnreadableRowIsAnObjectLessNotAWrongOne) {
  Open();
  const FileVersion version = StoreObject("same", 1);
  // A file of the same size and another token is another object.
  EXPECT_FALSE(store_->Find({version.size, version.token + "'"}).ok());
  EXPECT_TRUE(store_->Find(version).ok());
}

// ---- the machine goes down
// ------------------------------------------------------------------------------------

#if defined(STOKER_SYNC_POINTS)
TEST_F(ObjectStoreTest, AfterAMachineCrashUnsealedPartsAreComparedWithTheirChecksums) {
  FileVersion sealed, unsealed, partial;
  {
    const ScopedEnv boot("STOKER_BOOT_ID", "boot-1");
    Open();
    sealed = StoreObject("sealed", 2);
    Settle();
    // From here on nothing is sealed and the run does not end cleanly: a copy of the directory is what the
    // disk holds when the machine dies.
    std::atomic<bool> hold{true};
    SyncPoints::Set("store.object.before_seal", [&] {
      while (hold.load()) std::this_thread::yield();
    });
    unsealed = StoreObject("unsealed", 2);
    partial = Version("partial", 3 * kPart);
    {
      const ObjectRef object = Acquire(partial);
      for (const uint32_t part : {0u, 2u}) {
        ASSERT_TRUE(
            StorePart(*store_, object, static_cast<PartIndex>(part), RandomBytes(random_, kPart)).ok());
      }
    }
    ASSERT_EQ(::system(("cp -a '" + (dir_ / "cache") + "' '" + (dir_ / "crashed") + "'").c_str()), 0);
    hold = false;
    store_.reset();
    SyncPoints::Clear();
    fs::remove_all(dir_ / "cache");
    fs::rename(dir_ / "crashed", dir_ / "cache");
  }
  Garble(unsealed, kPart + 5);
  Garble(partial, 5);
  const ScopedEnv boot("STOKER_BOOT_ID", "boot-2");
  Open();
  {
    const ObjectRef object = Acquire(unsealed);
    EXPECT_TRUE(object.IsResident(kFirst));
    EXPECT_FALSE(object.IsResident(PartIndex{1}));
    EXPECT_FALSE(object.complete());
    EXPECT_TRUE(store_->Verify(object, kFirst).ok());
  }
  {
    const ObjectRef object = Acquire(partial);
    EXPECT_FALSE(object.IsResident(kFirst));
    EXPECT_TRUE(object.IsResident(PartIndex{2}));
  }
  EXPECT_EQ(metrics_.cache_damaged_parts.value(), 2u);
  // The copy has other inode numbers: the sealed object is not taken for ours either.
  EXPECT_EQ(Acquire(sealed).File().status().code(), Code::kCorruption);
  ExpectBooksBalance();
}
#endif

TEST_F(ObjectStoreTest, ACleanShutdownIsTrustedAfterAReboot) {
  FileVersion whole;
  const FileVersion partial = Version("partial", 2 * kPart);
  {
    const ScopedEnv boot("STOKER_BOOT_ID", "boot-1");
    Open();
    whole = StoreObject("whole", 2);
    ASSERT_TRUE(StorePart(*store_, Acquire(partial), kFirst, RandomBytes(random_, kPart)).ok());
    store_.reset();
  }
  const ScopedEnv boot("STOKER_BOOT_ID", "boot-2");
  Open();
  EXPECT_TRUE(store_->Find(whole).value().complete());
  EXPECT_TRUE(store_->Find(partial).value().IsResident(kFirst));
  EXPECT_EQ(metrics_.cache_damaged_parts.value(), 0u);
}

// ---- many threads
// ---------------------------------------------------------------------------------------------

TEST_F(ObjectStoreTest, ThreadsThatFetchReadInvalidateAndEvictNeverSeeWrongBytes) {
  ObjectStoreOptions options = Options();
  constexpr uint64_t kSmallPart = 8 * kKiB;
  constexpr uint32_t kParts = 4;
  options.part_length = kSmallPart;
  options.limit_bytes = 20 * kSmallPart;  // five whole objects of the eight there are, less what is held
  options.max_open_files = 2;
  Open(options);
  const auto bytes_of = [](uint64_t object, uint32_t part) {
    return std::vector<std::byte>(kSmallPart, static_cast<std::byte>(object * kParts + part + 1));
  };
  std::atomic<uint64_t> wrong{0}, read{0}, stored{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(testing::TestSeed() + t);
      for (int step = 0; step < 400; ++step) {
        const uint64_t n = random.Below(8);
        const FileVersion version = Version("t-" + std::to_string(n), kParts * kSmallPart);
        if (random.OneIn(40)) {
          store_->Invalidate(MakeObjectId(version));
          continue;
        }
        const auto acquired = store_->Acquire(version, "t", 0);
        if (!acquired.ok()) {
          ++wrong;
          continue;
        }
        const ObjectRef& object = acquired.value();
        for (uint32_t part = 0; part < kParts; ++part) {
          const auto index = static_cast<PartIndex>(part);
          if (object.IsResident(index)) {
            wrong += ReadPart(object, index) != bytes_of(n, part);
            ++read;
          } else {
            const Status status = StorePart(*store_, object, index, bytes_of(n, part));
            if (status.ok()) ++stored;
            wrong += !status.ok() && status.code() != Code::kNoSpace;
          }
        }
        if (random.OneIn(60)) store_->DropDamaged(object, static_cast<PartIndex>(random.Below(kParts)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(read.load(), 0u);
  EXPECT_GT(stored.load(), 0u);
  EXPECT_LE(store_->Usage().used_bytes, options.limit_bytes);
  ExpectBooksBalance();
  Open(options);
  ExpectBooksBalance();
}

}  // namespace
}  // namespace stoker
