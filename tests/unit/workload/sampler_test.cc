#include "workload/train/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker::bench {
namespace {

std::vector<uint64_t> Of(const EpochOrder& order, uint64_t rank) {
  std::vector<uint64_t> samples;
  for (uint64_t i = 0; i < order.per_rank(); ++i) samples.push_back(order.Sample(rank, i));
  return samples;
}
OrderOptions Options(AccessOrder order, uint64_t samples, uint64_t ranks) {
  OrderOptions options;
  options.order = order;
  options.samples = samples;
  options.ranks = ranks;
  return options;
}

TEST(Sampler, RanksAreDisjointEquallyLongAndCoverAllButTheTail) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 200; ++round) {
    OrderOptions options;
    options.order = static_cast<AccessOrder>(random.Below(3));
    options.seed = random.Next();
    options.samples_per_file = 1 + random.Below(5);
    options.whole_files = random.OneIn(2);
    options.samples = random.Below(300 / options.samples_per_file) * options.samples_per_file;
    options.ranks = 1 + random.Below(12);
    const EpochOrder order = MakeEpochOrder(options, random.Below(6));
    const uint64_t per_rank = options.samples / options.ranks;
    std::set<uint64_t> seen;
    for (uint64_t rank = 0; rank < options.ranks; ++rank) {
      EXPECT_EQ(order.per_rank(), per_rank);
      for (const uint64_t sample : Of(order, rank)) {
        EXPECT_LT(sample, options.samples);
        EXPECT_TRUE(seen.insert(sample).second) << "sample " << sample << " twice";
      }
    }
    EXPECT_EQ(seen.size(), per_rank * options.ranks);
  }
}

TEST(Sampler, SameSeedSameOrder) {
  for (const AccessOrder mode : {AccessOrder::kV1, AccessOrder::kV2, AccessOrder::kV3}) {
    const OrderOptions options = Options(mode, 1000, 4);
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
  const OrderOptions options = Options(AccessOrder::kV2, 10, 3);
  const std::vector<uint64_t> expected = {3, 4, 5};
  EXPECT_EQ(Of(MakeEpochOrder(options, 0), 1), expected);
  EXPECT_EQ(Of(MakeEpochOrder(options, 4), 1), expected);
}

/// Share of rank 0's samples that it had in the epoch before.
double Kept(AccessOrder mode, uint64_t ranks) {
  const OrderOptions options = Options(mode, 4000, ranks);
  std::vector<uint64_t> before = Of(MakeEpochOrder(options, 0), 0);
  std::vector<uint64_t> after = Of(MakeEpochOrder(options, 1), 0);
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  std::vector<uint64_t> both;
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
    const OrderOptions options = Options(mode, 1000, 1);
    const std::vector<uint64_t> first = Of(MakeEpochOrder(options, 0), 0);
    EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
    EXPECT_NE(first, Of(MakeEpochOrder(options, 1), 0));
  }
}

TEST(Sampler, WholeFilesKeepTheirSamplesTogetherAndInOrder) {
  for (const AccessOrder mode : {AccessOrder::kV1, AccessOrder::kV3}) {
    OrderOptions options = Options(mode, 60, 1);
    options.samples_per_file = 5;
    options.whole_files = true;
    const std::vector<uint64_t> samples = Of(MakeEpochOrder(options, 1), 0);
    std::vector<uint64_t> files;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (i % 5 == 0) files.push_back(samples[i] / 5);
      EXPECT_EQ(samples[i], files.back() * 5 + i % 5);
    }
    EXPECT_FALSE(std::is_sorted(files.begin(), files.end()));
    EXPECT_NE(samples, Of(MakeEpochOrder(options, 2), 0));
  }
}

TEST(Sampler, RunsCoverExactlyTheSamplesOfTheirPositions) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 100; ++round) {
    OrderOptions options = Options(static_cast<AccessOrder>(random.Below(3)), 0, 1 + random.Below(3));
    options.samples_per_file = 1 + random.Below(7);
    options.whole_files = random.OneIn(2);
    options.samples = options.samples_per_file * (1 + random.Below(40));
    const EpochOrder order = MakeEpochOrder(options, random.Below(3));
    const uint64_t rank = random.Below(options.ranks);
    const std::vector<uint64_t> samples = Of(order, rank);
    for (uint64_t at = 0; at < samples.size();) {
      const uint64_t limit = 1 + random.Below(10);
      const SampleRun run = order.RunAt(rank, at, limit);
      ASSERT_GE(run.count, 1u);
      ASSERT_LE(run.count, limit);
      ASSERT_LE(run.first + run.count, options.samples_per_file);
      for (uint64_t i = 0; i < run.count; ++i) {
        ASSERT_EQ(samples[at + i], run.file * options.samples_per_file + run.first + i);
      }
      at += run.count;
    }
  }
}

TEST(Sampler, BillionsOfSamplesNeedNoMemoryOfTheirOwn) {
  OrderOptions options = Options(AccessOrder::kV2, 4'831'838'208, 8);
  options.samples_per_file = 4'718'592;
  const SampleRun run = MakeEpochOrder(options, 0).RunAt(7, 603'979'775, 16'384);
  EXPECT_EQ(run.file, 1023u);
  EXPECT_EQ(run.first, 4'718'591u);
  EXPECT_EQ(run.count, 1u);
  options.order = AccessOrder::kV3;
  options.whole_files = true;
  EXPECT_EQ(MakeEpochOrder(options, 0).RunAt(3, 4'718'592 - 100, 16'384).count, 100u);
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
