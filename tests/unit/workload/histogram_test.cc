#include "workload/train/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
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

TEST(SharedHistogram, DrainTakesEachValueOnce) {
  SharedHistogram shared;
  EXPECT_EQ(shared.Drain().count(), 0u);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&shared] {
      for (uint64_t i = 0; i < 10'000; ++i) shared.Add(i);
    });
  }
  Histogram all;
  for (int i = 0; i < 20; ++i) all.Merge(shared.Drain());
  for (std::thread& thread : threads) thread.join();
  all.Merge(shared.Drain());
  Histogram expected;
  for (int t = 0; t < 4; ++t) {
    for (uint64_t i = 0; i < 10'000; ++i) expected.Add(i);
  }
  EXPECT_EQ(all.count(), 40'000u);
  for (const double q : {0.1, 0.5, 0.99}) EXPECT_EQ(all.Quantile(q), expected.Quantile(q)) << q;
  EXPECT_GE(all.max(), 9'999u);
  EXPECT_LE(all.max(), 9'999u * 33 / 32);
  EXPECT_EQ(shared.Drain().count(), 0u);
}

TEST(Histogram, HoldsTheLargestValue) {
  Histogram histogram;
  histogram.Add(UINT64_MAX);
  EXPECT_EQ(histogram.Quantile(0.5), UINT64_MAX);
}

}  // namespace
}  // namespace stoker::bench
