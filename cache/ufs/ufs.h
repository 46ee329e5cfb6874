#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/ids.h"
#include "cache/base/result.h"

namespace stoker {

/// What the UFS says of one name. Everything comes from one call, so that size, times and version belong
/// together.
struct UfsAttr {
  mode_t mode = 0;  // type and permission bits, as in struct stat
  uid_t uid = 0;
  gid_t gid = 0;
  nlink_t nlink = 1;
  uint64_t ino = 0;  // unique within the UFS
  uint64_t size = 0;
  uint64_t blocks = 0;  // of 512 bytes
  uint32_t block_size = 4096;
  dev_t rdev = 0;
  timespec atime{};
  timespec mtime{};
  timespec ctime{};
  FileVersion version;  // regular files only; empty for every other type
};

struct UfsDirEntry {
  std::string name;  // any bytes but '/' and NUL; never "." or ".."
  uint64_t ino = 0;
  mode_t type = 0;  // S_IFMT bits, 0 when the listing does not tell
};

/// One listing under way. One thread at a time for Next(); any thread for StatEntry(), also meanwhile.
class UfsDir {
 public:
  virtual ~UfsDir() = default;
  /// Appends up to `max` entries; appends none at the end. Each entry that exists throughout the listing
  /// comes once.
  virtual Status Next(size_t max, std::vector<UfsDirEntry>& entries) = 0;
  /// Attributes of a name in this directory, as Ufs::Stat would give them, without walking the path again.
  virtual Result<UfsAttr> StatEntry(const std::string& name) = 0;
};

/// One regular file open for reading. Any thread; reads may run side by side.
class UfsFile {
 public:
  virtual ~UfsFile() = default;
  /// What was opened.
  virtual const FileVersion& version() const = 0;
  /// Fills `to` from `offset`; short only at the end of the file. May block as long as the storage does;
  /// `cancel` is honoured between calls to the storage. kStale when the driver notices that the content
  /// changed.
  virtual Result<size_t> Read(uint64_t offset, std::span<std::byte> to, const CancelToken& cancel) = 0;
  /// Descriptor for io_uring and splice, or -1 when bytes do not come from one. Lives as long as this object.
  virtual int fd() const = 0;
  /// Ok when what is open still is `version()`, else kStale. Call after reading and before trusting the
  /// bytes: a writer changes the version before or while it changes the bytes.
  virtual Status CheckVersion() const = 0;
  /// Smallest offset ≥ `offset` that holds data (SEEK_DATA), or the file's size when only a hole follows.
  /// Drivers that know no holes return `offset`.
  virtual Result<uint64_t> NextData(uint64_t offset) const = 0;
  /// Smallest offset ≥ `offset` where a hole begins (SEEK_HOLE; the end of the file counts as one).
  virtual Result<uint64_t> NextHole(uint64_t offset) const = 0;
};

/// The under file system: where bytes come from. Knows nothing of caches. Any thread; every call may block as
/// long as the storage does, so never from a FUSE handler or under a lock. Paths are relative to the root,
/// without a leading
/// '/', any bytes but NUL, "" is the root. A path never leaves the root: ".." and symlinks inside it are not
/// followed (kInvalidArgument, kNotADirectory). Errors keep the errno; kNotFound comes from an authoritative
/// answer only.
class Ufs {
 public:
  virtual ~Ufs() = default;
  /// As shown to people: "/data/set" or "s3://bucket/prefix".
  virtual std::string uri() const = 0;
  virtual Result<UfsAttr> Stat(const std::string& path) = 0;
  virtual Result<std::string> ReadLink(const std::string& path) = 0;
  virtual Result<std::unique_ptr<UfsDir>> OpenDir(const std::string& path) = 0;
  /// Regular files only: kUnsupported for fifos, sockets and devices, kIsADirectory, kStale when a symlink is
  /// there now.
  virtual Result<std::unique_ptr<UfsFile>> OpenFile(const std::string& path) = 0;
  virtual Result<struct statvfs> StatFs() = 0;
  /// kNotFound with errno ENODATA when the attribute does not exist. Symlinks are not followed.
  virtual Result<std::string> GetXattr(const std::string& path, const std::string& name) = 0;
  virtual Result<std::vector<std::string>> ListXattr(const std::string& path) = 0;
};

}  // namespace stoker
