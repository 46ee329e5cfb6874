#include "cache/store/file_cache.h"

namespace stoker {

FileCache::File FileCache::Find(const ObjectId& id) {
  MutexLock lock(mu_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return nullptr;
  files_.splice(files_.begin(), files_, it->second);
  return it->second->second;
}

void FileCache::Put(const ObjectId& id, File file) {
  File closed;  // goes after the lock
  MutexLock lock(mu_);
  if (max_files_ == 0) return;
  if (const auto it = by_id_.find(id); it != by_id_.end()) {
    closed = std::exchange(it->second->second, std::move(file));
    files_.splice(files_.begin(), files_, it->second);
    return;
  }
  files_.emplace_front(id, std::move(file));
  by_id_.emplace(id, files_.begin());
  if (files_.size() > max_files_) {
    by_id_.erase(files_.back().first);
    closed = std::move(files_.back().second);
    files_.pop_back();
  }
}

void FileCache::Erase(const ObjectId& id) {
  File closed;
  MutexLock lock(mu_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return;
  closed = std::move(it->second->second);
  files_.erase(it->second);
  by_id_.erase(it);
}

size_t FileCache::size() const {
  MutexLock lock(mu_);
  return files_.size();
}

}  // namespace stoker
