#include "cache/store/lru_policy.h"

#include "cache/base/check.h"

namespace stoker {

LruPolicy::LruPolicy() {
  ends_.newer = &ends_;
  ends_.older = &ends_;
}

void LruPolicy::Insert(EvictionNode& node) {
  STOKER_CHECK(node.newer == nullptr && node.older == nullptr);
  node.newer = &ends_;
  node.older = ends_.older;
  ends_.older->newer = &node;
  ends_.older = &node;
}

void LruPolicy::Erase(EvictionNode& node) {
  STOKER_CHECK(node.newer != nullptr && node.older != nullptr);
  node.newer->older = node.older;
  node.older->newer = node.newer;
  node.newer = nullptr;
  node.older = nullptr;
}

EvictionNode* LruPolicy::Victim() {
  return ends_.newer == &ends_ ? nullptr : ends_.newer;
}

}  // namespace stoker
