#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker {

/// Memory for parts under way, and the one limit on it (prefetch.budget): what is lent and what is kept for
/// the next fetch together stay within the budget. Blocks come in powers of two from 64 KiB, so that a small
/// file does not hold a whole part's worth.
///
/// Who gets memory: a demand whenever it fits. Less urgent fetches must leave room for one more block of
/// their own size, so that a reader who comes next does not wait behind a pool that is full of guesses.
/// Whoever asks while nothing is lent gets it, whatever its size: a budget below one part slows down and
/// never stops.
///
/// Not thread-safe: the engine's mutex covers it. Memory from and to the kernel is handled by the caller
/// outside that mutex (MapBlock, UnmapBlock).
class PartMemory {
 public:
  struct Block {
    std::byte* data = nullptr;  // null: granted, but the caller has to MapBlock()
    size_t bytes = 0;           // 0: nothing granted
  };

  explicit PartMemory(uint64_t budget_bytes) : budget_(budget_bytes) {}

  /// What a part of this length takes from the budget.
  static size_t BlockBytes(uint64_t part_bytes);

  bool CanTake(uint64_t part_bytes, bool demand) const;
  /// Lends a block; empty when it does not fit. Idle memory that has to go first is appended to `garbage`.
  Block Take(uint64_t part_bytes, bool demand, std::vector<Block>& garbage);
  /// Takes a block back (its memory may be null when mapping failed) and keeps it for the next fetch.
  void Give(Block block);
  /// Hands out everything that is idle, to be unmapped.
  void TakeIdle(std::vector<Block>& garbage);

  uint64_t used_bytes() const { return used_; }
  uint64_t idle_bytes() const { return idle_bytes_; }

  /// Page-aligned fresh memory; false when the kernel has none.
  static bool MapBlock(Block& block);
  static void UnmapBlocks(const std::vector<Block>& blocks);

 private:
  const uint64_t budget_;
  uint64_t used_ = 0;
  uint64_t idle_bytes_ = 0;
  std::vector<Block> idle_;  // most recently used last
};

}  // namespace stoker
