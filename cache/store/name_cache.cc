#include "cache/store/name_cache.h"

namespace stoker {

void NameCache::Drop(std::unordered_map<ObjectId, EvictionNode>::iterator it) {
  policy_.Erase(it->second);
  used_bytes_ -= it->second.charged;
  table_.erase(it);
}

bool NameCache::Use(const ObjectId& id, uint64_t bytes, uint64_t capacity, double low_watermark) {
  const auto known = table_.find(id);
  policy_.Use(id, known != table_.end(), bytes, capacity);
  if (known != table_.end()) {
    policy_.Erase(known->second);
    policy_.Insert(known->second, true);
    return true;
  }
  if (bytes > capacity) return false;
  if (used_bytes_ + bytes > capacity) {
    const auto low = static_cast<uint64_t>(static_cast<double>(capacity) * low_watermark);
    while (used_bytes_ > 0 && used_bytes_ + bytes > low) {
      EvictionNode* const victim = policy_.Victim(RoomFor::kRead);
      if (victim == nullptr) break;
      const auto it = table_.find(*victim->id);
      policy_.Erase(*victim);
      policy_.Forgotten(*victim);
      used_bytes_ -= victim->charged;
      table_.erase(it);
    }
    if (used_bytes_ + bytes > capacity) return false;
  }
  const auto it = table_.try_emplace(id).first;
  it->second.id = &it->first;
  it->second.charged = bytes;
  used_bytes_ += bytes;
  policy_.Insert(it->second, true);
  return false;
}

void NameCache::DropIf(const std::function<bool(const ObjectId&)>& which) {
  for (auto it = table_.begin(); it != table_.end();) {
    const auto next = std::next(it);
    if (which(it->first)) Drop(it);
    it = next;
  }
}

}  // namespace stoker
