#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "cache/ufs/ufs.h"

namespace stoker::testing {

/// A UFS in memory, with the parts of POSIX that matter here: an open file is its inode and sees what happens
/// to it; hard links share one; a directory is whatever has something below it. Versions are serial numbers.
/// Any thread.
class MemUfs final : public Ufs {
 public:
  MemUfs();
  ~MemUfs() override;

  /// A new inode at `path`, replacing what was there. Bytes in `holes` must be zero; they are told as holes.
  void Put(const std::string& path, std::string content, std::vector<ByteRange> holes = {});
  /// New content for the inode at `path` (all its names, all who have it open), and a new version.
  void Overwrite(const std::string& path, std::string content);
  void Link(const std::string& from, const std::string& to);
  void PutOther(const std::string& path, mode_t type);  // S_IFLNK, S_IFIFO…, S_IFDIR for an empty directory
  void Remove(const std::string& path);
  void Rename(const std::string& from, const std::string& to);
  std::string Content(const std::string& path) const;

  std::string uri() const override { return "mem:"; }
  Result<UfsAttr> Stat(const std::string& path) override;
  Result<std::string> ReadLink(const std::string& path) override;
  Result<std::unique_ptr<UfsDir>> OpenDir(const std::string& path) override;
  Result<std::unique_ptr<UfsFile>> OpenFile(const std::string& path) override;
  Result<struct statvfs> StatFs() override;
  Result<std::string> GetXattr(const std::string& path, const std::string& name) override;
  Result<std::vector<std::string>> ListXattr(const std::string& path) override;

 private:
  friend class MemDir;
  friend class MemFile;
  struct Node;
  struct Tree;
  std::shared_ptr<Tree> tree_;  // shared with open files
};

/// `size` bytes that differ from place to place and from seed to seed.
std::string PatternBytes(uint64_t size, uint64_t seed);

}  // namespace stoker::testing
