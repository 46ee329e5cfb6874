#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "cache/base/fd.h"
#include "cache/base/ids.h"
#include "cache/base/mutex.h"

namespace stoker {

/// Keeps the most recently opened object files open for a while after their last user, at most `max_files` of
/// them. Any thread. Descriptors are closed with no lock held.
class FileCache {
 public:
  using File = std::shared_ptr<const Fd>;

  explicit FileCache(size_t max_files) : max_files_(max_files) {}
  File Find(const ObjectId& id) EXCLUDES(mu_);
  void Put(const ObjectId& id, File file) EXCLUDES(mu_);
  void Erase(const ObjectId& id) EXCLUDES(mu_);
  size_t size() const EXCLUDES(mu_);

 private:
  using List = std::list<std::pair<ObjectId, File>>;
  const size_t max_files_;
  mutable Mutex mu_;
  List files_ GUARDED_BY(mu_);  // newest first
  std::unordered_map<ObjectId, List::iterator> by_id_ GUARDED_BY(mu_);
};

}  // namespace stoker
