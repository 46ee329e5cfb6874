// The operations: each asks the rules, and does what the backing directory says.

#include "tests/fault_fs/operations.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace stoker::testing {
namespace {

using Kind = Verdict::Kind;

/// An open file. The path is the one it was opened by.
struct Handle {
  int fd = -1;
  std::string path;
};

Disk& DiskOf(fuse_req_t req) {
  return *static_cast<Disk*>(fuse_req_userdata(req));
}
Handle* HandleOf(const fuse_file_info* info) {
  return reinterpret_cast<Handle*>(info->fh);  // NOLINT: what Open() put there
}

/// Asks the rules; true when the request is answered with an error.
bool Refused(fuse_req_t req, const char* op, const std::string& path) {
  const Verdict verdict = DiskOf(req).rules.Ask(op, path);
  if (verdict.kind != Kind::kError) return false;
  fuse_reply_err(req, verdict.error);
  return true;
}

void ReplyDone(fuse_req_t req, int result) {
  fuse_reply_err(req, result == 0 ? 0 : errno);
}

void ReplyEntry(fuse_req_t req, fuse_ino_t parent, const char* name) {
  fuse_entry_param entry;
  if (const int error = DiskOf(req).nodes.Lookup(parent, name, &entry); error != 0) {
    fuse_reply_err(req, error);
  } else {
    fuse_reply_entry(req, &entry);
  }
}

void Lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  if (!Refused(req, "lookup", DiskOf(req).nodes.PathOf(parent, name))) ReplyEntry(req, parent, name);
}

void Forget(fuse_req_t req, fuse_ino_t ino, uint64_t count) {
  DiskOf(req).nodes.Forget(ino, count);
  fuse_reply_none(req);
}

void Getattr(fuse_req_t req, fuse_ino_t ino, fuse_file_info* /*info*/) {
  Nodes& nodes = DiskOf(req).nodes;
  if (Refused(req, "getattr", nodes.PathOf(ino))) return;
  struct stat attributes = {};
  if (::fstatat(nodes.Get(ino)->fd, "", &attributes, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0) {
    fuse_reply_err(req, errno);
  } else {
    fuse_reply_attr(req, &attributes, 0);
  }
}

int Truncate(Disk& disk, const std::string& proc, off_t size) {
  if (!disk.log) return ::truncate(proc.c_str(), size);
  const int fd = ::open(proc.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return -1;
  const int result = disk.log->Truncate(fd, size);
  ::close(fd);
  errno = -result;
  return result == 0 ? 0 : -1;
}

void Setattr(fuse_req_t req, fuse_ino_t ino, struct stat* wanted, int which, fuse_file_info* info) {
  Disk& disk = DiskOf(req);
  if (Refused(req, "setattr", disk.nodes.PathOf(ino))) return;
  const std::string proc = ProcPath(disk.nodes.Get(ino)->fd);
  int result = 0;
  if ((which & FUSE_SET_ATTR_MODE) != 0) result = ::chmod(proc.c_str(), wanted->st_mode);
  if (result == 0 && (which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
    result = ::chown(proc.c_str(), (which & FUSE_SET_ATTR_UID) != 0 ? wanted->st_uid : static_cast<uid_t>(-1),
                     (which & FUSE_SET_ATTR_GID) != 0 ? wanted->st_gid : static_cast<gid_t>(-1));
  }
  if (result == 0 && (which & FUSE_SET_ATTR_SIZE) != 0) result = Truncate(disk, proc, wanted->st_size);
  if (result == 0 && (which & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) != 0) {
    timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
    if ((which & FUSE_SET_ATTR_ATIME_NOW) != 0)
      times[0].tv_nsec = UTIME_NOW;
    else if ((which & FUSE_SET_ATTR_ATIME) != 0)
      times[0] = wanted->st_atim;
    if ((which & FUSE_SET_ATTR_MTIME_NOW) != 0)
      times[1].tv_nsec = UTIME_NOW;
    else if ((which & FUSE_SET_ATTR_MTIME) != 0)
      times[1] = wanted->st_mtim;
    result = ::utimensat(AT_FDCWD, proc.c_str(), times, 0);
  }
  if (result != 0) {
    fuse_reply_err(req, errno);
    return;
  }
  struct stat attributes = {};
  if (::fstatat(disk.nodes.Get(ino)->fd, "", &attributes, AT_EMPTY_PATH) != 0) {
    fuse_reply_err(req, errno);
  } else {
    fuse_reply_attr(req, &attributes, 0);
  }
  static_cast<void>(info);
}

/// With a log every writer must be able to read back, and to write at the offset the kernel names.
int BackingFlags(const Disk& disk, int flags) {
  flags &= ~(O_NOFOLLOW | O_APPEND | O_DIRECT);  // buffers of this process are not aligned
  if (disk.log && (flags & O_ACCMODE) == O_WRONLY) flags = (flags & ~O_ACCMODE) | O_RDWR;
  return flags | O_CLOEXEC;
}

void Open(fuse_req_t req, fuse_ino_t ino, fuse_file_info* info) {
  Disk& disk = DiskOf(req);
  const std::string path = disk.nodes.PathOf(ino);
  if (Refused(req, "open", path)) return;
  const int fd =
      ::open(ProcPath(disk.nodes.Get(ino)->fd).c_str(), BackingFlags(disk, info->flags) & ~O_CREAT);
  if (fd < 0) {
    fuse_reply_err(req, errno);
    return;
  }
  info->fh = reinterpret_cast<uint64_t>(new Handle{fd, path});  // NOLINT: freed by Release()
  if (fuse_reply_open(req, info) != 0) {
    ::close(fd);
    delete HandleOf(info);
  }
}

void Create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  Disk& disk = DiskOf(req);
  const std::string path = disk.nodes.PathOf(parent, name);
  if (Refused(req, "create", path)) return;
  const int fd = ::openat(disk.nodes.Get(parent)->fd, name,
                          BackingFlags(disk, info->flags) | O_CREAT | O_NOFOLLOW, mode);
  fuse_entry_param entry;
  int error = fd < 0 ? errno : disk.nodes.Lookup(parent, name, &entry);
  if (error != 0) {
    if (fd >= 0) ::close(fd);
    fuse_reply_err(req, error);
    return;
  }
  info->fh = reinterpret_cast<uint64_t>(new Handle{fd, path});  // NOLINT: freed by Release()
  if (fuse_reply_create(req, &entry, info) != 0) {
    ::close(fd);
    delete HandleOf(info);
  }
}

void Read(fuse_req_t req, fuse_ino_t /*ino*/, size_t size, off_t offset, fuse_file_info* info) {
  const Handle& handle = *HandleOf(info);
  const Verdict verdict = DiskOf(req).rules.Ask("read", handle.path);
  if (verdict.kind == Kind::kError) {
    fuse_reply_err(req, verdict.error);
    return;
  }
  std::vector<char> bytes(size);
  const ssize_t got = ::pread(handle.fd, bytes.data(), size, offset);
  if (got < 0) {
    fuse_reply_err(req, errno);
    return;
  }
  size_t length = static_cast<size_t>(got);
  if (verdict.kind == Kind::kShort) length /= 2;
  if (verdict.kind == Kind::kFlip && length != 0) {
    char& byte = bytes[(verdict.random >> 3) % length];
    byte = static_cast<char>(byte ^ (1 << (verdict.random & 7)));
  }
  fuse_reply_buf(req, bytes.data(), length);
}

void Write(fuse_req_t req, fuse_ino_t /*ino*/, const char* bytes, size_t size, off_t offset,
           fuse_file_info* info) {
  Disk& disk = DiskOf(req);
  const Handle& handle = *HandleOf(info);
  const Verdict verdict = disk.rules.Ask("write", handle.path);
  if (verdict.kind == Kind::kError) {
    fuse_reply_err(req, verdict.error);
    return;
  }
  if (verdict.kind == Kind::kLose) {
    fuse_reply_write(req, size);
    return;
  }
  const bool half = verdict.kind == Kind::kShort || verdict.kind == Kind::kTorn;
  const size_t wanted = half ? (size + 1) / 2 : size;
  ssize_t put = disk.log ? disk.log->Write(handle.fd, bytes, wanted, offset)
                         : ::pwrite(handle.fd, bytes, wanted, offset);
  if (put < 0 && !disk.log) put = -errno;
  if (put < 0) {
    fuse_reply_err(req, static_cast<int>(-put));
  } else if (verdict.kind == Kind::kTorn) {
    fuse_reply_err(req, verdict.error);
  } else {
    fuse_reply_write(req, static_cast<size_t>(put));
  }
}

void Fsync(fuse_req_t req, fuse_ino_t /*ino*/, int data_only, fuse_file_info* info) {
  const Handle& handle = *HandleOf(info);
  if (Refused(req, "fsync", handle.path)) return;
  const int result = data_only != 0 ? ::fdatasync(handle.fd) : ::fsync(handle.fd);
  if (result == 0 && DiskOf(req).log) DiskOf(req).log->Synced(handle.fd);
  ReplyDone(req, result);
}

void Fallocate(fuse_req_t req, fuse_ino_t /*ino*/, int mode, off_t offset, off_t length,
               fuse_file_info* info) {
  const Handle& handle = *HandleOf(info);
  if (!Refused(req, "fallocate", handle.path)) ReplyDone(req, ::fallocate(handle.fd, mode, offset, length));
}

void Lseek(fuse_req_t req, fuse_ino_t /*ino*/, off_t offset, int whence, fuse_file_info* info) {
  const Handle& handle = *HandleOf(info);
  if (Refused(req, "lseek", handle.path)) return;
  const off_t at = ::lseek(handle.fd, offset, whence);
  if (at < 0) {
    fuse_reply_err(req, errno);
  } else {
    fuse_reply_lseek(req, at);
  }
}

void Release(fuse_req_t req, fuse_ino_t /*ino*/, fuse_file_info* info) {
  const std::unique_ptr<Handle> handle(HandleOf(info));
  ::close(handle->fd);
  fuse_reply_err(req, 0);
}

void Mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  Nodes& nodes = DiskOf(req).nodes;
  if (Refused(req, "mkdir", nodes.PathOf(parent, name))) return;
  if (::mkdirat(nodes.Get(parent)->fd, name, mode) != 0) {
    fuse_reply_err(req, errno);
  } else {
    ReplyEntry(req, parent, name);
  }
}

void Symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  Nodes& nodes = DiskOf(req).nodes;
  if (Refused(req, "symlink", nodes.PathOf(parent, name))) return;
  if (::symlinkat(target, nodes.Get(parent)->fd, name) != 0) {
    fuse_reply_err(req, errno);
  } else {
    ReplyEntry(req, parent, name);
  }
}

void Link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char* name) {
  Nodes& nodes = DiskOf(req).nodes;
  if (Refused(req, "link", nodes.PathOf(parent, name))) return;
  if (::linkat(AT_FDCWD, ProcPath(nodes.Get(ino)->fd).c_str(), nodes.Get(parent)->fd, name,
               AT_SYMLINK_FOLLOW) != 0) {
    fuse_reply_err(req, errno);
  } else {
    ReplyEntry(req, parent, name);
  }
}

void Readlink(fuse_req_t req, fuse_ino_t ino) {
  Nodes& nodes = DiskOf(req).nodes;
  if (Refused(req, "readlink", nodes.PathOf(ino))) return;
  char target[4097] = {};
  if (::readlinkat(nodes.Get(ino)->fd, "", target, sizeof target - 1) < 0) {
    fuse_reply_err(req, errno);
  } else {
    fuse_reply_readlink(req, target);
  }
}

void Unlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  Nodes& nodes = DiskOf(req).nodes;
  if (!Refused(req, "unlink", nodes.PathOf(parent, name)))
    ReplyDone(req, ::unlinkat(nodes.Get(parent)->fd, name, 0));
}

void Rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
  Nodes& nodes = DiskOf(req).nodes;
  if (Refused(req, "rmdir", nodes.PathOf(parent, name))) return;
  ReplyDone(req, ::unlinkat(nodes.Get(parent)->fd, name, AT_REMOVEDIR));
}

void Rename(fuse_req_t req, fuse_ino_t from, const char* name, fuse_ino_t to, const char* new_name,
            unsigned flags) {
  Nodes& nodes = DiskOf(req).nodes;
  if (Refused(req, "rename", nodes.PathOf(from, name))) return;
  const int result = ::renameat2(nodes.Get(from)->fd, name, nodes.Get(to)->fd, new_name, flags);
  const int error = errno;
  if (result == 0) nodes.Renamed(to, new_name);
  fuse_reply_err(req, result == 0 ? 0 : error);
}

void Opendir(fuse_req_t req, fuse_ino_t ino, fuse_file_info* info) {
  Nodes& nodes = DiskOf(req).nodes;
  if (Refused(req, "opendir", nodes.PathOf(ino))) return;
  const int fd = ::open(ProcPath(nodes.Get(ino)->fd).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    fuse_reply_err(req, errno);
    return;
  }
  info->fh = reinterpret_cast<uint64_t>(::fdopendir(fd));  // NOLINT: closed by Releasedir()
  fuse_reply_open(req, info);
}

void Readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* info) {
  if (Refused(req, "readdir", DiskOf(req).nodes.PathOf(ino))) return;
  DIR* const stream = reinterpret_cast<DIR*>(info->fh);  // NOLINT
  ::seekdir(stream, offset);
  std::vector<char> bytes(size);
  size_t used = 0;
  while (const dirent* const entry = ::readdir(stream)) {
    struct stat attributes = {};
    attributes.st_ino = entry->d_ino;
    attributes.st_mode = static_cast<mode_t>(entry->d_type) << 12;
    const size_t need = fuse_add_direntry(req, bytes.data() + used, size - used, entry->d_name, &attributes,
                                          ::telldir(stream));
    if (need > size - used) break;
    used += need;
  }
  fuse_reply_buf(req, bytes.data(), used);
}

void Fsyncdir(fuse_req_t req, fuse_ino_t ino, int /*data_only*/, fuse_file_info* info) {
  if (Refused(req, "fsyncdir", DiskOf(req).nodes.PathOf(ino))) return;
  ReplyDone(req, ::fsync(::dirfd(reinterpret_cast<DIR*>(info->fh))));  // NOLINT
}

void Releasedir(fuse_req_t req, fuse_ino_t /*ino*/, fuse_file_info* info) {
  ::closedir(reinterpret_cast<DIR*>(info->fh));  // NOLINT
  fuse_reply_err(req, 0);
}

void Statfs(fuse_req_t req, fuse_ino_t ino) {
  Nodes& nodes = DiskOf(req).nodes;
  if (Refused(req, "statfs", nodes.PathOf(ino))) return;
  struct statvfs numbers = {};
  if (::fstatvfs(nodes.Get(FUSE_ROOT_ID)->fd, &numbers) != 0) {
    fuse_reply_err(req, errno);
  } else {
    fuse_reply_statfs(req, &numbers);
  }
}

}  // namespace

fuse_lowlevel_ops Operations() {
  fuse_lowlevel_ops ops = {};
  ops.lookup = Lookup, ops.forget = Forget, ops.getattr = Getattr, ops.setattr = Setattr, ops.open = Open;
  ops.create = Create, ops.read = Read, ops.write = Write, ops.fsync = Fsync, ops.fallocate = Fallocate;
  ops.lseek = Lseek, ops.release = Release, ops.mkdir = Mkdir, ops.symlink = Symlink, ops.link = Link;
  ops.readlink = Readlink, ops.unlink = Unlink, ops.rmdir = Rmdir, ops.rename = Rename, ops.opendir = Opendir;
  ops.readdir = Readdir, ops.fsyncdir = Fsyncdir, ops.releasedir = Releasedir, ops.statfs = Statfs;
  return ops;
}

}  // namespace stoker::testing
