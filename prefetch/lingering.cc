#include "prefetch/lingering.h"

#include <algorithm>
#include <utility>

namespace stoker::fetch {

void Lingering::Add(const PartKey& key, ByteRange part, std::shared_ptr<PartBuffer> buffer, Nanos now) {
  bytes_ += buffer->block.bytes;
  entries_.push_back({key, part, std::move(buffer), now});
}

bool Lingering::Has(const PartKey& key) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
}

const Lingering::Entry* Lingering::Use(const PartKey& key, Nanos now) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return nullptr;
  found->last_use = now;
  entries_.splice(entries_.end(), entries_, found);
  return &*found;
}

Lingering::Entry Lingering::TakeOldest() {
  Entry oldest = std::move(entries_.front());
  bytes_ -= oldest.buffer->block.bytes;
  entries_.pop_front();
  return oldest;
}

}  // namespace stoker::fetch
