#include "cache/ufs/posix_ufs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cache/base/units.h"
#include "cache/ufs/ufs_factory.h"
#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::TempDir;

class PosixUfsTest : public ::testing::Test {
 protected:
  PosixUfsTest() {
    Result<std::unique_ptr<Ufs>> made = MakeUfs(dir_.path(), metrics_);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    ufs_ = std::move(made).value();
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
  }
  std::string ReadAll(UfsFile& file) {
    std::string bytes(file.version().size + 10, '\0');
    const Result<size_t> got =
        file.Read(0, std::as_writable_bytes(std::span(bytes.data(), bytes.size())), CancelToken());
    EXPECT_TRUE(got.ok()) << got.status().ToString();
    bytes.resize(got.ok() ? *got : 0);
    return bytes;
  }

  TempDir dir_;
  Metrics metrics_;
  std::unique_ptr<Ufs> ufs_;
};

TEST_F(PosixUfsTest, StatAgreesWithTheKernel) {
  Write("a", "hello");
  struct stat st {};
  ASSERT_EQ(::lstat((dir_ / "a").c_str(), &st), 0);
  const Result<UfsAttr> attr = ufs_->Stat("a");
  ASSERT_TRUE(attr.ok());
  EXPECT_EQ(attr->mode, st.st_mode);
  EXPECT_EQ(attr->ino, st.st_ino);
  EXPECT_EQ(attr->size, 5u);
  EXPECT_EQ(attr->blocks, static_cast<uint64_t>(st.st_blocks));
  EXPECT_EQ(attr->mtime.tv_nsec, st.st_mtim.tv_nsec);
  EXPECT_EQ(attr->version.size, 5u);
  EXPECT_FALSE(attr->version.token.empty());
  const Result<UfsAttr> root = ufs_->Stat("");
  ASSERT_TRUE(root.ok());
  EXPECT_TRUE(S_ISDIR(root->mode));
  EXPECT_TRUE(root->version.token.empty());
}

TEST_F(PosixUfsTest, VersionChangesWithContentAndIsTheSameOtherwise) {
  std::filesystem::create_directory(dir_ / "d");
  Write("d/a", "one");
  const FileVersion before = ufs_->Stat("d/a")->version;
  EXPECT_EQ(ufs_->Stat("d/a")->version, before);
  Result<std::unique_ptr<UfsFile>> file = ufs_->OpenFile("d/a");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->version(), before);
  EXPECT_EQ(ReadAll(**file), "one");
  EXPECT_TRUE((*file)->CheckVersion().ok());
  Write("d/a", "two");  // same size; only the times tell
  EXPECT_EQ((*file)->CheckVersion().code(), Code::kStale);
  EXPECT_NE(ufs_->Stat("d/a")->version, before);
}

TEST_F(PosixUfsTest, AFileJustWrittenIsTrustedOnlyAfterItsTick) {
  // Each round writes right after opening. If OpenFile did not wait the tick out, some write would get the
  // same stamp on kernels whose clock moves in ticks.
  for (int round = 0; round < 50; ++round) {
    Write("hot", "aaaa");
    Result<std::unique_ptr<UfsFile>> file = ufs_->OpenFile("hot");
    ASSERT_TRUE(file.ok());
    const Fd fd(::open((dir_ / "hot").c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(fd.get(), "bbbb", 4, 0), 4);
    EXPECT_EQ((*file)->CheckVersion().code(), Code::kStale);
  }
}

TEST_F(PosixUfsTest, NeverLeavesTheRoot) {
  TempDir outside;
  std::ofstream(outside / "secret") << "x";
  std::filesystem::create_directory_symlink(outside.path(), dir_ / "link");
  std::filesystem::create_symlink(outside / "secret", dir_ / "file");
  EXPECT_EQ(ufs_->Stat("../x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ufs_->Stat("/etc/passwd").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ufs_->Stat("a/./b").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ufs_->Stat(std::string("a\0b", 3)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ufs_->Stat("link/secret").status().code(), Code::kNotADirectory);
  EXPECT_EQ(ufs_->OpenFile("link/secret").status().code(), Code::kNotADirectory);
  EXPECT_EQ(ufs_->OpenFile("file").status().code(), Code::kStale);
  EXPECT_EQ(ufs_->OpenDir("link").status().code(), Code::kNotADirectory);
  ASSERT_TRUE(ufs_->Stat("link").ok());
  EXPECT_TRUE(S_ISLNK(ufs_->Stat("link")->mode));
  EXPECT_EQ(ufs_->ReadLink("file").value(), outside / "secret");
  EXPECT_EQ(ufs_->ReadLink("").status().code(), Code::kInvalidArgument);
}

TEST_F(PosixUfsTest, ListsEverythingOnceInPages) {
  std::set<std::string> expected;
  for (int i = 0; i < 300; ++i) {
    Write("f" + std::to_string(i), "");
    expected.insert("f" + std::to_string(i));
  }
  const std::string odd("\xff\xfe\x01 name\n");
  Write(odd, "");
  expected.insert(odd);
  Write(std::string(255, 'n'), "");
  expected.insert(std::string(255, 'n'));
  Result<std::unique_ptr<UfsDir>> dir = ufs_->OpenDir("");
  ASSERT_TRUE(dir.ok());
  std::multiset<std::string> seen;
  while (true) {
    std::vector<UfsDirEntry> page;
    ASSERT_TRUE((*dir)->Next(7, page).ok());
    if (page.empty()) break;
    EXPECT_LE(page.size(), 7u);
    for (const UfsDirEntry& entry : page) {
      seen.insert(entry.name);
      const Result<UfsAttr> attr = (*dir)->StatEntry(entry.name);
      ASSERT_TRUE(attr.ok());
      EXPECT_EQ(attr->ino, entry.ino);
      if (entry.type != 0) {
        EXPECT_EQ(entry.type, attr->mode & S_IFMT);
      }
      EXPECT_EQ(attr->version, ufs_->Stat(entry.name)->version);
    }
  }
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()), expected);
  EXPECT_EQ(seen.size(), expected.size());
  EXPECT_EQ((*dir)->StatEntry("..").status().code(), Code::kInvalidArgument);
  EXPECT_EQ((*dir)->StatEntry("none").status().code(), Code::kNotFound);
}

TEST_F(PosixUfsTest, PathsLongerThanPathMaxWork) {
  // Built downwards with *at calls: no single call of ours could name the bottom.
  Fd at(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string name(200, 'x');
  std::string path;
  for (int depth = 0; depth < 30; ++depth) {
    ASSERT_EQ(::mkdirat(at.get(), name.c_str(), 0755), 0);
    at = Fd(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at.valid());
    path += name + "/";
  }
  const Fd file(::openat(at.get(), "leaf", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(::write(file.get(), "deep", 4), 4);
  ASSERT_GT(path.size(), 4096u);
  const Result<UfsAttr> attr = ufs_->Stat(path + "leaf");
  ASSERT_TRUE(attr.ok()) << attr.status().ToString();
  EXPECT_EQ(attr->size, 4u);
  Result<std::unique_ptr<UfsFile>> opened = ufs_->OpenFile(path + "leaf");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(ReadAll(**opened), "deep");
  EXPECT_EQ(ufs_->Stat(path + "none").status().code(), Code::kNotFound);
  EXPECT_EQ(ufs_->Stat(path + std::string(5000, 'y')).status().code(), Code::kNameTooLong);
}

TEST_F(PosixUfsTest, SpecialFilesAreShownAndNotOpened) {
  ASSERT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0644), 0);
  std::filesystem::create_directory(dir_ / "dir");
  const Fd sock(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  struct sockaddr_un address {};
  address.sun_family = AF_UNIX;
  (dir_ / "sock").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(sock.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(S_ISFIFO(ufs_->Stat("fifo")->mode));
  EXPECT_TRUE(S_ISSOCK(ufs_->Stat("sock")->mode));
  EXPECT_EQ(ufs_->OpenFile("fifo").status().code(), Code::kUnsupported);
  EXPECT_EQ(ufs_->OpenFile("sock").status().code(), Code::kUnsupported);
  EXPECT_EQ(ufs_->OpenFile("dir").status().code(), Code::kIsADirectory);
  EXPECT_EQ(ufs_->OpenFile("none").status().code(), Code::kNotFound);
}

TEST_F(PosixUfsTest, AnOpenFileWaitsForItsBytes) {
  Write("a", "x");
  Result<std::unique_ptr<UfsFile>> file = ufs_->OpenFile("a");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(::fcntl((*file)->fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl((*file)->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(PosixUfsTest, FindsHoles) {
  const Fd fd(::open((dir_ / "sparse").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(::ftruncate(fd.get(), 8 * kMiB), 0);
  ASSERT_EQ(::pwrite(fd.get(), "x", 1, 4 * kMiB), 1);
  Result<std::unique_ptr<UfsFile>> file = ufs_->OpenFile("sparse");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->NextData(0).value(), 4 * kMiB);
  EXPECT_EQ((*file)->NextData(4 * kMiB).value(), 4 * kMiB);
  EXPECT_EQ((*file)->NextHole(0).value(), 0u);
  EXPECT_LE((*file)->NextHole(4 * kMiB).value(), 8 * kMiB);
  EXPECT_GT((*file)->NextHole(4 * kMiB).value(), 4 * kMiB);
  EXPECT_EQ((*file)->NextData(7 * kMiB).value(), 8 * kMiB);
  EXPECT_EQ((*file)->NextData(100 * kMiB).value(), 8 * kMiB);
}

TEST_F(PosixUfsTest, CancelledReadsStop) {
  Write("a", "hello");
  Result<std::unique_ptr<UfsFile>> file = ufs_->OpenFile("a");
  ASSERT_TRUE(file.ok());
  CancelToken cancel;
  cancel.Cancel();
  std::byte buffer[5];
  EXPECT_EQ((*file)->Read(0, buffer, cancel).status().code(), Code::kCancelled);
}

TEST_F(PosixUfsTest, Xattrs) {
  Write("a", "x");
  std::filesystem::create_directory(dir_ / "d");
  std::filesystem::create_symlink("a", dir_ / "l");
  if (::setxattr((dir_ / "a").c_str(), "user.k", "v\0w", 3, 0) != 0) GTEST_SKIP() << "no xattrs here";
  ASSERT_EQ(::setxattr((dir_ / "d").c_str(), "user.dir", "", 0, 0), 0);
  EXPECT_EQ(ufs_->GetXattr("a", "user.k").value(), std::string("v\0w", 3));
  EXPECT_EQ(ufs_->GetXattr("d", "user.dir").value(), "");
  const Status none = ufs_->GetXattr("a", "user.none").status();
  EXPECT_EQ(none.code(), Code::kNotFound);
  EXPECT_EQ(none.os_errno(), ENODATA);
  EXPECT_THAT(ufs_->ListXattr("a").value(), Contains("user.k"));
  EXPECT_EQ(ufs_->GetXattr("l", "user.k").status().os_errno(), ENODATA);
  EXPECT_EQ(ufs_->GetXattr("l", "user.k").status().code(), Code::kNotFound);
  EXPECT_TRUE(ufs_->ListXattr("l").value().empty());
  // A POSIX ACL with one named user, as the kernel stores it (version 2, little-endian).
  const uint32_t acl[] = {2,          0x0006'0001, 0xffffffff, 0x0004'0002, 12345,     0x0004'0004,
                          0xffffffff, 0x0006'0010, 0xffffffff, 0x0004'0020, 0xffffffff};
  if (::setxattr((dir_ / "a").c_str(), "system.posix_acl_access", acl, sizeof acl, 0) == 0) {
    EXPECT_EQ(ufs_->GetXattr("a", "system.posix_acl_access").value(),
              std::string(reinterpret_cast<const char*>(acl), sizeof acl));
  }
}

TEST_F(PosixUfsTest, MountsInsideTheTreeBelongToItAndInodesDoNotCollide) {
  std::filesystem::create_directory(dir_ / "m");
  if (::mount("none", (dir_ / "m").c_str(), "tmpfs", 0, nullptr) != 0) GTEST_SKIP() << "needs mount rights";
  std::ofstream(dir_ / "m/inside") << "other disk";
  struct stat st {};
  EXPECT_EQ(::stat((dir_ / "m/inside").c_str(), &st), 0);
  const Result<UfsAttr> attr = ufs_->Stat("m/inside");
  EXPECT_TRUE(attr.ok());
  if (attr.ok()) {
    EXPECT_NE(attr->ino, st.st_ino);
    EXPECT_EQ(attr->ino, ufs_->Stat("m/inside")->ino);
    Result<std::unique_ptr<UfsDir>> dir = ufs_->OpenDir("m");
    std::vector<UfsDirEntry> entries;
    EXPECT_TRUE(dir.ok() && (*dir)->Next(10, entries).ok());
    EXPECT_EQ(entries.size(), 1u);
    if (entries.size() == 1) {
      EXPECT_EQ(entries[0].ino, attr->ino);
    }
    Result<std::unique_ptr<UfsFile>> file = ufs_->OpenFile("m/inside");
    EXPECT_TRUE(file.ok());
    if (file.ok()) {
      EXPECT_EQ((*file)->version(), attr->version);
      EXPECT_EQ(ReadAll(**file), "other disk");
    }
  }
  EXPECT_EQ(::umount2((dir_ / "m").c_str(), MNT_DETACH), 0);
}

TEST_F(PosixUfsTest, CountsErrorsButNotMissingNames) {
  EXPECT_FALSE(ufs_->Stat("none").ok());
  EXPECT_EQ(metrics_.ufs_errors.value(), 0u);
  Write("a", "x");
  EXPECT_FALSE(ufs_->Stat("a/b").ok());
  EXPECT_EQ(metrics_.ufs_errors.value(), 1u);
  EXPECT_EQ(metrics_.ufs_metadata.value(), 2u);
}

TEST(UfsFactoryTest, NamesAndRefusals) {
  TempDir dir;
  Metrics metrics;
  std::ofstream(dir / "file") << "x";
  EXPECT_EQ((*MakeUfs("file://" + dir.path(), metrics))->uri(),
            std::filesystem::canonical(dir.path()).string());
  const Status scheme = MakeUfs("gopher://x/y", metrics).status();
  EXPECT_EQ(scheme.code(), Code::kInvalidArgument);
  EXPECT_EQ(scheme.message(), "UFS 'gopher://x/y': unknown scheme 'gopher'; use /path or file:///path");
  const Status missing = MakeUfs(dir / "none", metrics).status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_EQ(missing.message(),
            "UFS '" + (dir / "none") +
                "' does not exist; create it, mount the storage it lives on, or correct the path");
  const Status not_dir = MakeUfs(dir / "file", metrics).status();
  EXPECT_EQ(not_dir.code(), Code::kNotADirectory);
  EXPECT_THAT(not_dir.message(), HasSubstr("is not a directory; give the directory that holds the data"));
  EXPECT_EQ(MakeUfs("", metrics).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(MakeUfs("file://host/x", metrics).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace stoker
