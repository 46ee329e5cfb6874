#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "cache/base/ids.h"
#include "cache/store/eviction_policy.h"

namespace stoker {

/// A cache of names: what a cache of some size would hold under a policy, without a byte of data. The store's
/// `auto` compares policies with it, and so does the simulator (tests/bench/evict_sim). About 100 bytes an
/// object. Not thread-safe. The policy must be its own and outlive it.
class NameCache {
 public:
  explicit NameCache(EvictionPolicy& policy) : policy_(policy) {}
  NameCache(const NameCache&) = delete;
  NameCache& operator=(const NameCache&) = delete;

  /// One use of an object of `bytes` from its beginning to its end: true when it was here. Else it is taken
  /// in, if the policy agrees and it fits at all. `low_watermark`: evicting, once started, goes down to this
  /// share of the capacity, as the store does.
  bool Use(const ObjectId& id, uint64_t bytes, uint64_t capacity, double low_watermark = 1.0);
  /// Forgets every object for which `which` is true.
  void DropIf(const std::function<bool(const ObjectId&)>& which);

  size_t objects() const { return table_.size(); }
  uint64_t used_bytes() const { return used_bytes_; }

 private:
  void Drop(std::unordered_map<ObjectId, EvictionNode>::iterator it);

  EvictionPolicy& policy_;
  std::unordered_map<ObjectId, EvictionNode> table_;
  uint64_t used_bytes_ = 0;  // INVARIANT: sum of `charged` in table_
};

}  // namespace stoker
