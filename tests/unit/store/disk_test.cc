#include "cache/store/disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

class DiskTest : public ::testing::Test {
 protected:
  std::unique_ptr<Disk> Open() {
    auto opened = Disk::Open(path_);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return opened.ok() ? std::move(opened).value() : nullptr;
  }
  Status Refusal() {
    const auto opened = Disk::Open(path_);
    EXPECT_FALSE(opened.ok());
    return opened.status();
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "cache";
  const ObjectId id_ = MakeObjectId({1, "disk-test"});
};

TEST_F(DiskTest, MakesAPrivateDirectoryWithAllItNeeds) {
  const auto disk = Open();
  EXPECT_EQ(ModeOf(path_), 0700u);
  for (const char* sub : {"objects", "index", "pending"}) EXPECT_EQ(ModeOf(path_ + "/" + sub), 0700u) << sub;
  EXPECT_EQ(ModeOf(path_ + "/lock"), 0600u);
  std::ifstream lock(path_ + "/lock");
  pid_t pid = 0;
  lock >> pid;
  EXPECT_EQ(pid, ::getpid());
  std::string format;
  std::getline(std::ifstream(path_ + "/format.json"), format);
  EXPECT_NE(format.find("\"format\":1"), std::string::npos) << format;
}

TEST_F(DiskTest, MakesParentsToo) {
  EXPECT_TRUE(Disk::Open(dir_ / "a/b/c/").ok());
  EXPECT_EQ(ModeOf(dir_ / "a/b/c"), 0700u);
}

TEST_F(DiskTest, ClosesADirectoryThatWasOpenToOthers) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0755), 0);
  const auto disk = Open();
  EXPECT_EQ(ModeOf(path_), 0700u);
}

TEST_F(DiskTest, ASecondUserIsToldWhoTheFirstIs) {
  const auto disk = Open();
  const Status refused = Refusal();
  EXPECT_EQ(refused.code(), Code::kBusy);
  EXPECT_EQ(refused.message(), "cache directory " + path_ + " is in use by stoker pid " +
                                   std::to_string(::getpid()) + ": stop it or choose another cache.dirs");
}

TEST_F(DiskTest, TheLockGoesWithItsHolder) {
  Open().reset();
  EXPECT_NE(Open(), nullptr);
}

TEST_F(DiskTest, ASymbolicLinkIsRefused) {
  ASSERT_EQ(::mkdir((dir_ / "real").c_str(), 0700), 0);
  ASSERT_EQ(::symlink((dir_ / "real").c_str(), path_.c_str()), 0);
  const Status refused = Refusal();
  EXPECT_EQ(refused.code(), Code::kPermissionDenied);
  EXPECT_EQ(refused.message(), "cache directory " + path_ +
                                   " is a symbolic link: name the directory that it leads to in cache.dirs");
}

TEST_F(DiskTest, ADirectoryOfSomebodyElseIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  const Status refused = Refusal();
  EXPECT_EQ(refused.code(), Code::kPermissionDenied);
  EXPECT_EQ(refused.message(),
            "cache directory " + path_ +
                " belongs to user 65534, not to user 0: chown it or choose another cache.dirs");
}

TEST_F(DiskTest, AnUnwritablePlaceIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(::seteuid(65534), 0);
  const auto opened = Disk::Open(path_);
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kPermissionDenied);
  EXPECT_EQ(opened.status().message(), "cache directory " + path_ + ": cannot be made: Permission denied");
}

TEST_F(DiskTest, AFileInTheWayIsNamed) {
  std::ofstream(path_) << "x";
  const Status refused = Refusal();
  EXPECT_EQ(refused.code(), Code::kNotADirectory);
  EXPECT_NE(refused.message().find(path_), std::string::npos);
}

TEST_F(DiskTest, AForeignDirectoryIsLeftAlone) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0755), 0);
  std::ofstream(path_ + "/thesis.tex") << "x";
  const Status refused = Refusal();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.message(), "cache directory " + path_ +
                                   " is not empty and has no format.json: choose an empty or a "
                                   "new directory in cache.dirs");
  EXPECT_TRUE(fs::exists(path_ + "/thesis.tex"));
  EXPECT_FALSE(fs::exists(path_ + "/lock"));
  EXPECT_EQ(ModeOf(path_), 0755u);
}

TEST_F(DiskTest, AnEmptyFileSystemsRootIsFine) {
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((path_ + "/lost+found").c_str(), 0700), 0);
  EXPECT_NE(Open(), nullptr);
}

TEST_F(DiskTest, ANewerFormatIsRefusedWithTheRemedy) {
  Open().reset();
  std::ofstream(path_ + "/format.json") << R"({"format": 2, "made_by": "stoker 9.0"})";
  const Status refused = Refusal();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_EQ(refused.message(),
            path_ +
                "/format.json says format 2, this stoker knows 1: use the stoker that made it, "
                "or empty " +
                path_ + " to start with an empty cache");
}

TEST_F(DiskTest, AnOlderFormatIsRefusedWithTheRemedy) {
  Open().reset();
  std::ofstream(path_ + "/format.json") << R"({"format": 0, "made_by": "stoker 0.0"})";
  const Status refused = Refusal();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(refused.message().find("empty " + path_ + " to start with an empty cache"), std::string::npos);
}

TEST_F(DiskTest, AnUnreadableFormatIsRefused) {
  Open().reset();
  for (const char* text : {"", "{", "[1]", R"({"format": "one"})", R"({"version": 1})"}) {
    std::ofstream(path_ + "/format.json") << text;
    EXPECT_EQ(Refusal().code(), Code::kCorruption) << text;
  }
}

TEST_F(DiskTest, LinksInsideAreNotFollowed) {
  Open().reset();
  for (const char* sub : {"objects", "index", "pending"}) {
    fs::rename(path_ + "/" + sub, dir_ / sub);
    ASSERT_EQ(::symlink((dir_ / sub).c_str(), (path_ + "/" + sub).c_str()), 0);
    const Status refused = Refusal();
    EXPECT_EQ(refused.code(), Code::kPermissionDenied);
    EXPECT_EQ(refused.message(), path_ + "/" + sub +
                                     " is not a directory of this cache (a symbolic link or a file): "
                                     "remove it and start again");
    fs::remove(path_ + "/" + sub);
    fs::rename(dir_ / sub, path_ + "/" + sub);
  }
  // One level deeper, and in place of the file itself.
  const auto disk = Open();
  ASSERT_TRUE(disk->CreateObject(id_, 10).ok());
  const std::string file = path_ + "/objects/" + Disk::RelativePath(id_);
  fs::rename(file, dir_ / "elsewhere");
  ASSERT_EQ(::symlink((dir_ / "elsewhere").c_str(), file.c_str()), 0);
  EXPECT_EQ(disk->OpenObject(id_).status().os_errno(), ELOOP);
  EXPECT_TRUE(S_ISLNK(disk->StatObject(id_).value().st_mode));
  fs::remove(file);
  fs::rename(fs::path(file).parent_path(), dir_ / "shard");
  ASSERT_EQ(::symlink((dir_ / "shard").c_str(), fs::path(file).parent_path().c_str()), 0);
  EXPECT_EQ(disk->CreateObject(id_, 10).status().os_errno(), ELOOP);
  // What lies behind the link has the object's very name, and is not the object.
  fs::rename(dir_ / "elsewhere", dir_ / "shard" / fs::path(file).filename());
  EXPECT_FALSE(disk->StatObject(id_).ok());
  EXPECT_TRUE(disk->UnlinkObject(id_).ok());
  EXPECT_TRUE(fs::exists(dir_ / "shard" / fs::path(file).filename()));
  fs::remove(fs::path(file).parent_path());
  std::ofstream(fs::path(file).parent_path()) << "a file";
  EXPECT_TRUE(disk->UnlinkObject(id_).ok());
}

TEST_F(DiskTest, ObjectFilesAreSparseAndPrivate) {
  const auto disk = Open();
  const auto made = disk->CreateObject(id_, 1'000'000'000);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const std::string hex = id_.ToHex();
  const std::string path = path_ + "/objects/" + hex.substr(0, 2) + "/" + hex;
  EXPECT_EQ(ModeOf(path), 0600u);
  const auto info = disk->StatObject(id_);
  EXPECT_EQ(info.value().st_size, 1'000'000'000);
  EXPECT_LE(AllocatedBytes(info.value()), 4096u);
  EXPECT_EQ(disk->CreateObject(id_, 5).status().code(), Code::kAlreadyExists);
  EXPECT_TRUE(disk->OpenObject(id_).ok());
  EXPECT_TRUE(disk->UnlinkObject(id_).ok());
  EXPECT_TRUE(disk->UnlinkObject(id_).ok());
  EXPECT_EQ(disk->OpenObject(id_).status().code(), Code::kNotFound);
}

TEST_F(DiskTest, AnImpossibleSizeLeavesNoFile) {
  const auto disk = Open();
  EXPECT_FALSE(disk->CreateObject(id_, UINT64_MAX).ok());
  EXPECT_EQ(disk->OpenObject(id_).status().code(), Code::kNotFound);
}

TEST_F(DiskTest, UnlinkAllStaysInside) {
  const auto disk = Open();
  ASSERT_TRUE(disk->CreateObject(id_, 10).ok());
  ASSERT_EQ(::mkdir((dir_ / "outside").c_str(), 0700), 0);
  std::ofstream(dir_ / "outside/kept") << "x";
  ASSERT_EQ(::symlink((dir_ / "outside").c_str(), (path_ + "/objects/zz").c_str()), 0);
  ASSERT_TRUE(disk->UnlinkAll().ok());
  EXPECT_TRUE(fs::is_empty(path_ + "/objects"));
  EXPECT_TRUE(fs::exists(dir_ / "outside/kept"));
}

TEST_F(DiskTest, ADirectoryInAnObjectsPlaceIsRemovedToo) {
  const auto disk = Open();
  fs::create_directories(path_ + "/objects/" + Disk::RelativePath(id_));
  EXPECT_TRUE(disk->UnlinkObject(id_).ok());
  EXPECT_FALSE(fs::exists(path_ + "/objects/" + Disk::RelativePath(id_)));
}

}  // namespace
}  // namespace stoker
