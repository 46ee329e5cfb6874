// The serving core on a real mount, in this process. Every test has a mount of its own.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/random.h"
#include "tests/mount/mount_rig.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using testing::MountRig;
using namespace std::chrono_literals;

std::string RandomBytes(size_t size, uint64_t seed) {
  Random random(seed);
  std::string bytes(size, '\0');
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const uint64_t word = random.Next();
    std::memcpy(&bytes[i], &word, 8);
  }
  for (; i < size; ++i) bytes[i] = static_cast<char>(random.Next());
  return bytes;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(out.good()) << path;
}

/// All bytes, read in pieces of `piece`; the errno in place of bytes when something fails.
std::string ReadAll(int fd, size_t piece = 1 << 20) {
  std::string bytes;
  std::vector<char> buffer(piece);
  while (true) {
    const ssize_t got = ::read(fd, buffer.data(), piece);
    if (got < 0) return "errno " + std::to_string(errno);
    if (got == 0) return bytes;
    bytes.append(buffer.data(), static_cast<size_t>(got));
  }
}
std::string ReadFile(const std::string& path, size_t piece = 1 << 20) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return "open: errno " + std::to_string(errno);
  return ReadAll(fd.get(), piece);
}

/// Compares without printing megabytes.
::testing::AssertionResult SameBytes(const std::string& got, const std::string& want) {
  if (got == want) return ::testing::AssertionSuccess();
  const auto at = std::mismatch(got.begin(), got.end(), want.begin(), want.end()).first - got.begin();
  return ::testing::AssertionFailure()
         << "got " << got.size() << " bytes, want " << want.size() << "; first difference at " << at
         << ", got there: '" << got.substr(static_cast<size_t>(at), 40) << "'";
}

/// Waits for something that another thread or the kernel brings about, at most 20 s.
bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

class MountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!MountRig::Possible()) GTEST_SKIP() << "no /dev/fuse, or not root";
  }
  std::string ufs(const std::string& name) const { return rig_.ufs_path() + "/" + name; }
  std::string mnt(const std::string& name) const { return rig_.mnt_path() + "/" + name; }
  bool passthrough() { return rig_.session().passthrough().active; }
  MountRig rig_;
};

TEST_F(MountTest, ATreeOfEveryKindReadsAsItIs) {
  WriteFile(ufs("empty"), "");
  WriteFile(ufs("small"), "hello");
  WriteFile(ufs("part"), RandomBytes(4 << 20, 1));
  WriteFile(ufs("large"), RandomBytes((21 << 20) + 12345, 2));
  ASSERT_EQ(::mkdir(ufs("dir").c_str(), 0750), 0);
  WriteFile(ufs("dir/") + std::string(255, 'n'), "long name");
  WriteFile(ufs("dir/\xff\xfe"), "not UTF-8");
  ASSERT_EQ(::symlink("../small", ufs("dir/link").c_str()), 0);
  ASSERT_EQ(::symlink("/nowhere/at/all", ufs("dangling").c_str()), 0);
  ASSERT_EQ(::link(ufs("small").c_str(), ufs("hard").c_str()), 0);
  ASSERT_EQ(::mkfifo(ufs("fifo").c_str(), 0640), 0);
  ASSERT_EQ(::mknod(ufs("socket").c_str(), S_IFSOCK | 0600, 0), 0);
  {
    const Fd sparse(::open(ufs("sparse").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    ASSERT_EQ(::ftruncate(sparse.get(), 30 << 20), 0);
    ASSERT_EQ(::pwrite(sparse.get(), "data", 4, 13 << 20), 4);
  }
  ASSERT_NO_FATAL_FAILURE(rig_.Start({}));
  for (int round = 0; round < 2; ++round) {  // cold, then hot
    const std::function<void(const std::string&)> compare = [&](const std::string& name) {
      struct stat want {
      }, got{};
      ASSERT_EQ(::lstat(ufs(name).c_str(), &want), 0) << name;
      ASSERT_EQ(::lstat(mnt(name).c_str(), &got), 0) << name << ": " << std::strerror(errno);
      EXPECT_EQ(got.st_mode, want.st_mode) << name;
      EXPECT_EQ(got.st_ino, want.st_ino) << name;
      EXPECT_EQ(got.st_nlink, want.st_nlink) << name;
      EXPECT_EQ(got.st_size, want.st_size) << name;
      EXPECT_EQ(got.st_uid, want.st_uid) << name;
      EXPECT_EQ(got.st_blocks, want.st_blocks) << name;
      EXPECT_EQ(got.st_mtim.tv_sec, want.st_mtim.tv_sec) << name;
      EXPECT_EQ(got.st_mtim.tv_nsec, want.st_mtim.tv_nsec) << name;
      if (S_ISREG(want.st_mode)) {
        EXPECT_TRUE(SameBytes(ReadFile(mnt(name), 100'000), ReadFile(ufs(name)))) << name;
      } else if (S_ISLNK(want.st_mode)) {
        char a[300] = {}, b[300] = {};
        ASSERT_GT(::readlink(mnt(name).c_str(), a, sizeof a), 0);
        ASSERT_GT(::readlink(ufs(name).c_str(), b, sizeof b), 0);
        EXPECT_STREQ(a, b);
      } else if (S_ISDIR(want.st_mode)) {
        const auto list = [](const std::string& path) {
          std::set<std::string> names;
          DIR* dir = ::opendir(path.c_str());
          EXPECT_NE(dir, nullptr);
          while (dirent* entry = ::readdir(dir)) EXPECT_TRUE(names.insert(entry->d_name).second);
          ::closedir(dir);
          return names;
        };
        const std::set<std::string> names = list(ufs(name));
        EXPECT_EQ(list(mnt(name)), names);
        for (const std::string& child : names) {
          if (child != "." && child != "..") compare(name.empty() ? child : name + "/" + child);
        }
      }
    };
    compare("");
  }
  if (passthrough()) {
    EXPECT_GT(rig_.metrics().opens_passthrough.value(), 0U);
  }
  struct statvfs stats {};
  EXPECT_EQ(::statvfs(rig_.mnt_path().c_str(), &stats), 0);
  EXPECT_NE(stats.f_flag & ST_RDONLY, 0U);
  rig_.Stop();
  EXPECT_EQ(rig_.metrics().open_handles.value(), 0);
  EXPECT_EQ(rig_.metrics().open_dirs.value(), 0);
  EXPECT_EQ(rig_.metrics().inodes.value(), 0);
  EXPECT_EQ(rig_.metrics().backing_ids.value(), 0);
  EXPECT_EQ(rig_.metrics().read_waiting.value(), 0);
  EXPECT_EQ(rig_.metrics().meta_queued.value(), 0);
}

TEST_F(MountTest, SmallFilesOpenAsPassthroughAtOnce) {
  const std::string bytes = RandomBytes(110'000, 3);
  WriteFile(ufs("f"), bytes);
  ASSERT_NO_FATAL_FAILURE(rig_.Start({}));
  if (!passthrough()) GTEST_SKIP() << rig_.session().passthrough().reason;
  EXPECT_TRUE(SameBytes(ReadFile(mnt("f")), bytes));
  EXPECT_EQ(rig_.metrics().opens_passthrough.value(), 1U);
  EXPECT_EQ(rig_.metrics().read_requests.value(), 0U);
}

TEST_F(MountTest, WithPassthroughOffEveryByteComesFromTheDaemon) {
  const std::string bytes = RandomBytes(9 << 20, 4);
  WriteFile(ufs("f"), bytes);
  MountRig::Options options;
  options.passthrough = PassthroughMode::kOff;
  ASSERT_NO_FATAL_FAILURE(rig_.Start(options));
  EXPECT_FALSE(passthrough());
  EXPECT_EQ(rig_.session().passthrough().reason, "off: --passthrough=off");
  EXPECT_TRUE(SameBytes(ReadFile(mnt("f")), bytes));
  EXPECT_EQ(rig_.metrics().opens_passthrough.value(), 0U);
  EXPECT_GE(rig_.metrics().read_bytes_delivered.value(), bytes.size());
}

TEST_F(MountTest, AColdFileTurnsHotUnderALiveMap) {
  const std::string bytes = RandomBytes(24 << 20, 5);
  WriteFile(ufs("f"), bytes);
  ASSERT_NO_FATAL_FAILURE(rig_.Start({}));
  if (!passthrough()) GTEST_SKIP() << rig_.session().passthrough().reason;
  const Fd cold(::open(mnt("f").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(cold.valid());
  EXPECT_EQ(rig_.metrics().opens_passthrough.value(), 0U);
  void* map = ::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, cold.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  EXPECT_EQ(std::memcmp(map, bytes.data(), 100), 0);
  EXPECT_TRUE(SameBytes(ReadAll(cold.get()), bytes));
  // The last part lands; the path gets a new nodeid from the notifier's thread.
  EXPECT_TRUE(Eventually([&] {
    const Fd again(::open(mnt("f").c_str(), O_RDONLY | O_CLOEXEC));
    return rig_.metrics().opens_passthrough.value() > 0 && ReadAll(again.get()) == bytes;
  }));
  const Fd hot(::open(mnt("f").c_str(), O_RDONLY | O_CLOEXEC));
  struct stat cold_stat {
  }, hot_stat{};
  ASSERT_EQ(::fstat(cold.get(), &cold_stat), 0);
  ASSERT_EQ(::fstat(hot.get(), &hot_stat), 0);
  EXPECT_EQ(cold_stat.st_ino, hot_stat.st_ino);
  EXPECT_EQ(std::memcmp(map, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(::munmap(map, bytes.size()), 0);
}

TEST_F(MountTest, AChangedFileIsSeenAfterTheTtlAndOldHandlesKeepTheirVersion) {
  const std::string old_bytes = RandomBytes(200'000, 6);
  const std::string new_bytes = RandomBytes(300'000, 7);
  WriteFile(ufs("f"), old_bytes);
  MountRig::Options options;
  options.filesystem.metadata_ttl = 50ms;
  ASSERT_NO_FATAL_FAILURE(rig_.Start(options));
  const Fd old(::open(mnt("f").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(ReadAll(old.get()) == old_bytes);
  WriteFile(ufs("f.new"), new_bytes);
  ASSERT_EQ(::rename(ufs("f.new").c_str(), ufs("f").c_str()), 0);
  EXPECT_TRUE(Eventually([&] { return ReadFile(mnt("f")) == new_bytes; }));
  struct stat st {};
  ASSERT_EQ(::stat(mnt("f").c_str(), &st), 0);
  EXPECT_EQ(st.st_size, static_cast<off_t>(new_bytes.size()));
  ASSERT_EQ(::fstat(old.get(), &st), 0);
  EXPECT_EQ(st.st_size, static_cast<off_t>(old_bytes.size()));
  ASSERT_EQ(::lseek(old.get(), 0, SEEK_SET), 0);
  EXPECT_TRUE(SameBytes(ReadAll(old.get()), old_bytes));
  ASSERT_EQ(::unlink(ufs("f").c_str()), 0);
  EXPECT_TRUE(Eventually([&] { return ::access(mnt("f").c_str(), F_OK) != 0 && errno == ENOENT; }));
}

TEST_F(MountTest, PartsNeverFetchedOfAnOldVersionAreEstaleNotNewBytes) {
  const std::string old_bytes = RandomBytes(40 << 20, 8);
  WriteFile(ufs("f"), old_bytes);
  MountRig::Options options;
  options.filesystem.read_ahead.enabled = false;
  ASSERT_NO_FATAL_FAILURE(rig_.Start(options));
  const Fd old(::open(mnt("f").c_str(), O_RDONLY | O_CLOEXEC));
  std::string piece(1000, '\0');
  ASSERT_EQ(::pread(old.get(), piece.data(), piece.size(), 0), 1000);
  WriteFile(ufs("f"), RandomBytes(40 << 20, 9));
  EXPECT_EQ(::pread(old.get(), piece.data(), piece.size(), 36 << 20), -1);
  EXPECT_EQ(errno, ESTALE);
  ASSERT_EQ(::pread(old.get(), piece.data(), piece.size(), 0), 1000);
  EXPECT_EQ(piece, old_bytes.substr(0, 1000));
  // The stale read told the daemon: the next open sees the new version although the TTL is a minute.
  EXPECT_TRUE(Eventually([&] { return ReadFile(mnt("f")) == RandomBytes(40 << 20, 9); }));
}

TEST_F(MountTest, ANewNameIsSeenAfterTheNegativeTtl) {
  MountRig::Options options;
  options.filesystem.negative_ttl = 50ms;
  ASSERT_NO_FATAL_FAILURE(rig_.Start(options));
  EXPECT_EQ(::access(mnt("f").c_str(), F_OK), -1);
  const uint64_t asked = rig_.metrics().ufs_metadata.value();
  WriteFile(ufs("f"), "x");
  EXPECT_TRUE(Eventually([&] { return ::access(mnt("f").c_str(), F_OK) == 0; }));
  EXPECT_GT(rig_.metrics().ufs_metadata.value(), asked);
}

TEST_F(MountTest, DirectoriesListEverythingOnceAndPositionsStay) {
  constexpr int kFiles = 5000;
  ASSERT_EQ(::mkdir(ufs("d").c_str(), 0755), 0);
  for (int i = 0; i < kFiles; ++i) WriteFile(ufs("d/file-" + std::to_string(i)), "");
  MountRig::Options options;
  options.filesystem.metadata_ttl = 50ms;
  ASSERT_NO_FATAL_FAILURE(rig_.Start(options));
  const auto count = [&] {
    std::set<std::string> names;
    DIR* dir = ::opendir(mnt("d").c_str());
    while (dirent* entry = ::readdir(dir)) EXPECT_TRUE(names.insert(entry->d_name).second);
    ::closedir(dir);
    return names.size();
  };
  EXPECT_EQ(count(), kFiles + 2U);
  EXPECT_EQ(count(), kFiles + 2U);
  DIR* dir = ::opendir(mnt("d").c_str());
  ASSERT_NE(dir, nullptr);
  std::vector<std::pair<long, std::string>> seen;
  for (int i = 0; i < 1000; ++i) {
    const long at = ::telldir(dir);
    seen.emplace_back(at, ::readdir(dir)->d_name);
  }
  for (const size_t i : {999UL, 0UL, 500UL, 501UL, 3UL}) {
    ::seekdir(dir, seen[i].first);
    EXPECT_EQ(std::string(::readdir(dir)->d_name), seen[i].second);
  }
  ::closedir(dir);
  WriteFile(ufs("d/one-more"), "");
  EXPECT_TRUE(Eventually([&] { return count() == kFiles + 3U; }));
}

TEST_F(MountTest, AttributesNamesAndHolesAreThoseOfTheUfs) {
  WriteFile(ufs("f"), std::string(3 << 20, 'x'));
  const bool xattrs = ::setxattr(ufs("f").c_str(), "user.colour", "blue", 4, 0) == 0;
  {
    const Fd sparse(::open(ufs("sparse").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    ASSERT_EQ(::ftruncate(sparse.get(), 8 << 20), 0);
    ASSERT_EQ(::pwrite(sparse.get(), "data", 4, 4 << 20), 4);
  }
  ASSERT_NO_FATAL_FAILURE(rig_.Start({}));
  if (xattrs) {
    char value[16] = {};
    EXPECT_EQ(::getxattr(mnt("f").c_str(), "user.colour", nullptr, 0), 4);
    EXPECT_EQ(::getxattr(mnt("f").c_str(), "user.colour", value, sizeof value), 4);
    EXPECT_STREQ(value, "blue");
    EXPECT_EQ(::getxattr(mnt("f").c_str(), "user.colour", value, 2), -1);
    EXPECT_EQ(errno, ERANGE);
    char names[64] = {};
    EXPECT_EQ(::listxattr(mnt("f").c_str(), names, sizeof names), 12);
    EXPECT_STREQ(names, "user.colour");
  }
  EXPECT_EQ(::getxattr(mnt("f").c_str(), "user.none", nullptr, 0), -1);
  EXPECT_EQ(errno, ENODATA);
  const Fd theirs(::open(ufs("sparse").c_str(), O_RDONLY | O_CLOEXEC));
  const Fd ours(::open(mnt("sparse").c_str(), O_RDONLY | O_CLOEXEC));
  for (const off_t at : {0L, 4L << 20, 5L << 20}) {
    for (const int whence : {SEEK_DATA, SEEK_HOLE}) {
      errno = 0;
      const off_t want = ::lseek(theirs.get(), at, whence);
      const int want_errno = errno;
      errno = 0;
      EXPECT_EQ(::lseek(ours.get(), at, whence), want) << at << " " << whence;
      EXPECT_EQ(errno, want_errno);
    }
  }
}

TEST_F(MountTest, NothingCanBeWritten) {
  WriteFile(ufs("f"), "x");
  ASSERT_NO_FATAL_FAILURE(rig_.Start({}));
  EXPECT_EQ(::open(mnt("f").c_str(), O_WRONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::open(mnt("f").c_str(), O_RDWR | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(::unlink(mnt("f").c_str()), -1);
  EXPECT_EQ(errno, EROFS);
  // Even where somebody makes the mount writable.
  if (::mount(nullptr, rig_.mnt_path().c_str(), nullptr, MS_REMOUNT | MS_NOSUID | MS_NODEV, nullptr) == 0) {
    EXPECT_EQ(::open(mnt("f").c_str(), O_RDWR | O_CLOEXEC), -1);
    EXPECT_EQ(errno, EROFS);
    EXPECT_EQ(::mkdir(mnt("d").c_str(), 0755), -1);
  }
}

TEST_F(MountTest, PermissionsAreCheckedByTheKernel) {
  WriteFile(ufs("secret"), "x");
  ASSERT_EQ(::chmod(ufs("secret").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(rig_.ufs_path().c_str(), 0755), 0);
  ASSERT_NO_FATAL_FAILURE(rig_.Start({}));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(9);
    ::_exit(::open(mnt("secret").c_str(), O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(MountTest, ADamagedCacheFileIsNeverSeenByTheApplication) {
  const std::string bytes = RandomBytes(6 << 20, 10);
  WriteFile(ufs("f"), bytes);
  MountRig::Options options;
  options.passthrough = PassthroughMode::kOff;
  ASSERT_NO_FATAL_FAILURE(rig_.Start(options));
  ASSERT_TRUE(ReadFile(mnt("f")) == bytes);
  // Cut the object short behind the daemon's back, while it has it open.
  const Fd reader(::open(mnt("f").c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  std::vector<std::string> objects;
  ASSERT_TRUE(Eventually([&] {
    objects.clear();
    const std::string find = "find " + rig_.cache_path() + "/objects -type f -size +1000k";
    FILE* list = ::popen(find.c_str(), "r");
    char line[4096];
    while (std::fgets(line, sizeof line, list) != nullptr) objects.emplace_back(line, std::strlen(line) - 1);
    ::pclose(list);
    return !objects.empty();
  }));
  ASSERT_EQ(::truncate(objects[0].c_str(), 1 << 20), 0);
  void* memory = nullptr;
  ASSERT_EQ(::posix_memalign(&memory, 4096, 6 << 20), 0);
  size_t total = 0;
  while (total < bytes.size()) {
    const ssize_t got = ::pread(reader.get(), static_cast<char*>(memory) + total, bytes.size() - total,
                                static_cast<off_t>(total));
    ASSERT_GT(got, 0) << std::strerror(errno);
    total += static_cast<size_t>(got);
  }
  EXPECT_EQ(std::memcmp(memory, bytes.data(), bytes.size()), 0);
  std::free(memory);
}

TEST_F(MountTest, UnmountFromOutsideEndsTheSession) {
  WriteFile(ufs("f"), "x");
  ASSERT_NO_FATAL_FAILURE(rig_.Start({}));
  EXPECT_EQ(ReadFile(mnt("f")), "x");
  ASSERT_EQ(::umount2(rig_.mnt_path().c_str(), 0), 0) << std::strerror(errno);
  rig_.runner().join();
  EXPECT_TRUE(rig_.run_status().ok()) << rig_.run_status().ToString();
}

TEST_F(MountTest, AStopIsBoundedWhileTheMountIsBusy) {
  WriteFile(ufs("f"), RandomBytes(20 << 20, 11));
  ASSERT_NO_FATAL_FAILURE(rig_.Start({}));
  const Fd file(::open(mnt("f").c_str(), O_RDONLY | O_CLOEXEC));
  const Fd dir(::open(rig_.mnt_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  char byte = 0;
  ASSERT_EQ(::pread(file.get(), &byte, 1, 0), 1);
  EXPECT_LT(rig_.Stop(), 8s);
  EXPECT_TRUE(rig_.run_status().ok()) << rig_.run_status().ToString();
  EXPECT_EQ(::pread(file.get(), &byte, 1, 12 << 20), -1);
  struct stat st {};
  ASSERT_EQ(::stat(rig_.mnt_path().c_str(), &st), 0) << "the mount is out of the tree";
}

/// A UFS of one large file whose bytes do not come until they are let through.
class HungUfs final : public Ufs {
 public:
  explicit HungUfs(uint64_t size) : size_(size) {}
  ~HungUfs() override { LetThrough(); }
  void LetThrough() {
    MutexLock lock(mu_);
    open_ = true;
    changed_.NotifyAll();
  }
  void HangStat(bool hang) { hang_stat_ = hang; }
  int waiting() const { return waiting_; }
  std::string uri() const override { return "hung"; }
  Result<UfsAttr> Stat(const std::string& path) override {
    UfsAttr attr;
    attr.ino = 1;
    attr.mode = S_IFDIR | 0755;
    if (path.empty()) return attr;
    if (hang_stat_) Hang(CancelToken());
    if (path != "f" && path != "g") return Status::FromErrno(ENOENT, path);
    attr.ino = path == "f" ? 2 : 3;
    attr.mode = S_IFREG | 0644;
    attr.size = size_;
    attr.version = {size_, path};
    return attr;
  }
  Result<std::string> ReadLink(const std::string& path) override { return Status::FromErrno(EINVAL, path); }
  Result<std::unique_ptr<UfsDir>> OpenDir(const std::string& path) override {
    return Status::FromErrno(EACCES, path);
  }
  Result<std::unique_ptr<UfsFile>> OpenFile(const std::string& path) override {
    return std::unique_ptr<UfsFile>(std::make_unique<File>(*this, FileVersion{size_, path}));
  }
  Result<struct statvfs> StatFs() override { return Status::FromErrno(EIO, "statfs"); }
  Result<std::string> GetXattr(const std::string& path, const std::string&) override {
    return Status::FromErrno(ENODATA, path);
  }
  Result<std::vector<std::string>> ListXattr(const std::string&) override {
    return std::vector<std::string>();
  }

 private:
  class File final : public UfsFile {
   public:
    File(HungUfs& ufs, FileVersion version) : ufs_(ufs), version_(std::move(version)) {}
    const FileVersion& version() const override { return version_; }
    Result<size_t> Read(uint64_t offset, std::span<std::byte> to, const CancelToken& cancel) override {
      ufs_.Hang(cancel);
      if (cancel.cancelled()) return Status(Code::kCancelled, "cancelled");
      const size_t size = offset >= version_.size ? 0 : std::min<uint64_t>(to.size(), version_.size - offset);
      std::memset(to.data(), 'x', size);
      return size;
    }
    int fd() const override { return -1; }
    Status CheckVersion() const override { return Status::Ok(); }
    Result<uint64_t> NextData(uint64_t offset) const override { return offset; }
    Result<uint64_t> NextHole(uint64_t) const override { return version_.size; }

   private:
    HungUfs& ufs_;
    const FileVersion version_;
  };

  void Hang(const CancelToken& cancel) {
    ++waiting_;
    MutexLock lock(mu_);
    while (!open_ && !cancel.cancelled()) changed_.WaitFor(mu_, 10ms);
    lock.Unlock();
    --waiting_;
  }

  const uint64_t size_;
  std::atomic<bool> hang_stat_{false};
  std::atomic<int> waiting_{0};
  Mutex mu_;
  CondVar changed_;
  bool open_ GUARDED_BY(mu_) = false;
};

/// A process that runs `body`; its exit status, or 1000 + the signal that ended it.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    // Above all /dev/fuse: while a blocked child holds it, the connection that would free the child cannot
    // end.
    ::close_range(3, ~0U, 0);
    ::_exit(body());
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  void Kill(int signal) { ::kill(pid_, signal); }
  int Wait(std::chrono::nanoseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) != pid_) {
      if (std::chrono::steady_clock::now() > deadline) return -1;
      ::poll(nullptr, 0, 5);
    }
    pid_ = -1;
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t pid_;
};

class HungMountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!MountRig::Possible()) GTEST_SKIP() << "no /dev/fuse, or not root";
    MountRig::Options options;
    options.ufs = &ufs_;
    options.filesystem.metadata_ttl = 1h;
    ASSERT_NO_FATAL_FAILURE(rig_.Start(options));
  }
  std::string mnt(const std::string& name) const { return rig_.mnt_path() + "/" + name; }
  void TearDown() override { ufs_.LetThrough(); }
  HungUfs ufs_{64 << 20};
  MountRig rig_;
};

TEST_F(HungMountTest, AKilledReaderGoesAwayAndOthersAreServed) {
  Child reader([&] {
    const int fd = ::open(mnt("f").c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    void* memory = nullptr;
    if (fd < 0 || ::posix_memalign(&memory, 4096, 4096) != 0) return 1;
    return ::read(fd, memory, 4096) < 0 ? 2 : 3;
  });
  ASSERT_TRUE(Eventually([&] { return rig_.metrics().read_waiting.value() > 0; }));
  reader.Kill(SIGKILL);
  EXPECT_EQ(reader.Wait(10s), 1000 + SIGKILL);
  EXPECT_TRUE(Eventually([&] { return rig_.metrics().read_waiting.value() == 0; }));
  struct stat st {};
  EXPECT_EQ(::stat(mnt("g").c_str(), &st), 0);
}

TEST_F(HungMountTest, AnInterruptedLookupAnswersWhileTheUfsHangs) {
  ufs_.HangStat(true);
  Child child([&] {
    struct stat st {};
    return ::stat(mnt("f").c_str(), &st) == 0 ? 0 : errno;
  });
  ASSERT_TRUE(Eventually([&] { return ufs_.waiting() > 0; }));
  child.Kill(SIGTERM);
  EXPECT_EQ(child.Wait(10s), 1000 + SIGTERM);
}

TEST_F(HungMountTest, AHarmlessSignalInterruptsNothingAndALaterKillStillDoes) {
  ufs_.HangStat(true);
  const auto body = [&] {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGURG, &action, nullptr);
    struct stat st {};
    return ::stat(mnt("f").c_str(), &st) == 0 ? 0 : errno;
  };
  Child killed(body);
  ASSERT_TRUE(Eventually([&] { return ufs_.waiting() == 1; }));
  killed.Kill(SIGURG);
  killed.Kill(SIGKILL);
  EXPECT_EQ(killed.Wait(10s), 1000 + SIGKILL);
  Child patient(body);
  ASSERT_TRUE(Eventually([&] { return ufs_.waiting() == 2; }));
  patient.Kill(SIGURG);
  EXPECT_EQ(patient.Wait(300ms), -1) << "a signal that asks for nothing must not end a stat()";
  ufs_.LetThrough();
  EXPECT_EQ(patient.Wait(10s), 0);
}

TEST_F(HungMountTest, AStopAnswersBlockedReadersInTime) {
  Child direct([&] {
    const int fd = ::open(mnt("f").c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    void* memory = nullptr;
    if (fd < 0 || ::posix_memalign(&memory, 4096, 4096) != 0) return 0;
    return ::read(fd, memory, 4096) < 0 ? errno : 0;
  });
  Child cached([&] {
    const int fd = ::open(mnt("g").c_str(), O_RDONLY | O_CLOEXEC);
    char byte = 0;
    return fd < 0 || ::read(fd, &byte, 1) < 0 ? errno : 0;
  });
  ASSERT_TRUE(Eventually([&] { return rig_.metrics().read_waiting.value() >= 2; }));
  EXPECT_LT(rig_.Stop(), 8s);
  EXPECT_NE(direct.Wait(10s), 0);
  EXPECT_NE(cached.Wait(10s), 0);
  EXPECT_EQ(rig_.metrics().read_waiting.value(), 0);
}

TEST(MountErrorsTest, PassthroughDemandedButNotToBeHadFailsTheMount) {
  if (!MountRig::Possible()) GTEST_SKIP() << "no /dev/fuse, or not root";
  testing::TempDir cache, mountpoint;
  HungUfs ufs(1);
  Metrics metrics;
  ObjectStoreOptions store_options;
  store_options.dir = cache.path();
  store_options.limit_bytes = kGiB;
  auto store = ObjectStore::Open(store_options, metrics, Clock::Real());
  ASSERT_TRUE(store.ok());
  auto engine = FetchEngine::Start({}, **store, metrics, Clock::Real());
  ASSERT_TRUE(engine.ok());
  {
    Filesystem filesystem({}, ufs, **store, **engine, metrics, Clock::Real());
    SessionOptions options;
    options.mountpoint = mountpoint.path();
    options.fsname = "x";
    options.passthrough = PassthroughMode::kOn;
    options.probe_dir = "/proc";  // no scratch file can be made there
    const Result<std::unique_ptr<Session>> session = Session::Mount(options, filesystem);
    ASSERT_FALSE(session.ok());
    EXPECT_NE(session.status().message().find("--passthrough=on"), std::string::npos);
    options.mountpoint = mountpoint / "missing";
    EXPECT_EQ(Session::Mount(options, filesystem).status().code(), Code::kNotFound);
  }
  struct stat st {};
  EXPECT_EQ(::stat(mountpoint.path().c_str(), &st), 0) << "nothing stays mounted";
  (*engine)->Stop(5s);
}

}  // namespace
}  // namespace stoker
