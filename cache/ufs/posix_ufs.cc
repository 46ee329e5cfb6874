#include "cache/ufs/posix_ufs.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cache/base/units.h"

namespace stoker {
namespace {

// Largest value and largest list that the kernel hands out (limits.h XATTR_SIZE_MAX, XATTR_LIST_MAX).
constexpr size_t kMaxXattrBytes = 65536;
// One pread of at most this, so that a cancelled read stops soon.
constexpr size_t kReadStep = kMiB;
// A time stamp further ahead than this is a skewed clock and not a tick under way (HZ=100: 10 ms a tick).
constexpr int64_t kLongestTickNs = 20'000'000;

int OpenAt2(int dirfd, const char* path, uint64_t flags) {
  struct open_how how {};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd;
  do {
    fd = ::syscall(SYS_openat2, dirfd, path, &how, sizeof how);
  } while (fd < 0 && errno == EINTR);
  return static_cast<int>(fd);
}

/// "" or components between single '/', none of them "." or "..". The kernel would refuse to leave the root
/// by itself; this refuses with a reason.
Status CheckPath(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return {Code::kInvalidArgument, "a UFS path must not hold a NUL byte"};
  }
  if (!path.empty() && path.front() == '/') {
    return {Code::kInvalidArgument,
            "UFS path '" + path + "' must be relative to the root, without a leading '/'"};
  }
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part(path.data() + begin, end - begin);
    if (part == "." || part == "..") {
      return {Code::kInvalidArgument, "UFS path '" + path + "' must not hold '.' or '..'"};
    }
    begin = end + 1;
  }
  return Status::Ok();
}

Status CheckName(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return {Code::kInvalidArgument, "'" + name + "' is not the name of a directory entry"};
  }
  return Status::Ok();
}

std::string Shown(const std::string& path) {
  return path.empty() ? std::string("the root of the UFS") : "'" + path + "'";
}

/// st_ino made unique among all devices of the tree. The root's own numbers stay as they are (what people
/// compare with); those of other devices are hashed with the device and get the top bit, which no local file
/// system uses, so they never meet the root's and each other's only by an accident of 1 in 2^63.
uint64_t MixInode(uint64_t ino, uint64_t identity) {
  uint64_t z = ino + identity * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return (z ^ (z >> 31)) | (1ULL << 63);
}

void PackLe(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

/// Token layout, little-endian: 'p', device identity 8, inode 8, size 8, mtime s 8 + ns 4, ctime s 8 + ns 4.
FileVersion MakeVersion(const struct statx& stx, uint64_t identity) {
  FileVersion version;
  version.size = stx.stx_size;
  version.token.reserve(49);
  version.token.push_back('p');
  PackLe(version.token, identity, 8);
  PackLe(version.token, stx.stx_ino, 8);
  PackLe(version.token, stx.stx_size, 8);
  PackLe(version.token, static_cast<uint64_t>(stx.stx_mtime.tv_sec), 8);
  PackLe(version.token, stx.stx_mtime.tv_nsec, 4);
  PackLe(version.token, static_cast<uint64_t>(stx.stx_ctime.tv_sec), 8);
  PackLe(version.token, stx.stx_ctime.tv_nsec, 4);
  return version;
}

timespec ToTimespec(const struct statx_timestamp& from) {
  timespec to{};
  to.tv_sec = from.tv_sec;
  to.tv_nsec = from.tv_nsec;
  return to;
}

dev_t DeviceOf(const struct statx& stx) {
  return makedev(stx.stx_dev_major, stx.stx_dev_minor);
}

/// Waits until the clock that stamps files has passed `ctime`. After that every write gets a later stamp, so
/// bytes read from now on belong to what a later stat calls the same version. At most one tick, and only for
/// a file that changed within the last one.
void WaitOutTick(const struct statx_timestamp& ctime) {
  while (true) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    const int64_t seconds = ctime.tv_sec - now.tv_sec;
    if (seconds < 0 || seconds > 1) return;
    const int64_t ahead = seconds * 1'000'000'000 + static_cast<int64_t>(ctime.tv_nsec) - now.tv_nsec;
    if (ahead < 0 || ahead > kLongestTickNs) return;
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

uint64_t DeviceIdentities::Of(dev_t dev, int fd) {
  uint64_t identity = 0;
  if (Find(dev, &identity)) return identity;
  struct statfs fs {};
  uint64_t fsid = 0;
  if (fd >= 0 && ::fstatfs(fd, &fs) == 0) {
    static_assert(sizeof fs.f_fsid == sizeof fsid);
    std::memcpy(&fsid, &fs.f_fsid, sizeof fsid);
  }
  MutexLock lock(mu_);
  return known_.try_emplace(dev, fsid != 0 ? fsid : dev).first->second;
}

bool DeviceIdentities::Find(dev_t dev, uint64_t* identity) const {
  MutexLock lock(mu_);
  const auto it = known_.find(dev);
  if (it == known_.end()) return false;
  *identity = it->second;
  return true;
}

class PosixDir final : public UfsDir {
 public:
  PosixDir(PosixUfs& ufs, std::string path, DIR* dir) : ufs_(ufs), path_(std::move(path)), dir_(dir) {}
  ~PosixDir() override { ::closedir(dir_); }
  PosixDir(const PosixDir&) = delete;
  PosixDir& operator=(const PosixDir&) = delete;

  Status Next(size_t max, std::vector<UfsDirEntry>& entries) override {
    ufs_.metrics_.ufs_metadata.Add();
    if (!foreign_known_) {
      struct stat st {};
      if (::fstat(::dirfd(dir_), &st) != 0) return ufs_.Failed(errno, "cannot list", path_);
      foreign_ = st.st_dev != ufs_.root_dev_;
      identity_ = ufs_.devices_.Of(st.st_dev, ::dirfd(dir_));
      foreign_known_ = true;
    }
    for (size_t taken = 0; taken < max;) {
      errno = 0;
      const struct dirent* entry = ::readdir(dir_);
      if (entry == nullptr) {
        return errno == 0 ? Status::Ok() : ufs_.Failed(errno, "cannot list", path_);
      }
      const std::string_view name(entry->d_name);
      if (name == "." || name == "..") continue;
      UfsDirEntry& made = entries.emplace_back();
      made.name = name;
      made.ino = foreign_ ? MixInode(entry->d_ino, identity_) : entry->d_ino;
      made.type = entry->d_type == DT_UNKNOWN ? 0 : DTTOIF(entry->d_type);
      ++taken;
    }
    return Status::Ok();
  }

  Result<UfsAttr> StatEntry(const std::string& name) override {
    RETURN_IF_ERROR(CheckName(name));
    ufs_.metrics_.ufs_metadata.Add();
    return ufs_.StatAt(::dirfd(dir_), name, path_.empty() ? name : path_ + "/" + name);
  }

 private:
  PosixUfs& ufs_;
  const std::string path_;
  DIR* const dir_;
  bool foreign_known_ = false;
  bool foreign_ = false;  // on another device than the root
  uint64_t identity_ = 0;
};

class PosixFile final : public UfsFile {
 public:
  PosixFile(PosixUfs& ufs, std::string path, Fd fd, FileVersion version)
      : ufs_(ufs), path_(std::move(path)), fd_(std::move(fd)), version_(std::move(version)) {}

  const FileVersion& version() const override { return version_; }
  int fd() const override { return fd_.get(); }

  Result<size_t> Read(uint64_t offset, std::span<std::byte> to, const CancelToken& cancel) override {
    size_t filled = 0;
    while (filled < to.size()) {
      if (cancel.cancelled()) return Status(Code::kCancelled, "read of '" + path_ + "' was cancelled");
      const size_t step = std::min(to.size() - filled, kReadStep);
      const ssize_t got = ::pread(fd_.get(), to.data() + filled, step, static_cast<off_t>(offset + filled));
      if (got < 0) {
        if (errno == EINTR) continue;
        return ufs_.Failed(errno, "cannot read", path_);
      }
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    return filled;
  }

  Status CheckVersion() const override {
    struct statx stx {};
    // Ask the server, where there is one: an attribute cache would answer with what was true seconds ago.
    if (::statx(fd_.get(), "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &stx) != 0) {
      return ufs_.Failed(errno, "cannot stat", path_);
    }
    if (MakeVersion(stx, ufs_.devices_.Of(DeviceOf(stx), fd_.get())) == version_) return Status::Ok();
    return {Code::kStale, "'" + path_ + "' changed in the UFS while it was read", ESTALE};
  }

  Result<uint64_t> NextData(uint64_t offset) const override {
    if (offset >= version_.size) return version_.size;
    const off_t at = ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_DATA);
    if (at >= 0) return std::min(static_cast<uint64_t>(at), version_.size);
    if (errno == ENXIO) return version_.size;
    if (errno == EINVAL || errno == EOPNOTSUPP) return offset;
    return ufs_.Failed(errno, "cannot look for data in", path_);
  }

  Result<uint64_t> NextHole(uint64_t offset) const override {
    if (offset >= version_.size) return version_.size;
    const off_t at = ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_HOLE);
    if (at >= 0) return std::min(static_cast<uint64_t>(at), version_.size);
    if (errno == ENXIO || errno == EINVAL || errno == EOPNOTSUPP) return version_.size;
    return ufs_.Failed(errno, "cannot look for holes in", path_);
  }

 private:
  PosixUfs& ufs_;
  const std::string path_;
  const Fd fd_;
  const FileVersion version_;
};

PosixUfs::PosixUfs(std::string root_path, Fd root, Metrics& metrics)
    : root_path_(std::move(root_path)), root_(std::move(root)), metrics_(metrics) {}

Result<std::unique_ptr<PosixUfs>> PosixUfs::Open(const std::string& root, Metrics& metrics) {
  Fd fd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    const int err = errno;
    if (err == ENOTDIR) {
      return Status(Code::kNotADirectory,
                    "UFS '" + root + "' is not a directory; give the directory that holds the data", err);
    }
    if (err == ENOENT) {
      return Status(
          Code::kNotFound,
          "UFS '" + root + "' does not exist; create it, mount the storage it lives on, or correct the path",
          err);
    }
    return Status::FromErrno(err, "cannot open UFS '" + root + "'");
  }
  std::unique_ptr<PosixUfs> ufs(new PosixUfs(root, std::move(fd), metrics));
  struct stat st {};
  if (::fstat(ufs->root_.get(), &st) != 0) return Status::FromErrno(errno, "cannot stat UFS '" + root + "'");
  ufs->root_dev_ = st.st_dev;
  ufs->devices_.Of(st.st_dev, ufs->root_.get());
  const Fd probe(OpenAt2(ufs->root_.get(), ".", O_PATH | O_DIRECTORY));
  if (!probe.valid()) {
    const int err = errno;
    return Status(err == ENOSYS || err == EPERM ? Code::kUnsupported : Status::FromErrno(err, "").code(),
                  "cannot look below UFS '" + root + "' with openat2: " + std::strerror(err) +
                      "; it needs Linux 5.6 and, in a container, a seccomp profile that allows openat2",
                  err);
  }
  return ufs;
}

Status PosixUfs::Failed(Status status) {
  // "There is none" is an answer; a tree that is probed for names must not look sick.
  if (status.os_errno() != ENOENT && status.os_errno() != ENODATA &&
      status.code() != Code::kInvalidArgument) {
    metrics_.ufs_errors.Add();
  }
  return status;
}

Status PosixUfs::Failed(int err, std::string_view what, const std::string& path) {
  const std::string message = std::string(what) + " " + Shown(path);
  // A symlink in the middle of a path: not a directory as far as we are concerned.
  if (err == ELOOP) {
    return Failed(Status(Code::kNotADirectory, message + ": a part of the path is a symbolic link", ENOTDIR));
  }
  return Failed(Status::FromErrno(err, message));
}

Result<Fd> PosixUfs::OpenBeneath(const std::string& path, uint64_t flags) {
  if (path.empty()) {
    Fd fd(OpenAt2(root_.get(), ".", flags & ~uint64_t{O_NOFOLLOW}));
    if (!fd.valid()) return Failed(errno, "cannot open", path);
    return fd;
  }
  Fd base;  // of the rest, when the path is walked in steps
  size_t begin = 0;
  while (path.size() - begin >= PATH_MAX) {
    const size_t slash = path.rfind('/', begin + PATH_MAX - 1);
    if (slash == std::string::npos || slash <= begin) return Failed(ENAMETOOLONG, "cannot open", path);
    const std::string step = path.substr(begin, slash - begin);
    Fd next(
        OpenAt2(base.valid() ? base.get() : root_.get(), step.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW));
    if (!next.valid()) return Failed(errno, "cannot open", path);
    base = std::move(next);
    begin = slash + 1;
  }
  Fd fd(OpenAt2(base.valid() ? base.get() : root_.get(), path.c_str() + begin, flags));
  if (!fd.valid()) return Failed(errno, "cannot open", path);
  return fd;
}

UfsAttr PosixUfs::MakeAttr(const struct statx& stx, int dirfd, const std::string& name) {
  const dev_t dev = DeviceOf(stx);
  uint64_t identity = 0;
  if (!devices_.Find(dev, &identity)) {
    const Fd fd(name.empty() ? -1 : OpenAt2(dirfd, name.c_str(), O_PATH | O_NOFOLLOW));
    identity = devices_.Of(dev, name.empty() ? dirfd : fd.get());
  }
  UfsAttr attr;
  attr.mode = stx.stx_mode;
  attr.uid = stx.stx_uid;
  attr.gid = stx.stx_gid;
  attr.nlink = stx.stx_nlink;
  attr.ino = dev == root_dev_ ? stx.stx_ino : MixInode(stx.stx_ino, identity);
  attr.size = stx.stx_size;
  attr.blocks = stx.stx_blocks;
  attr.block_size = stx.stx_blksize;
  attr.rdev = makedev(stx.stx_rdev_major, stx.stx_rdev_minor);
  attr.atime = ToTimespec(stx.stx_atime);
  attr.mtime = ToTimespec(stx.stx_mtime);
  attr.ctime = ToTimespec(stx.stx_ctime);
  if (S_ISREG(stx.stx_mode)) attr.version = MakeVersion(stx, identity);
  return attr;
}

Result<UfsAttr> PosixUfs::StatAt(int dirfd, const std::string& name, const std::string& shown) {
  struct statx stx {};
  if (::statx(dirfd, name.c_str(), AT_SYMLINK_NOFOLLOW | (name.empty() ? AT_EMPTY_PATH : 0),
              STATX_BASIC_STATS, &stx) != 0) {
    return Failed(errno, "cannot stat", shown);
  }
  return MakeAttr(stx, dirfd, name);
}

Result<UfsAttr> PosixUfs::Stat(const std::string& path) {
  RETURN_IF_ERROR(CheckPath(path));
  metrics_.ufs_metadata.Add();
  // Right below the root there is nothing to resolve.
  if (path.find('/') == std::string::npos) return StatAt(root_.get(), path, path);
  ASSIGN_OR_RETURN(const Fd fd, OpenBeneath(path, O_PATH | O_NOFOLLOW));
  return StatAt(fd.get(), "", path);
}

Result<std::string> PosixUfs::ReadLink(const std::string& path) {
  RETURN_IF_ERROR(CheckPath(path));
  metrics_.ufs_metadata.Add();
  ASSIGN_OR_RETURN(const Fd fd, OpenBeneath(path, O_PATH | O_NOFOLLOW));
  std::string target(PATH_MAX, '\0');
  const ssize_t got = ::readlinkat(fd.get(), "", target.data(), target.size());
  if (got < 0) {
    // With an empty name the kernel says ENOENT for what is no symlink; the call on a path says EINVAL.
    if (errno == ENOENT || errno == EINVAL) {
      return Status(Code::kInvalidArgument, Shown(path) + " is not a symbolic link", EINVAL);
    }
    return Failed(errno, "cannot read link", path);
  }
  target.resize(static_cast<size_t>(got));
  return target;
}

Result<std::unique_ptr<UfsDir>> PosixUfs::OpenDir(const std::string& path) {
  RETURN_IF_ERROR(CheckPath(path));
  metrics_.ufs_metadata.Add();
  ASSIGN_OR_RETURN(Fd fd, OpenBeneath(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  DIR* dir = ::fdopendir(fd.get());
  if (dir == nullptr) return Failed(errno, "cannot list", path);
  fd.Release();  // closedir's from here on
  return std::unique_ptr<UfsDir>(new PosixDir(*this, path, dir));
}

Result<std::unique_ptr<UfsFile>> PosixUfs::OpenFile(const std::string& path) {
  RETURN_IF_ERROR(CheckPath(path));
  metrics_.ufs_metadata.Add();
  // O_NONBLOCK: a fifo, should one be there by now, must not hold us. O_NOATIME is for owners only.
  const uint64_t flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
  Result<Fd> opened = OpenBeneath(path, flags | O_NOATIME);
  if (!opened.ok() && opened.status().os_errno() == EPERM) opened = OpenBeneath(path, flags);
  if (!opened.ok()) {
    if (opened.status().os_errno() == ENXIO || opened.status().os_errno() == ENODEV) {
      return Status(Code::kUnsupported, Shown(path) + " is not a regular file", opened.status().os_errno());
    }
    if (opened.status().os_errno() == ENOTDIR) {
      const Result<UfsAttr> attr = Stat(path);
      if (attr.ok() && S_ISLNK(attr->mode)) {
        return Status(Code::kStale, Shown(path) + " is a symbolic link now", ESTALE);
      }
    }
    return opened.status();
  }
  Fd fd = std::move(opened).value();
  struct statx stx {};
  if (::statx(fd.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) != 0) {
    return Failed(errno, "cannot stat", path);
  }
  if (S_ISDIR(stx.stx_mode)) return Status(Code::kIsADirectory, Shown(path) + " is a directory", EISDIR);
  if (!S_ISREG(stx.stx_mode))
    return Status(Code::kUnsupported, Shown(path) + " is not a regular file", ENXIO);
  // From here on reads may wait: io_uring would answer EAGAIN instead of handing them to its workers.
  const int status_flags = ::fcntl(fd.get(), F_GETFL);
  if (status_flags < 0 || ::fcntl(fd.get(), F_SETFL, status_flags & ~O_NONBLOCK) != 0) {
    return Failed(errno, "cannot open", path);
  }
  WaitOutTick(stx.stx_ctime);
  FileVersion version = MakeVersion(stx, devices_.Of(DeviceOf(stx), fd.get()));
  return std::unique_ptr<UfsFile>(new PosixFile(*this, path, std::move(fd), std::move(version)));
}

Result<struct statvfs> PosixUfs::StatFs() {
  metrics_.ufs_metadata.Add();
  struct statvfs fs {};
  if (::fstatvfs(root_.get(), &fs) != 0) return Failed(errno, "cannot statfs", "");
  return fs;
}

namespace {
/// The xattr calls have no *at form that takes an O_PATH descriptor before Linux 6.13; this name has.
std::string ProcName(const Fd& fd) {
  return "/proc/self/fd/" + std::to_string(fd.get());
}
}  // namespace

Result<std::string> PosixUfs::GetXattr(const std::string& path, const std::string& name) {
  RETURN_IF_ERROR(CheckPath(path));
  metrics_.ufs_metadata.Add();
  ASSIGN_OR_RETURN(const Fd fd, OpenBeneath(path, O_PATH | O_NOFOLLOW));
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return Failed(errno, "cannot stat", path);
  if (S_ISLNK(st.st_mode))
    return Status(Code::kNotFound, Shown(path) + " is a symbolic link and has no attributes", ENODATA);
  std::string value(kMaxXattrBytes, '\0');
  const ssize_t got = ::getxattr(ProcName(fd).c_str(), name.c_str(), value.data(), value.size());
  if (got < 0) {
    if (errno == ENODATA) {
      return Status(Code::kNotFound, Shown(path) + " has no attribute '" + name + "'", ENODATA);
    }
    return Failed(errno, "cannot get xattr '" + name + "' of", path);
  }
  value.resize(static_cast<size_t>(got));
  value.shrink_to_fit();
  return value;
}

Result<std::vector<std::string>> PosixUfs::ListXattr(const std::string& path) {
  RETURN_IF_ERROR(CheckPath(path));
  metrics_.ufs_metadata.Add();
  ASSIGN_OR_RETURN(const Fd fd, OpenBeneath(path, O_PATH | O_NOFOLLOW));
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return Failed(errno, "cannot stat", path);
  std::vector<std::string> names;
  if (S_ISLNK(st.st_mode)) return names;
  std::string list(kMaxXattrBytes, '\0');
  const ssize_t got = ::listxattr(ProcName(fd).c_str(), list.data(), list.size());
  if (got < 0) {
    if (errno == EOPNOTSUPP) return names;  // a file system without attributes has none to list
    return Failed(errno, "cannot list the xattrs of", path);
  }
  for (size_t begin = 0; begin < static_cast<size_t>(got);) {
    names.emplace_back(list.c_str() + begin);
    begin += names.back().size() + 1;
  }
  return names;
}

}  // namespace stoker
