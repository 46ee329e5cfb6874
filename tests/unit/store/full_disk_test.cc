// A cache directory on a small file system of its own, which other programs fill, and files that change
// behind the store's back.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cache/store/disk.h"
#include "cache/store/full_disk.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/store/store_support.h"

namespace stoker {
namespace {

using testing::RandomBytes;
using testing::StorePart;
using testing::StoreWhole;
using testing::TempDir;
using testing::Version;

namespace fs = std::filesystem;

constexpr uint64_t kPart = 256 * kKiB;
constexpr PartIndex kFirst{0};

/// Not for ever: the condition holds at some time.
bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// Bytes in allocated blocks of all files below.
uint64_t Allocated(const std::string& dir) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    struct stat info = {};
    if (entry.is_regular_file() && ::stat(entry.path().c_str(), &info) == 0) bytes += AllocatedBytes(info);
  }
  return bytes;
}

/// Some other program's file, which takes what the disk has left or gives it back.
class OtherProgram {
 public:
  explicit OtherProgram(const std::string& path)
      : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {}
  /// Writes until the disk is full or the file has so many bytes.
  void Fill(uint64_t bytes = UINT64_MAX) {
    const std::vector<char> block(64 * kKiB, 'x');
    for (size_t step = block.size(); step >= kPageBytes;) {
      const ssize_t put = size_ < bytes ? ::write(file_.get(), block.data(), step) : 0;
      if (put <= 0) {
        step /= 2;
      } else {
        size_ += static_cast<uint64_t>(put);
      }
    }
  }
  void Empty() {
    ASSERT_EQ(::ftruncate(file_.get(), 0), 0);
    ASSERT_EQ(::lseek(file_.get(), 0, SEEK_SET), 0);
    size_ = 0;
  }

 private:
  const Fd file_;
  uint64_t size_ = 0;
};

class FullDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    disk_ = dir_ / "disk";
    ASSERT_TRUE(fs::create_directory(disk_));
    if (::mount("none", disk_.c_str(), "tmpfs", 0, "size=64m") != 0) GTEST_SKIP() << "mounting needs root";
    mounted_ = true;
    other_ = std::make_unique<OtherProgram>(disk_ + "/other");
  }
  void TearDown() override {
    store_.reset();
    other_.reset();
    if (mounted_) ::umount2(disk_.c_str(), MNT_DETACH);
  }
  void Open(uint64_t min_free = 0) {
    auto opened = ObjectStore::Open({.dir = disk_ + "/cache",
                                     .limit_bytes = kGiB,
                                     .min_free_bytes = min_free,
                                     .part_length = kPart,
                                     .policy = CachePolicy::kLru},
                                    metrics_, Clock::Real());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(opened).value();
  }
  void StoreObjects(int count, uint64_t size) {
    for (int i = 0; i < count; ++i) {
      const auto object = store_->Acquire(Version("o-" + std::to_string(i), size), "o");
      ASSERT_TRUE(object.ok());
      const Status stored = StoreWhole(*store_, *object, RandomBytes(random_, size));
      ASSERT_TRUE(stored.ok()) << stored.ToString();
    }
    ASSERT_TRUE(store_->Flush(std::chrono::seconds(60)).ok());
  }
  uint64_t Free() {
    struct statvfs info = {};
    EXPECT_EQ(::statvfs(disk_.c_str(), &info), 0);
    return info.f_bavail * info.f_frsize;
  }

  TempDir dir_;
  std::string disk_;
  bool mounted_ = false;
  Metrics metrics_;
  Random random_{testing::TestSeed()};
  std::unique_ptr<OtherProgram> other_;
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(FullDiskTest, TheCacheGivesWayToOtherProgramsWithoutBeingAsked) {
  constexpr uint64_t kMinFree = 8 * kMiB;
  Open(kMinFree);
  StoreObjects(20, kMiB);
  EXPECT_GE(Free(), kMinFree);
  other_->Fill(24 * kMiB);
  EXPECT_TRUE(Eventually([&] { return Free() >= kMinFree; })) << Free() << " bytes are free";
  // Counted after the files are gone.
  EXPECT_TRUE(Eventually([&] { return metrics_.cache_evicted_objects.value() > 0; }));
  EXPECT_GT(store_->Usage().objects, 0u) << "no more goes than must";
}

TEST_F(FullDiskTest, AWriteThatTheDiskRefusesEvictsAndSucceeds) {
  Open();
  StoreObjects(8, kMiB);
  const auto object = store_->Acquire(Version("late", kPart), "late");
  ASSERT_TRUE(object.ok());
  auto room = store_->Reserve(*object, kPart);
  ASSERT_TRUE(room.ok()) << room.status().ToString();
  const auto file = object->File();
  ASSERT_TRUE(file.ok());
  other_->Fill();
  const std::vector<std::byte> bytes = RandomBytes(random_, kPart);
  ASSERT_LT(::pwrite((*file)->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(kPart));
  ASSERT_TRUE(MakeRoomOnFullDisk(*room));
  EXPECT_EQ(::pwrite((*file)->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(kPart));
  const Status committed = store_->Commit(*object, kFirst, Checksum64(bytes), std::move(*room));
  EXPECT_TRUE(committed.ok()) << committed.ToString();
  EXPECT_EQ(testing::ReadPart(*object, kFirst), bytes);
  EXPECT_GT(metrics_.cache_evicted_objects.value(), 0u);
}

TEST_F(FullDiskTest, WithNothingToEvictTheWriteIsGivenUp) {
  Open();
  const auto object = store_->Acquire(Version("late", kPart), "late");
  ASSERT_TRUE(object.ok());
  auto room = store_->Reserve(*object, kPart);
  ASSERT_TRUE(room.ok());
  other_->Fill();
  EXPECT_FALSE(MakeRoomOnFullDisk(*room));
  EXPECT_EQ(store_->Reserve(*object, kPart).status().code(), Code::kNoSpace);
  other_->Empty();
  EXPECT_TRUE(Eventually([&] { return store_->Reserve(*object, kPart).ok(); })) << "caching resumes";
}

TEST_F(FullDiskTest, ADeletedFileLeavesTheBooks) {
  Open();
  StoreObjects(4, kMiB);
  const std::string hex = MakeObjectId(Version("o-2", kMiB)).ToHex();
  ASSERT_TRUE(fs::remove(disk_ + "/cache/objects/" + hex.substr(0, 2) + "/" + hex));
  EXPECT_TRUE(Eventually([&] { return store_->Usage().objects == 3; }));
  EXPECT_EQ(store_->Usage().used_bytes, Allocated(disk_ + "/cache/objects"));
}

TEST_F(FullDiskTest, BlocksThatAFileGainsOrLosesBehindItsBackAreBooked) {
  Open();
  const FileVersion version = Version("half", 8 * kPart);
  {
    const auto object = store_->Acquire(version, "half");
    ASSERT_TRUE(object.ok());
    ASSERT_TRUE(StorePart(*store_, *object, PartIndex{3}, RandomBytes(random_, kPart)).ok());
  }
  const std::string hex = MakeObjectId(version).ToHex();
  const std::string path = disk_ + "/cache/objects/" + hex.substr(0, 2) + "/" + hex;
  const uint64_t before = store_->Usage().used_bytes;
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  ASSERT_EQ(::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, kPart), 0);
  EXPECT_TRUE(Eventually([&] { return store_->Usage().used_bytes == before + kPart; }))
      << before << " " << store_->Usage().used_bytes;
  ASSERT_EQ(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPart), 0);
  EXPECT_TRUE(Eventually([&] { return store_->Usage().used_bytes == before; }));
  EXPECT_EQ(store_->Usage().used_bytes, Allocated(disk_ + "/cache/objects"));
}

}  // namespace
}  // namespace stoker
