#include "workload/report/time_series.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stoker::bench {
namespace {

Histogram Of(std::initializer_list<uint64_t> values) {
  Histogram out;
  for (const uint64_t value : values) out.Add(value);
  return out;
}

TEST(SeriesBuilder, KeepsEveryByteHoweverLongTheRun) {
  SeriesBuilder builder(8, 0.5);
  double at = 0;
  uint64_t looks = 0;
  while (at < 3600) {
    const double end = at + builder.interval_s();
    builder.Add(at, end, looks, 1, Of({1000, 2000}), Of({5000}));
    at = end;
    ++looks;
    ASSERT_LE(builder.Points().size(), 8u);
  }
  ASSERT_GT(looks, 40u);
  const std::vector<SeriesPoint> points = builder.Points();
  uint64_t bytes = 0;
  uint64_t files = 0;
  uint64_t calls = 0;
  double last = 0;
  for (const SeriesPoint& point : points) {
    EXPECT_DOUBLE_EQ(point.start_s, last);
    last = point.end_s;
    bytes += point.bytes;
    files += point.files;
    calls += point.call.count;
  }
  EXPECT_DOUBLE_EQ(last, at);
  EXPECT_EQ(bytes, (looks - 1) * looks / 2);
  EXPECT_EQ(files, looks);
  EXPECT_EQ(calls, 2 * looks);
  EXPECT_GT(builder.interval_s(), 0.5 * 100);
}

TEST(SeriesBuilder, JoinedIntervalsHaveThePercentilesOfBoth) {
  SeriesBuilder builder(2, 1);
  builder.Add(0, 1, 10, 1, Of({1000, 1000}), Of({7000}));
  builder.Add(1, 2, 20, 2, Of({9'000'000, 9'000'000, 9'000'000}), Histogram());
  builder.Add(2, 4, 30, 3, Histogram(), Histogram());
  const std::vector<SeriesPoint> points = builder.Points();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].bytes, 30u);
  EXPECT_EQ(points[0].call.count, 5u);
  EXPECT_NEAR(points[0].call.p50_us, 9000, 9000 / 32.0);
  EXPECT_EQ(points[0].call.max_us, 9000);
  EXPECT_EQ(points[1].call.count, 0u);
  EXPECT_EQ(points[1].call.p99_us, 0);
}

TimeSeries Example() {
  TimeSeries series;
  series.unix_start = 1714557600.5;
  series.hostname = "h\"1";
  series.points.push_back({0, 0.5, 1'000'000, 3, {4, 1.5, 2.5, 3.5}, {3, 10, 20, 30}});
  series.points.push_back({0.5, 1.25, 2'000'000, 1, {9, 2, 3, 4}, {1, 11, 11, 11}});
  DaemonCounters total;
  total.read_hits = 7;
  total.read_misses = 2;
  total.bytes_ufs = 12345678901;
  total.bytes_cache = 99;
  series.daemon.push_back({1.1, total});
  series.daemon_note = "gone";
  return series;
}

TEST(TimeSeriesJson, ComesBackAsItWas) {
  const Result<TimeSeries> back = ParseTimeSeries(TimeSeriesJson(Example()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->unix_start, 1714557600.5);
  EXPECT_EQ(back->hostname, "h\"1");
  EXPECT_EQ(back->daemon_note, "gone");
  ASSERT_EQ(back->points.size(), 2u);
  EXPECT_EQ(back->points[1].start_s, 0.5);
  EXPECT_EQ(back->points[1].end_s, 1.25);
  EXPECT_EQ(back->points[0].bytes, 1'000'000u);
  EXPECT_EQ(back->points[0].files, 3u);
  EXPECT_EQ(back->points[0].call.p99_us, 2.5);
  EXPECT_EQ(back->points[0].file.max_us, 30);
  ASSERT_EQ(back->daemon.size(), 1u);
  EXPECT_EQ(back->daemon[0].at_s, 1.1);
  EXPECT_EQ(back->daemon[0].total.read_hits, 7u);
  EXPECT_EQ(back->daemon[0].total.bytes_ufs, 12345678901u);
}

TEST(TimeSeriesJson, ARunThatReadNothingComesBackToo) {
  const Result<TimeSeries> back = ParseTimeSeries(TimeSeriesJson(TimeSeries()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_TRUE(back->points.empty());
  EXPECT_TRUE(back->daemon.empty());
}

TEST(TimeSeriesJson, DamagedTextsAreRefused) {
  const std::string good = TimeSeriesJson(Example());
  for (size_t length = 0; length + 2 < good.size(); length += 37) {
    EXPECT_EQ(ParseTimeSeries(good.substr(0, length)).status().code(), Code::kCorruption) << length;
  }
  nlohmann::json short_column = nlohmann::json::parse(good);
  short_column["points"]["bytes"].erase(0);
  EXPECT_EQ(ParseTimeSeries(short_column.dump()).status().code(), Code::kCorruption);
  nlohmann::json wrong_type = nlohmann::json::parse(good);
  wrong_type["points"]["bytes"][0] = "many";
  EXPECT_EQ(ParseTimeSeries(wrong_type.dump()).status().code(), Code::kCorruption);
  nlohmann::json newer = nlohmann::json::parse(good);
  newer["version"] = 2;
  EXPECT_EQ(ParseTimeSeries(newer.dump()).status().message(), "version 2, but only 1 is known");
}

}  // namespace
}  // namespace stoker::bench
