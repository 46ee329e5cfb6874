#pragma once

#include <cstdint>

namespace stoker::bench {

/// A repeatable shuffle of 0…n-1 that needs no memory: a Feistel network over the next power of four, walked
/// on until the result is in range. Different seeds give unrelated orders. Immutable.
class Permutation {
 public:
  Permutation(uint64_t seed, uint64_t n);
  /// REQUIRES i < n. One to one.
  uint64_t operator()(uint64_t i) const;

 private:
  static constexpr int kRounds = 4;
  uint64_t n_;
  int half_bits_ = 1;
  uint64_t keys_[kRounds];
};

/// How a job's bytes lie in its file or files. Plain values; sizes in bytes.
struct JobLayout {
  uint64_t tasks = 1;
  uint64_t segments = 1;        // -s
  uint64_t block_bytes = 0;     // -b: contiguous bytes of one task in one segment
  uint64_t transfer_bytes = 1;  // -t: bytes of one call; divides block_bytes
  bool file_per_process = false;
  bool random = false;  // -z

  uint64_t transfers_per_task() const { return block_bytes / transfer_bytes * segments; }
  uint64_t task_bytes() const { return block_bytes * segments; }
  uint64_t total_bytes() const { return task_bytes() * tasks; }
  uint64_t file_bytes() const { return file_per_process ? task_bytes() : total_bytes(); }
};

/// Where the transfers of one task go, in order. Over all tasks, each transfer of each file comes exactly
/// once, and every task has the same number of them.
///   shared file, in order: block of task r in segment s begins at (s * tasks + r) * block
///   own file, in order:    0, transfer, 2 * transfer, …
///   random:                a shuffle of the file's transfers; of a shared file each task has its part of one
///                          common shuffle
class OffsetSequence {
 public:
  /// `task`: whose bytes. `seed` decides the shuffle and must be the same for all tasks of a phase.
  OffsetSequence(const JobLayout& layout, uint64_t task, uint64_t seed);
  uint64_t count() const { return count_; }
  /// Offset in the file of transfer `i`, REQUIRES i < count().
  uint64_t At(uint64_t i) const;

 private:
  JobLayout layout_;
  uint64_t task_;
  uint64_t count_;
  uint64_t per_block_;
  Permutation shuffle_;
};

}  // namespace stoker::bench
