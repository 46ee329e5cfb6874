#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workload/base/rules.h"

namespace stoker::bench {

/// Steps of one epoch on every rank alike: whole batches only, the tail is dropped.
uint64_t StepsFor(uint64_t samples, uint64_t batch_size, uint64_t ranks);

/// Which samples each rank reads in one epoch, and in which order. Ranks are disjoint and equally long, so no
/// rank runs out early. Immutable; any thread.
class EpochOrder {
 public:
  EpochOrder(std::vector<uint32_t> order, uint64_t ranks);
  /// [samples / ranks] sample indices.
  std::span<const uint32_t> ForRank(uint64_t rank) const;

 private:
  std::vector<uint32_t> order_;  // rank r owns [r * per_rank_, (r + 1) * per_rank_)
  uint64_t per_rank_;
};

struct OrderOptions {
  AccessOrder order = AccessOrder::kV3;
  uint64_t seed = 123;  // the public benchmark's
  uint64_t samples = 0;
  uint64_t ranks = 1;
};

/// Pure: the same options and epoch give the same order everywhere.
/// kV1: one permutation of all samples, shuffled again in place every epoch; rank r takes the r-th slice. A
///   rank meets other samples each epoch.
/// kV2: samples in their own order, rank r the r-th slice; the same in every epoch.
/// kV3: samples move between ranks each epoch (a permutation seeded with seed + epoch), then each rank
///   shuffles its own.
/// `epoch` counts from 0. REQUIRES ranks >= 1, samples < 2^32.
EpochOrder MakeEpochOrder(const OrderOptions& options, uint64_t epoch);

}  // namespace stoker::bench
