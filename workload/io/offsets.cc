#include "workload/io/offsets.h"

#include <algorithm>
#include <bit>

#include "cache/base/random.h"

namespace stoker::bench {
namespace {

/// Shuffles of files of their own must differ; a shared file has one for all.
uint64_t ShuffleSeed(const JobLayout& layout, uint64_t task, uint64_t seed) {
  return layout.file_per_process ? Random(seed ^ Random(task).Next()).Next() : seed;
}

}  // namespace

Permutation::Permutation(uint64_t seed, uint64_t n) : n_(n) {
  const int bits = n > 1 ? std::bit_width(n - 1) : 1;
  half_bits_ = std::max(1, (bits + 1) / 2);
  Random random(seed);
  for (uint64_t& key : keys_) key = random.Next();
}

uint64_t Permutation::operator()(uint64_t i) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = i >> half_bits_;
    uint64_t right = i & mask;
    for (const uint64_t key : keys_) {
      uint64_t mixed = (right ^ key) * 0xbf58476d1ce4e5b9ULL;  // any odd number with well-spread bits does
      mixed ^= mixed >> 29;
      mixed *= 0x94d049bb133111ebULL;
      mixed ^= mixed >> 32;
      const uint64_t next = left ^ (mixed & mask);
      left = right;
      right = next;
    }
    i = left << half_bits_ | right;
  } while (i >= n_);
  return i;
}

OffsetSequence::OffsetSequence(const JobLayout& layout, uint64_t task, uint64_t seed)
    : layout_(layout),
      task_(task),
      count_(layout.transfers_per_task()),
      per_block_(layout.block_bytes / layout.transfer_bytes),
      shuffle_(ShuffleSeed(layout, task, seed), layout.file_per_process ? count_ : count_ * layout.tasks) {}

uint64_t OffsetSequence::At(uint64_t i) const {
  if (layout_.random) {
    return shuffle_(layout_.file_per_process ? i : task_ * count_ + i) * layout_.transfer_bytes;
  }
  if (layout_.file_per_process) return i * layout_.transfer_bytes;
  const uint64_t segment = i / per_block_;
  return (segment * layout_.tasks + task_) * layout_.block_bytes + i % per_block_ * layout_.transfer_bytes;
}

}  // namespace stoker::bench
