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

EpochOrder::EpochOrder(std::vector<uint32_t> units, const OrderOptions& options)
    : units_(std::move(units)),
      samples_per_file_(options.samples_per_file),
      whole_files_(options.whole_files),
      per_rank_(options.samples / options.ranks) {}

uint64_t EpochOrder::Sample(uint64_t rank, uint64_t position) const {
  const uint64_t at = rank * per_rank_ + position;
  STOKER_CHECK(position < per_rank_);
  if (units_.empty()) return at;
  if (!whole_files_) return units_[at];
  return units_[at / samples_per_file_] * samples_per_file_ + at % samples_per_file_;
}

SampleRun EpochOrder::RunAt(uint64_t rank, uint64_t position, uint64_t limit) const {
  const uint64_t sample = Sample(rank, position);
  SampleRun run{sample / samples_per_file_, sample % samples_per_file_, 1};
  const uint64_t most = std::min({limit, samples_per_file_ - run.first, per_rank_ - position});
  if (units_.empty() || whole_files_) {
    run.count = most;
  } else {
    while (run.count < most && units_[rank * per_rank_ + position + run.count] == sample + run.count) {
      ++run.count;
    }
  }
  return run;
}

std::vector<uint32_t> ShuffledUnits(uint64_t n, uint64_t seed, uint64_t times) {
  STOKER_CHECK(n <= UINT32_MAX);
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  Random random(seed);
  for (uint64_t i = 0; i < times; ++i) random.Shuffle(order);
  return order;
}

EpochOrder MakeEpochOrder(const OrderOptions& options, uint64_t epoch) {
  STOKER_CHECK(options.ranks >= 1 && options.samples_per_file >= 1);
  const uint64_t units = options.whole_files ? options.samples / options.samples_per_file : options.samples;
  std::vector<uint32_t> order;
  switch (options.order) {
    case AccessOrder::kV1:
      order = ShuffledUnits(units, options.seed, epoch + 1);
      break;
    case AccessOrder::kV2:
      break;
    case AccessOrder::kV3: {
      STOKER_CHECK(units <= UINT32_MAX);
      order.resize(units);
      std::iota(order.begin(), order.end(), 0u);
      Random random(options.seed + epoch);
      random.Shuffle(order);
      if (options.whole_files) break;  // which rank has a file, and when, is one draw
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
  return EpochOrder(std::move(order), options);
}

}  // namespace stoker::bench
