#pragma once

#include "cache/store/eviction_policy.h"

namespace stoker {

/// Forgets first what was used longest ago. Constant time, no memory of its own.
class LruPolicy final : public EvictionPolicy {
 public:
  LruPolicy();
  void Insert(EvictionNode& node) override;
  void Erase(EvictionNode& node) override;
  EvictionNode* Victim() override;

 private:
  EvictionNode ends_;  // ring: ends_.older is the newest, ends_.newer the oldest
};

}  // namespace stoker
