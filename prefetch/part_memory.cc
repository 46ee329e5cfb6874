#include "prefetch/part_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "cache/base/check.h"
#include "cache/base/units.h"

namespace stoker {

size_t PartMemory::BlockBytes(uint64_t part_bytes) {
  constexpr uint64_t kSmallest = 64 * kKiB;
  return std::bit_ceil(std::max(part_bytes, kSmallest));
}

bool PartMemory::CanTake(uint64_t part_bytes, bool demand) const {
  if (used_ == 0) return true;
  const uint64_t bytes = BlockBytes(part_bytes);
  return used_ + (demand ? bytes : 2 * bytes) <= budget_;
}

PartMemory::Block PartMemory::Take(uint64_t part_bytes, bool demand, std::vector<Block>& garbage) {
  if (!CanTake(part_bytes, demand)) return {};
  Block block;
  block.bytes = BlockBytes(part_bytes);
  for (size_t i = idle_.size(); i-- > 0;) {
    if (idle_[i].bytes != block.bytes) continue;
    block = idle_[i];
    idle_bytes_ -= block.bytes;
    idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  used_ += block.bytes;
  while (used_ + idle_bytes_ > budget_ && !idle_.empty()) {
    garbage.push_back(idle_.front());
    idle_bytes_ -= idle_.front().bytes;
    idle_.erase(idle_.begin());
  }
  return block;
}

void PartMemory::Give(Block block) {
  STOKER_CHECK(block.bytes <= used_);
  used_ -= block.bytes;
  if (block.data == nullptr) return;
  idle_.push_back(block);
  idle_bytes_ += block.bytes;
}

void PartMemory::TakeIdle(std::vector<Block>& garbage) {
  std::move(idle_.begin(), idle_.end(), std::back_inserter(garbage));
  idle_.clear();
  idle_bytes_ = 0;
}

bool PartMemory::MapBlock(Block& block) {
  void* memory = ::mmap(nullptr, block.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  block.data = static_cast<std::byte*>(memory);
  return true;
}

void PartMemory::UnmapBlocks(const std::vector<Block>& blocks) {
  for (const Block& block : blocks) ::munmap(block.data, block.bytes);
}

}  // namespace stoker
