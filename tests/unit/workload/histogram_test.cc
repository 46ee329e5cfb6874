#include "workload/train/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker::bench {
namespace {

TEST(Histogram, EmptyIsZero) {
  EXPECT_EQ(Histogram().Quantile(0.5), 0u);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (uint64_t value = 1; value <= 10; ++value) histogram.Add(value);
  EXPECT_EQ(histogram.Quantile(0.5), 5u);
  EXPECT_EQ(histogram.Quantile(1), 10u);
  EXPECT_EQ(histogram.Quantile(0), 1u);
}

TEST(Histogram, QuantilesAreWithinABucketOfTheSortedValues) {
  Random random(testing::TestSeed());
  std::vector<uint64_t> values;
  Histogram one;
  Histogram two;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t value = random.Next() >> (random.Below(63) + 1);
    values.push_back(value);
    (random.OneIn(2) ? one : two).Add(value);
  }
  one.Merge(two);
  std::sort(values.begin(), values.end());
  for (const double q : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const auto exact = static_cast<double>(values[static_cast<size_t>(q * 20'000) - 1]);
    const auto got = static_cast<double>(one.Quantile(q));
    EXPECT_GE(got, exact) << q;
    EXPECT_LE(got, exact * (1 + 1.0 / 32) + 1) << q;
  }
  EXPECT_EQ(one.max(), values.back());
  EXPECT_EQ(one.count(), values.size());
}

TEST(Histogram, HoldsTheLargestValue) {
  Histogram histogram;
  histogram.Add(UINT64_MAX);
  EXPECT_EQ(histogram.Quantile(0.5), UINT64_MAX);
}

}  // namespace
}  // namespace stoker::bench
