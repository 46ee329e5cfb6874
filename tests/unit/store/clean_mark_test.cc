// A run may call its end clean only when all that its rows vouch for is durable, whoever wrote it.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "cache/base/mutex.h"
#include "cache/store/disk.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/store/store_support.h"

namespace stoker {
namespace {

/// What this process has synced, by inode.
struct SyncSpy {
  Mutex mu;
  std::set<ino_t> synced GUARDED_BY(mu);
  ino_t failing GUARDED_BY(mu) = 0;  // a sync of this one answers EIO
};
SyncSpy& Spy() {
  static SyncSpy spy;
  return spy;
}

}  // namespace
}  // namespace stoker

/// In place of the C library's, for everything in this program.
extern "C" int fdatasync(int fd) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return -1;
  {
    stoker::SyncSpy& spy = stoker::Spy();
    stoker::MutexLock lock(spy.mu);
    if (spy.failing == info.st_ino) {
      errno = EIO;
      return -1;
    }
    spy.synced.insert(info.st_ino);
  }
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

namespace stoker {
namespace {

using testing::RandomBytes;
using testing::StorePart;
using testing::Version;

constexpr uint64_t kPart = 64 * kKiB;
constexpr PartIndex kFirst{0};

class CleanMarkTest : public ::testing::Test {
 protected:
  ~CleanMarkTest() override {
    ::unsetenv("STOKER_BOOT_ID");
    SetFailing(0);
  }
  void Boot(const char* boot) { ::setenv("STOKER_BOOT_ID", boot, 1); }
  void Open() {
    auto opened = ObjectStore::Open({.dir = dir_ / "cache", .limit_bytes = 64 * kMiB, .part_length = kPart},
                                    metrics_, Clock::Real());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(opened).value();
  }
  /// A run that stores one part of `version` and is killed: what it leaves is a copy made while it goes on.
  void KilledRun(const FileVersion& version) {
    Open();
    {
      const auto object = store_->Acquire(version, "hint");
      ASSERT_TRUE(object.ok());
      ASSERT_TRUE(StorePart(*store_, object.value(), kFirst, RandomBytes(random_, kPart)).ok());
    }
    ASSERT_EQ(::system(("cp -a '" + (dir_ / "cache") + "' '" + (dir_ / "killed") + "'").c_str()), 0);
    store_.reset();
    std::filesystem::remove_all(dir_ / "cache");
    std::filesystem::rename(dir_ / "killed", dir_ / "cache");
  }
  std::string FilePath(const FileVersion& version) {
    return dir_ / ("cache/objects/" + Disk::RelativePath(MakeObjectId(version)));
  }
  ino_t InodeOf(const FileVersion& version) {
    struct stat info = {};
    EXPECT_EQ(::stat(FilePath(version).c_str(), &info), 0);
    return info.st_ino;
  }
  static void Forget() {
    MutexLock lock(Spy().mu);
    Spy().synced.clear();
  }
  static bool Synced(ino_t inode) {
    MutexLock lock(Spy().mu);
    return Spy().synced.contains(inode);
  }
  static void SetFailing(ino_t inode) {
    MutexLock lock(Spy().mu);
    Spy().failing = inode;
  }

  testing::TempDir dir_;
  Metrics metrics_;
  Random random_{testing::TestSeed()};
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(CleanMarkTest, WhatAKilledRunLeftIsSyncedBeforeALaterEndIsCalledClean) {
  const FileVersion version = Version("inherited", 2 * kPart);
  Boot("boot-1");
  KilledRun(version);
  const ino_t inode = InodeOf(version);
  Forget();
  Open();
  store_.reset();
  EXPECT_TRUE(Synced(inode)) << "another run vouches for bytes that only the page cache has";
  // Once is enough: that run ended cleanly.
  Forget();
  Open();
  store_.reset();
  EXPECT_FALSE(Synced(inode));
  Boot("boot-2");
  Open();
  const auto found = store_->Find(version);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found.value().IsResident(kFirst));
}

TEST_F(CleanMarkTest, WhatWasVerifiedAfterACrashIsSyncedToo) {
  const FileVersion version = Version("verified", 2 * kPart);
  Boot("boot-1");
  KilledRun(version);
  const ino_t inode = InodeOf(version);
  Boot("boot-2");
  Forget();
  Open();
  ASSERT_TRUE(store_->Find(version).ok());  // compares it with its checksums, and takes the mark away
  store_.reset();
  EXPECT_TRUE(Synced(inode));
}

TEST_F(CleanMarkTest, ASuspectThatNobodyAskedForStaysSuspectAfterACleanEnd) {
  const FileVersion version = Version("suspect", 2 * kPart);
  Boot("boot-1");
  KilledRun(version);
  Boot("boot-2");
  Open();
  store_.reset();
  ASSERT_EQ(::truncate(FilePath(version).c_str(), 0), 0);  // its blocks are gone, its size is right
  ASSERT_EQ(::truncate(FilePath(version).c_str(), static_cast<off_t>(version.size)), 0);
  Open();
  EXPECT_EQ(store_->Find(version).status().code(), Code::kNotFound);
  EXPECT_EQ(metrics_.cache_damaged_parts.value(), 1u);
}

TEST_F(CleanMarkTest, BytesWhoseSyncFailedAreForgotten) {
  const FileVersion version = Version("failed", 2 * kPart);
  Boot("boot-1");
  KilledRun(version);
  SetFailing(InodeOf(version));
  Open();
  store_.reset();
  SetFailing(0);
  Open();  // the same boot: rows would be believed
  EXPECT_EQ(store_->Find(version).status().code(), Code::kNotFound);
  EXPECT_GT(metrics_.cache_errors.value(), 0u);
}

}  // namespace
}  // namespace stoker
