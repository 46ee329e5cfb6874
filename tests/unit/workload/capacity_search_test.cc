#include "workload/report/capacity_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker::bench {
namespace {

/// A storage whose AU falls with the number of accelerators, seen through noise.
struct Simulated {
  std::function<double(uint64_t)> au;
  double deviation = 0;

  double Measure(uint64_t n, Random& random) const { return au(n) + deviation * random.Normal(); }
  uint64_t Truth(const CapacityOptions& options) const {
    uint64_t n = 0;
    while (n < options.max && au(n + 1) >= options.threshold_percent) ++n;
    return n;
  }
};

/// Feeds `capacity` accelerators in full; more share what there is.
Simulated Shared(double capacity, double deviation) {
  return {[capacity](uint64_t n) { return 99.8 * std::min(1.0, capacity / static_cast<double>(n)); },
          deviation};
}

struct Outcome {
  CapacityResult result;
  uint64_t probes = 0;
};
Outcome Search(const Simulated& storage, const CapacityOptions& options, Random& random) {
  CapacitySearch search(options);
  Outcome out;
  while (const std::optional<CapacityProbe> probe = search.Next()) {
    EXPECT_GE(probe->accelerators, 1u);
    EXPECT_LE(probe->accelerators, options.max);
    search.Add(*probe, storage.Measure(probe->accelerators, random));
    if (++out.probes > 500) {
      ADD_FAILURE() << "the search does not end";
      break;
    }
  }
  out.result = search.Result();
  EXPECT_TRUE(out.result.finished);
  return out;
}

bool Covers(const CapacityResult& result, uint64_t truth) {
  return result.fed <= truth && (!result.starved || truth < *result.starved);
}

TEST(CapacitySearch, DoublesBisectsAndConfirmsBothSides) {
  CapacitySearch search({.threshold_percent = 90, .max = 100, .repeats = 3});
  const auto probe = [&](uint64_t n, bool confirming, double au) {
    ASSERT_EQ(search.Next(), (CapacityProbe{n, confirming}));
    search.Add({n, confirming}, au);
  };
  probe(1, false, 99);
  probe(2, false, 99);
  probe(4, false, 97);
  probe(8, false, 60);
  probe(6, false, 80);
  probe(5, false, 95);
  EXPECT_FALSE(search.Result().finished);
  EXPECT_EQ(search.Result().likely, 5u);
  EXPECT_EQ(search.Result().fed, 0u) << "single measurements prove nothing";
  probe(5, true, 95.1);
  probe(6, true, 80.1);
  probe(5, true, 95.0);
  probe(6, true, 80.0);
  EXPECT_FALSE(search.Next().has_value());
  const CapacityResult result = search.Result();
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.fed, 5u);
  EXPECT_EQ(result.starved, 6u);
  EXPECT_EQ(result.likely, 5u);
  ASSERT_EQ(result.points.size(), 6u);
  const CapacityPoint& five = result.points[3];
  EXPECT_EQ(five.accelerators, 5u);
  EXPECT_DOUBLE_EQ(five.mean(), 95.05) << "the measurement that chose it does not count";
  EXPECT_EQ(five.passes(90), 3u);
  // 0.05 x 1/2 for the first number, / 2 looks: t(0.0125, 1 degree) = 25.45; deviation 0.0707, two repeats.
  EXPECT_NEAR(five.margin(search.options()), 25.452 * 0.070711 / std::sqrt(2), 0.001);
}

TEST(CapacitySearch, NotEvenOneAndAllOfThem) {
  Random random(1);
  const CapacityOptions options{.max = 40};
  const Outcome none = Search(Shared(0.5, 0.1), options, random);
  EXPECT_EQ(none.result.fed, 0u);
  EXPECT_EQ(none.result.starved, 1u);
  const Outcome all = Search(Shared(1000, 0.1), options, random);
  EXPECT_EQ(all.result.fed, 40u);
  EXPECT_FALSE(all.result.starved.has_value());
  const Outcome one = Search(Shared(1000, 0.1), {.max = 1}, random);
  EXPECT_EQ(one.result.fed, 1u);
}

/// One wrong measurement on the way does not decide.
TEST(CapacitySearch, AStrayMeasurementIsFoundOut) {
  for (const double stray : {10.0, 99.9}) {
    for (uint64_t when = 0; when < 12; ++when) {
      CapacitySearch search({.max = 64});
      const Simulated storage = Shared(11, 0);
      uint64_t count = 0;
      while (const std::optional<CapacityProbe> probe = search.Next()) {
        const bool wrong = count == when && !probe->confirming;
        search.Add(*probe, wrong ? stray : storage.au(probe->accelerators));
        ASSERT_LT(++count, 200u);
      }
      EXPECT_EQ(search.Result().fed, 12u) << stray << " as measurement " << when;
      EXPECT_EQ(search.Result().starved, 13u) << stray << " as measurement " << when;
    }
  }
}

/// Exactly at the threshold nothing can be proved; the answer is a range that says so.
TEST(CapacitySearch, AnEdgeThatNoiseHidesIsARange) {
  Random random(3);
  const Simulated storage{[](uint64_t n) { return n < 20 ? 99.0 : n == 20 ? 90.0 : 70.0; }, 1};
  int exact = 0;
  for (int i = 0; i < 50; ++i) {
    const Outcome outcome = Search(storage, {.max = 64}, random);
    EXPECT_TRUE(Covers(outcome.result, 20)) << outcome.result.fed;
    EXPECT_GE(outcome.result.fed, 19u);
    EXPECT_EQ(outcome.result.starved, 21u);
    exact += outcome.result.fed == 20 ? 1 : 0;
  }
  EXPECT_LE(exact, 5) << "AU is on the threshold: proved only by chance";
}

/// The promise: over many searches the truth lies outside the answer at most as often as was stated, and it
/// is found exactly when the noise is small against the step at the edge. The same noise does mislead whoever
/// measures each number once.
TEST(CapacitySearchProperty, TheTruthIsInTheAnswerAsOftenAsStated) {
  Random random(testing::TestSeed());
  constexpr int kSearches = 400;
  for (const double confidence : {0.9, 0.99}) {
    for (const double deviation : {0.02, 0.3, 1.0, 4.0}) {
      int missed = 0;
      int exact = 0;
      int misled = 0;
      uint64_t probes = 0;
      for (int i = 0; i < kSearches; ++i) {
        // Up to 60 accelerators; the step at the edge is at least 1.5 points.
        const Simulated storage = Shared(0.7 + 59 * random.Uniform(), deviation);
        const CapacityOptions options{.max = 256, .repeats = 5, .confidence = confidence};
        const uint64_t truth = storage.Truth(options);
        const Outcome outcome = Search(storage, options, random);
        missed += Covers(outcome.result, truth) ? 0 : 1;
        exact += outcome.result.fed == truth && outcome.result.starved == truth + 1 ? 1 : 0;
        probes += outcome.probes;

        CapacitySearch once(options);
        std::optional<CapacityProbe> probe = once.Next();
        for (; probe && !probe->confirming; probe = once.Next()) {
          once.Add(*probe, storage.Measure(probe->accelerators, random));
        }
        misled += once.Result().likely == truth ? 0 : 1;
      }
      const double allowed = (1 - confidence) * kSearches;
      EXPECT_LE(missed, allowed + 4 * std::sqrt(allowed)) << "deviation " << deviation;
      if (deviation <= 0.02) {
        EXPECT_GE(exact, kSearches * 75 / 100) << "deviation " << deviation;
      }
      if (deviation >= 1.0) {
        EXPECT_GE(misled, kSearches / 10) << "noise too small to be a test";
      }
      RecordProperty("probes_per_search_at_" + std::to_string(deviation),
                     static_cast<int>(probes / kSearches));
    }
  }
}

/// Whatever is measured, the search ends, soon, and contradicts nothing it was told.
TEST(CapacitySearchProperty, AnyMeasurementsEnd) {
  Random random(testing::TestSeed());
  for (int i = 0; i < 2000; ++i) {
    const CapacityOptions options{.max = 1 + random.Below(i % 2 == 0 ? 10 : 100'000),
                                  .repeats = 2 + random.Below(5),
                                  .confidence = 0.5 + 0.49 * random.Uniform()};
    const double spread = std::pow(10.0, 4 * random.Uniform() - 2);
    const Simulated storage{[&](uint64_t) { return 90 + 3 * random.Normal(); }, spread};
    const Outcome outcome = Search(storage, options, random);
    EXPECT_LE(outcome.result.fed, options.max);
    if (outcome.result.starved) {
      EXPECT_LT(outcome.result.fed, *outcome.result.starved);
    }
  }
}

}  // namespace
}  // namespace stoker::bench
