#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cache/base/fd.h"
#include "cache/base/ids.h"
#include "cache/base/result.h"

namespace stoker {

/// One cache directory: who may use it, where an object's file lies, how much the disk has left. Knows
/// nothing of what the files hold. Nothing below the directory is reached through a symbolic link. Any
/// thread.
class Disk {
 public:
  /// Makes the directory when missing, locks it for this process and checks that it is ours. Errors as in
  /// ObjectStore::Open; the message names the directory and the remedy.
  static Result<std::unique_ptr<Disk>> Open(const std::string& dir);

  /// Absolute.
  const std::string& dir() const { return dir_; }
  std::string index_dir() const { return dir_ + "/index"; }
  static std::string RelativePath(const ObjectId& id);

  /// A new sparse file of `size` bytes, open for reading and writing. kAlreadyExists: there is one.
  Result<Fd> CreateObject(const ObjectId& id, uint64_t size) const;
  /// kNotFound: there is none.
  Result<Fd> OpenObject(const ObjectId& id) const;
  /// A sparse file without a name, gone when closed.
  Result<Fd> CreateNameless(uint64_t size) const;
  Result<struct stat> StatObject(const ObjectId& id) const;
  /// Ok when there is none.
  Status UnlinkObject(const ObjectId& id) const;
  /// Unlinks every object file: for an index that has lost them all.
  Status UnlinkAll() const;
  /// What an ordinary user could still write (f_bavail).
  Result<uint64_t> FreeBytes() const;

 private:
  Disk(std::string dir, Fd root, Fd lock, Fd objects);
  Result<Fd> OpenAt(const ObjectId& id, int flags) const;

  const std::string dir_;
  const Fd root_;
  const Fd lock_;  // flock held on it
  const Fd objects_;
};

/// Bytes that a file occupies.
inline uint64_t AllocatedBytes(const struct stat& info) {
  return static_cast<uint64_t>(info.st_blocks) * 512;  // POSIX: st_blocks counts 512-byte units on Linux
}

}  // namespace stoker
