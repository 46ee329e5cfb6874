#include "workload/train/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cache/base/check.h"
#include "cache/base/random.h"

namespace stoker::bench {

uint64_t StepsFor(uint64_t samples, uint64_t batch_size, uint64_t ranks) {
  return batch_size == 0 || ranks == 0 ? 0 : samples / batch_size / ranks;
}

EpochOrder::EpochOrder(std::vector<uint32_t> order, uint64_t ranks)
    : order_(std::move(order)), per_rank_(order_.size() / ranks) {}

std::span<const uint32_t> EpochOrder::ForRank(uint64_t rank) const {
  STOKER_CHECK((rank + 1) * per_rank_ <= order_.size());
  return std::span<const uint32_t>(order_).subspan(rank * per_rank_, per_rank_);
}

EpochOrder MakeEpochOrder(const OrderOptions& options, uint64_t epoch) {
  STOKER_CHECK(options.ranks >= 1 && options.samples <= UINT32_MAX);
  std::vector<uint32_t> order(options.samples);
  std::iota(order.begin(), order.end(), 0u);
  switch (options.order) {
    case AccessOrder::kV1: {
      Random random(options.seed);
      for (uint64_t i = 0; i <= epoch; ++i) random.Shuffle(order);
      break;
    }
    case AccessOrder::kV2:
      break;
    case AccessOrder::kV3: {
      Random random(options.seed + epoch);
      random.Shuffle(order);
      const uint64_t per_rank = options.samples / options.ranks;
      for (uint64_t rank = 0; rank < options.ranks; ++rank) {
        std::vector<uint32_t> mine(order.begin() + static_cast<ptrdiff_t>(rank * per_rank),
                                   order.begin() + static_cast<ptrdiff_t>((rank + 1) * per_rank));
        random.Shuffle(mine);
        std::copy(mine.begin(), mine.end(), order.begin() + static_cast<ptrdiff_t>(rank * per_rank));
      }
      break;
    }
  }
  return EpochOrder(std::move(order), options.ranks);
}

}  // namespace stoker::bench
