#include "fuse/dir_handle.h"

#include <sys/stat.h>

namespace stoker {

Status DirHandle::Read(Ufs& ufs, const std::string& path, uint64_t ino, uint64_t parent_ino, uint64_t cookie,
                       const std::function<bool(const Item&)>& take) {
  if (cookie == 0 || listing_ == nullptr) {
    ASSIGN_OR_RETURN(listing_, ufs.OpenDir(path));
    entries_.clear();
    finished_ = false;
  }
  for (uint64_t at = cookie;; ++at) {
    Item item;
    item.next = at + 1;
    if (at < kDots) {
      item.dots = true;
      item.name = at == 0 ? "." : "..";
      item.ino = at == 0 ? ino : parent_ino;
      item.type = S_IFDIR;
    } else {
      const uint64_t index = at - kDots;
      while (index >= entries_.size() && !finished_) {
        const size_t before = entries_.size();
        RETURN_IF_ERROR(listing_->Next(kBatch, entries_));
        finished_ = entries_.size() == before;
      }
      if (index >= entries_.size()) return Status::Ok();
      const UfsDirEntry& entry = entries_[index];
      item.name = entry.name;
      item.ino = entry.ino;
      item.type = entry.type;
    }
    if (!take(item)) return Status::Ok();
  }
}

Result<UfsAttr> DirHandle::StatEntry(const std::string& name) {
  return listing_->StatEntry(name);
}

}  // namespace stoker
