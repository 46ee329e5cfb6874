#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/base/metrics.h"
#include "cache/base/result.h"
#include "cache/ufs/ufs.h"
#include "fuse/inode_table.h"

namespace stoker {

/// One open directory. Remembers the entries it has listed, so that positions stay valid whatever happens to
/// the directory meanwhile: cookie n is the position before entry n ("." is 0, ".." is 1). Starting over at 0
/// lists anew, as rewinddir() promises. Used by one caller at a time (TryEnter).
class DirHandle {
 public:
  DirHandle(NodeId node, Metrics& metrics) : node_(node), metrics_(metrics) { metrics_.open_dirs.Add(); }
  ~DirHandle() { metrics_.open_dirs.Sub(); }
  DirHandle(const DirHandle&) = delete;
  DirHandle& operator=(const DirHandle&) = delete;

  NodeId node() const { return node_; }
  /// The kernel sends one request at a time for an open directory, except after it gave one up.
  bool TryEnter() { return !busy_.exchange(true, std::memory_order_acquire); }
  void Leave() { busy_.store(false, std::memory_order_release); }

  struct Item {
    std::string_view name;
    uint64_t ino = 0;
    mode_t type = 0;    // S_IFMT bits
    uint64_t next = 0;  // cookie behind this entry
    bool dots = false;  // "." or ".."
  };
  /// Entries from `cookie` on until `take` says false (that entry is not consumed) or the listing ends.
  /// `path` and `ino` are the directory's own. May wait on the UFS. REQUIRES TryEnter().
  Status Read(Ufs& ufs, const std::string& path, uint64_t ino, uint64_t parent_ino, uint64_t cookie,
              const std::function<bool(const Item&)>& take);
  /// Attributes of an entry of the listing. REQUIRES TryEnter() and a Read() before.
  Result<UfsAttr> StatEntry(const std::string& name);

 private:
  static constexpr uint64_t kDots = 2;
  static constexpr size_t kBatch = 1024;  // entries asked from the UFS at once

  const NodeId node_;
  Metrics& metrics_;
  std::atomic<bool> busy_{false};
  std::unique_ptr<UfsDir> listing_;
  std::vector<UfsDirEntry> entries_;
  bool finished_ = false;
};

}  // namespace stoker
