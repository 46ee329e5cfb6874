#include "cache/store/ghost_list.h"

#include <algorithm>
#include <utility>

namespace stoker {

namespace {
constexpr size_t kFirstSlots = 1024;
}

const GhostList::Slot* GhostList::Find(uint64_t key) const {
  if (slots_.empty()) return nullptr;
  const uint32_t print = Print(key);
  const Slot* const bucket = &slots_[Bucket(print)];
  for (size_t i = 0; i < kWays; ++i) {
    if (bucket[i].print == print && Alive(bucket[i])) return &bucket[i];
  }
  return nullptr;
}

void GhostList::Put(Slot slot) {
  Slot* const bucket = &slots_[Bucket(slot.print)];
  Slot* place = bucket;
  for (size_t i = 0; i < kWays; ++i) {
    if (bucket[i].print == slot.print || !Alive(bucket[i])) {
      place = &bucket[i];
      break;
    }
    if (Age(bucket[i]) > Age(*place)) place = &bucket[i];
  }
  *place = slot;
}

void GhostList::Add(uint64_t key, size_t limit) {
  limit_ = std::min(limit, max_entries_);
  if (limit_ == 0) return;
  if (slots_.size() < 2 * limit_) {
    std::vector<Slot> old(kFirstSlots);
    while (old.size() < 2 * limit_) old.resize(old.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (Alive(slot)) Put(slot);
    }
  }
  Put({Print(key), static_cast<uint32_t>(++added_)});
}

bool GhostList::Take(uint64_t key) {
  const Slot* const found = Find(key);
  if (found == nullptr) return false;
  slots_[static_cast<size_t>(found - slots_.data())] = Slot();
  return true;
}

}  // namespace stoker
