#pragma once

#include <cstdint>
#include <vector>

#include "workload/base/rules.h"

namespace stoker::bench {

/// Steps of one epoch on every rank alike: whole batches only, the tail is dropped.
uint64_t StepsFor(uint64_t samples, uint64_t batch_size, uint64_t ranks);

struct OrderOptions {
  AccessOrder order = AccessOrder::kV3;
  uint64_t seed = 123;  // the public benchmark's
  uint64_t samples = 0;
  uint64_t ranks = 1;  // of the whole run, all hosts
  uint64_t samples_per_file = 1;
  /// Files are shuffled, the samples inside one are not (file_shuffle without sample_shuffle).
  bool whole_files = false;
};

/// `count` samples that lie behind each other in a file.
struct SampleRun {
  uint64_t file = 0;
  uint64_t first = 0;  // number of the first inside the file
  uint64_t count = 0;
};

/// Which samples each rank reads in one epoch, and in which order. Ranks are disjoint and equally long, so no
/// rank runs out early. Immutable; any thread. Holds 4 bytes per sample, per file (whole_files) or nothing
/// (v2), since a dataset may have billions of samples.
class EpochOrder {
 public:
  /// `units`: what is permuted, samples or whole files; empty: everything in its own order. REQUIRES
  /// ranks >= 1; a `units` of all the samples or all the files.
  EpochOrder(std::vector<uint32_t> units, const OrderOptions& options);
  uint64_t per_rank() const { return per_rank_; }
  /// The sample at `position` of a rank's epoch. REQUIRES position < per_rank().
  uint64_t Sample(uint64_t rank, uint64_t position) const;
  /// The samples from `position` on that lie behind each other in one file, at most `limit`.
  SampleRun RunAt(uint64_t rank, uint64_t position, uint64_t limit) const;

 private:
  const std::vector<uint32_t> units_;
  const uint64_t samples_per_file_;
  const bool whole_files_;
  const uint64_t per_rank_;  // rank r owns the positions [r * per_rank_, (r + 1) * per_rank_)
};

/// Pure: the same options and epoch give the same order everywhere.
/// kV1: one permutation, shuffled again in place every epoch; rank r takes the r-th slice. A rank meets other
///   samples each epoch.
/// kV2: samples in their own order, rank r the r-th slice; the same in every epoch.
/// kV3: samples move between ranks each epoch (a permutation seeded with seed + epoch), then each rank
///   shuffles its own.
/// With whole_files v1 and v3 permute the files and leave the samples in them together.
/// `epoch` counts from 0. REQUIRES ranks >= 1, fewer than 2^32 things to permute.
EpochOrder MakeEpochOrder(const OrderOptions& options, uint64_t epoch);

/// A permutation of 0..n-1, shuffled `times` times in place.
std::vector<uint32_t> ShuffledUnits(uint64_t n, uint64_t seed, uint64_t times);

}  // namespace stoker::bench
