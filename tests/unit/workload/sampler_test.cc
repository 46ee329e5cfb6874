#include "workload/train/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker::bench {
namespace {

std::vector<uint32_t> Of(const EpochOrder& order, uint64_t rank) {
  const auto span = order.ForRank(rank);
  return {span.begin(), span.end()};
}

TEST(Sampler, RanksAreDisjointEquallyLongAndCoverAllButTheTail) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 200; ++round) {
    OrderOptions options;
    options.order = static_cast<AccessOrder>(random.Below(3));
    options.seed = random.Next();
    options.samples = random.Below(300);
    options.ranks = 1 + random.Below(12);
    const EpochOrder order = MakeEpochOrder(options, random.Below(6));
    const uint64_t per_rank = options.samples / options.ranks;
    std::set<uint32_t> seen;
    for (uint64_t rank = 0; rank < options.ranks; ++rank) {
      EXPECT_EQ(order.ForRank(rank).size(), per_rank);
      for (const uint32_t sample : order.ForRank(rank)) {
        EXPECT_LT(sample, options.samples);
        EXPECT_TRUE(seen.insert(sample).second) << "sample " << sample << " twice";
      }
    }
    EXPECT_EQ(seen.size(), per_rank * options.ranks);
  }
}

TEST(Sampler, SameSeedSameOrder) {
  for (const AccessOrder mode : {AccessOrder::kV1, AccessOrder::kV2, AccessOrder::kV3}) {
    const OrderOptions options{mode, 123, 1000, 4};
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      for (uint64_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(Of(MakeEpochOrder(options, epoch), rank), Of(MakeEpochOrder(options, epoch), rank));
      }
    }
    if (mode == AccessOrder::kV2) continue;
    OrderOptions other = options;
    other.seed = 124;
    EXPECT_NE(Of(MakeEpochOrder(options, 0), 0), Of(MakeEpochOrder(other, 0), 0));
  }
}

TEST(Sampler, V2IsTheSameEveryEpochAndInOrder) {
  const OrderOptions options{AccessOrder::kV2, 123, 10, 3};
  const std::vector<uint32_t> expected = {3, 4, 5};
  EXPECT_EQ(Of(MakeEpochOrder(options, 0), 1), expected);
  EXPECT_EQ(Of(MakeEpochOrder(options, 4), 1), expected);
}

/// Share of rank 0's samples that it had in the epoch before.
double Kept(AccessOrder mode, uint64_t ranks) {
  const OrderOptions options{mode, 123, 4000, ranks};
  std::vector<uint32_t> before = Of(MakeEpochOrder(options, 0), 0);
  std::vector<uint32_t> after = Of(MakeEpochOrder(options, 1), 0);
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  std::vector<uint32_t> both;
  std::set_intersection(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(before.size());
}

TEST(Sampler, SamplesMoveBetweenRanksInV1AndV3Only) {
  EXPECT_NEAR(Kept(AccessOrder::kV1, 4), 0.25, 0.06);
  EXPECT_NEAR(Kept(AccessOrder::kV3, 4), 0.25, 0.06);
  EXPECT_EQ(Kept(AccessOrder::kV2, 4), 1.0);
}

TEST(Sampler, V1AndV3AreShuffledAnewEachEpoch) {
  for (const AccessOrder mode : {AccessOrder::kV1, AccessOrder::kV3}) {
    const OrderOptions options{mode, 123, 1000, 1};
    const std::vector<uint32_t> first = Of(MakeEpochOrder(options, 0), 0);
    EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
    EXPECT_NE(first, Of(MakeEpochOrder(options, 1), 0));
  }
}

TEST(Sampler, StepsDropTheTail) {
  EXPECT_EQ(StepsFor(168, 7, 2), 12u);
  EXPECT_EQ(StepsFor(100, 7, 3), 4u);
  EXPECT_EQ(StepsFor(6, 7, 1), 0u);
  for (uint64_t samples = 0; samples < 200; ++samples) {
    EXPECT_LE(StepsFor(samples, 7, 3) * 7, samples / 3) << "a rank must not run out";
  }
}

}  // namespace
}  // namespace stoker::bench
