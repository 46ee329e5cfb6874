#include "cache/store/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "cache/base/log.h"

namespace stoker {
namespace {

/// Format of the directory as a whole; raised when an older Stoker could misread what a newer one left.
constexpr int kFormat = 1;
constexpr char kFormatFile[] = "format.json";
constexpr char kFormatTemporary[] = "format.json.new";
constexpr char kLockFile[] = "lock";
constexpr mode_t kDirMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr size_t kMaxFormatBytes = 4096;

/// Opens below `at` without following any symbolic link or leaving it.
Result<Fd> OpenBeneath(int at, const std::string& path, int flags, mode_t mode, const std::string& name) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  while (true) {
    const long fd = ::syscall(SYS_openat2, at, path.c_str(), &how, sizeof how);
    if (fd >= 0) return Fd(static_cast<int>(fd));
    // EAGAIN: a rename elsewhere raced with the walk; the kernel asks to try again.
    if (errno != EINTR && errno != EAGAIN) return Status::FromErrno(errno, name);
  }
}

Result<std::string> ReadSmall(int fd, const std::string& name) {
  std::string text(kMaxFormatBytes, '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  if (got < 0) return Status::FromErrno(errno, name);
  text.resize(static_cast<size_t>(got));
  return text;
}

Status WriteWhole(int fd, const std::string& text, const std::string& name) {
  const ssize_t put = ::pwrite(fd, text.data(), text.size(), 0);
  if (put < 0) return Status::FromErrno(errno, name);
  if (static_cast<size_t>(put) != text.size()) return {Code::kNoSpace, name + ": could not be written whole"};
  return Status::Ok();
}

Result<Fd> OpenRoot(const std::string& dir) {
  const std::string name = "cache directory " + dir;
  int failed = ::mkdir(dir.c_str(), kDirMode) == 0 ? 0 : errno;
  if (failed == ENOENT) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(dir).parent_path(), error);
    if (error) return Status::FromErrno(error.value(), name + ": cannot be made");
    failed = ::mkdir(dir.c_str(), kDirMode) == 0 ? 0 : errno;
  }
  if (failed != 0 && failed != EEXIST) {
    // On a read-only file system a directory that exists says EROFS as well.
    struct stat existing = {};
    if (::lstat(dir.c_str(), &existing) != 0) return Status::FromErrno(failed, name + ": cannot be made");
  }
  Fd root(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root.valid()) {
    const int error = errno;
    struct stat info = {};
    if (::lstat(dir.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
      return Status(Code::kPermissionDenied,
                    name + " is a symbolic link: name the directory that it leads to in cache.dirs");
    }
    return Status::FromErrno(error, name);
  }
  struct stat info = {};
  if (::fstat(root.get(), &info) != 0) return Status::FromErrno(errno, name);
  if (info.st_uid != ::geteuid()) {
    return Status(Code::kPermissionDenied, name + " belongs to user " + std::to_string(info.st_uid) +
                                               ", not to user " + std::to_string(::geteuid()) +
                                               ": chown it or choose another cache.dirs");
  }
  return root;
}

/// Whoever could enter would read the data past the permissions that the mount shows.
Status MakePrivate(int root, const std::string& dir) {
  const std::string name = "cache directory " + dir;
  struct stat info = {};
  if (::fstat(root, &info) != 0) return Status::FromErrno(errno, name);
  if ((info.st_mode & 0777) == kDirMode) return Status::Ok();
  if (::fchmod(root, kDirMode) != 0) return Status::FromErrno(errno, name + ": cannot be made private");
  LogInfo("store", name + " was open to others; its mode is 0700 now");
  return Status::Ok();
}

Result<Fd> TakeLock(int root, const std::string& dir) {
  const std::string name = dir + "/" + kLockFile;
  Fd lock;
  ASSIGN_OR_RETURN(lock, OpenBeneath(root, kLockFile, O_RDWR | O_CREAT, kFileMode, name));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Status::FromErrno(errno, name + ": cannot be locked");
    std::string pid = "?";
    if (Result<std::string> text = ReadSmall(lock.get(), name); text.ok() && !text->empty()) {
      pid = text->substr(0, text->find('\n'));
    }
    return Status(Code::kBusy, "cache directory " + dir + " is in use by stoker pid " + pid +
                                   ": stop it or choose another cache.dirs");
  }
  if (::ftruncate(lock.get(), 0) != 0) return Status::FromErrno(errno, name);
  RETURN_IF_ERROR(WriteWhole(lock.get(), std::to_string(::getpid()) + "\n", name));
  return lock;
}

/// True when the directory holds nothing but what a first start that was cut short leaves.
Result<bool> LooksNew(int root, const std::string& dir) {
  DIR* const stream = ::fdopendir(::openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return Status::FromErrno(errno, dir);
  bool is_new = true;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    is_new &=
        name == "." || name == ".." || name == kLockFile || name == kFormatTemporary || name == "lost+found";
  }
  ::closedir(stream);
  return is_new;
}

/// A directory with other things in it is not ours to lock, to close to others or to write to.
Status RefuseForeign(int root, const std::string& dir) {
  const auto has_format = [root] {
    return ::faccessat(root, kFormatFile, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
  };
  if (has_format()) return Status::Ok();
  bool is_new = false;
  ASSIGN_OR_RETURN(is_new, LooksNew(root, dir));
  // Asked again: another one may have just made its cache here, and then the lock says who.
  if (is_new || has_format()) return Status::Ok();
  return {Code::kInvalidArgument, "cache directory " + dir + " is not empty and has no " + kFormatFile +
                                      ": choose an empty or a new directory in cache.dirs"};
}

Status CheckFormat(int root, const std::string& dir) {
  const std::string name = dir + "/" + kFormatFile;
  Result<Fd> file = OpenBeneath(root, kFormatFile, O_RDONLY, 0, name);
  if (file.ok()) {
    std::string text;
    ASSIGN_OR_RETURN(text, ReadSmall(file->get(), name));
    const nlohmann::json format = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!format.is_object() || !format.contains("format") || !format["format"].is_number_integer()) {
      return {Code::kCorruption, name + " cannot be read: empty " + dir + " to start with an empty cache"};
    }
    const int64_t found = format["format"].get<int64_t>();
    if (found == kFormat) return Status::Ok();
    return {Code::kUnsupported, name + " says format " + std::to_string(found) + ", this stoker knows " +
                                    std::to_string(kFormat) + ": use the stoker that made it, or empty " +
                                    dir + " to start with an empty cache"};
  }
  if (file.status().code() != Code::kNotFound) return file.status();
  Fd fresh;
  ASSIGN_OR_RETURN(fresh, OpenBeneath(root, kFormatTemporary, O_WRONLY | O_CREAT | O_TRUNC, kFileMode, name));
  const nlohmann::json format = {{"format", kFormat}, {"made_by", std::string("stoker ") + STOKER_VERSION}};
  RETURN_IF_ERROR(WriteWhole(fresh.get(), format.dump() + "\n", name));
  if (::fsync(fresh.get()) != 0) return Status::FromErrno(errno, name);
  if (::renameat(root, kFormatTemporary, root, kFormatFile) != 0) return Status::FromErrno(errno, name);
  return Status::Ok();
}

Result<Fd> OpenSubdirectory(int root, const std::string& dir, const char* sub) {
  const std::string name = dir + "/" + sub;
  if (::mkdirat(root, sub, kDirMode) != 0 && errno != EEXIST) return Status::FromErrno(errno, name);
  Result<Fd> opened = OpenBeneath(root, sub, O_RDONLY | O_DIRECTORY, 0, name);
  if (!opened.ok() && (opened.status().os_errno() == ELOOP || opened.status().os_errno() == ENOTDIR)) {
    return Status(Code::kPermissionDenied,
                  name +
                      " is not a directory of this cache (a symbolic link or a file): "
                      "remove it and start again");
  }
  return opened;
}

Status SetSize(int fd, uint64_t size, const ObjectId& id) {
  if (size > static_cast<uint64_t>(INT64_MAX)) return {Code::kInvalidArgument, "object size is impossible"};
  int result = 0;
  do {
    result = ::ftruncate(fd, static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return Status::FromErrno(errno, "cache disk: sizing " + Disk::RelativePath(id));
  return Status::Ok();
}

}  // namespace

Disk::Disk(std::string dir, Fd root, Fd lock, Fd objects)
    : dir_(std::move(dir)), root_(std::move(root)), lock_(std::move(lock)), objects_(std::move(objects)) {}

Result<std::unique_ptr<Disk>> Disk::Open(const std::string& dir) {
  if (dir.empty()) return Status(Code::kInvalidArgument, "cache directory: the name is empty (cache.dirs)");
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(dir, error).lexically_normal();
  if (error) return Status::FromErrno(error.value(), "cache directory " + dir);
  if (!path.has_filename()) path = path.parent_path();  // "/x/" names /x
  const std::string whole = path.string();
  Fd root, lock, objects, pending, index;
  ASSIGN_OR_RETURN(root, OpenRoot(whole));
  RETURN_IF_ERROR(RefuseForeign(root.get(), whole));
  RETURN_IF_ERROR(MakePrivate(root.get(), whole));
  ASSIGN_OR_RETURN(lock, TakeLock(root.get(), whole));
  RETURN_IF_ERROR(CheckFormat(root.get(), whole));
  ASSIGN_OR_RETURN(objects, OpenSubdirectory(root.get(), whole, "objects"));
  ASSIGN_OR_RETURN(pending, OpenSubdirectory(root.get(), whole, "pending"));
  ASSIGN_OR_RETURN(index, OpenSubdirectory(root.get(), whole, "index"));
  return std::unique_ptr<Disk>(new Disk(whole, std::move(root), std::move(lock), std::move(objects)));
}

std::string Disk::RelativePath(const ObjectId& id) {
  const std::string hex = id.ToHex();
  return hex.substr(0, 2) + "/" + hex;
}

Result<Fd> Disk::OpenAt(const ObjectId& id, int flags) const {
  const std::string path = RelativePath(id);
  return OpenBeneath(objects_.get(), path, flags, (flags & O_CREAT) != 0 ? kFileMode : 0,
                     "cache disk: " + dir_ + "/objects/" + path);
}

Result<Fd> Disk::OpenObject(const ObjectId& id) const {
  // O_NONBLOCK: should somebody have put a fifo there, opening it must not wait for a writer.
  return OpenAt(id, O_RDWR | O_NONBLOCK);
}

Result<Fd> Disk::CreateObject(const ObjectId& id, uint64_t size) const {
  Result<Fd> made = OpenAt(id, O_RDWR | O_CREAT | O_EXCL);
  if (!made.ok() && made.status().code() == Code::kNotFound) {
    const std::string shard = id.ToHex().substr(0, 2);
    if (::mkdirat(objects_.get(), shard.c_str(), kDirMode) != 0 && errno != EEXIST) {
      return Status::FromErrno(errno, "cache disk: making " + dir_ + "/objects/" + shard);
    }
    made = OpenAt(id, O_RDWR | O_CREAT | O_EXCL);
  }
  if (!made.ok()) return made;
  if (const Status sized = SetSize(made->get(), size, id); !sized.ok()) {
    IgnoreStatus(UnlinkObject(id));  // the first error is the one to tell
    return sized;
  }
  return made;
}

Result<Fd> Disk::CreateNameless(uint64_t size) const {
  Fd fd(::openat(objects_.get(), ".", O_RDWR | O_TMPFILE | O_CLOEXEC, kFileMode));
  if (!fd.valid())
    return Status::FromErrno(errno, "cache disk: making a nameless file in " + dir_ + "/objects");
  RETURN_IF_ERROR(SetSize(fd.get(), size, ObjectId{}));
  return fd;
}

Result<struct stat> Disk::StatObject(const ObjectId& id) const {
  Fd file;
  ASSIGN_OR_RETURN(file, OpenAt(id, O_PATH));  // a link in its place is looked at itself
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) {
    return Status::FromErrno(errno, "cache disk: " + dir_ + "/objects/" + RelativePath(id));
  }
  return info;
}

Status Disk::UnlinkObject(const ObjectId& id) const {
  const std::string hex = id.ToHex();
  const std::string name = "cache disk: removing " + dir_ + "/objects/" + RelativePath(id);
  const Result<Fd> shard =
      OpenBeneath(objects_.get(), hex.substr(0, 2), O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, name);
  if (!shard.ok()) {
    // With a link or a file in the directory's place there is nothing of ours to remove, least of all behind
    // it.
    const int error = shard.status().os_errno();
    return error == ENOENT || error == ELOOP || error == ENOTDIR ? Status::Ok() : shard.status();
  }
  if (::unlinkat(shard->get(), hex.c_str(), 0) == 0 || errno == ENOENT) return Status::Ok();
  int error = errno;
  if (error == EISDIR) {
    // Somebody put a directory in the object's place. It is in the way, and everything below is ours to
    // remove.
    std::error_code removed;
    std::filesystem::remove_all("/proc/self/fd/" + std::to_string(shard->get()) + "/" + hex,
                                removed);  // follows no links
    error = removed.value();
  }
  if (error == 0) return Status::Ok();
  return Status::FromErrno(error, name);
}

Status Disk::UnlinkAll() const {
  std::error_code error;
  // remove_all does not follow links; the directory itself stays, it is held open.
  for (std::filesystem::directory_iterator it(dir_ + "/objects", error), end; !error && it != end;
       it.increment(error)) {
    std::filesystem::remove_all(it->path(), error);
  }
  if (error) return Status::FromErrno(error.value(), "cache disk: emptying " + dir_ + "/objects");
  return Status::Ok();
}

Result<uint64_t> Disk::FreeBytes() const {
  struct statvfs info = {};
  if (::fstatvfs(root_.get(), &info) != 0)
    return Status::FromErrno(errno, "cache disk: free space of " + dir_);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace stoker
