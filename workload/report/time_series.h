#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"
#include "workload/base/daemon_counters.h"
#include "workload/train/histogram.h"

namespace stoker::bench {

/// Percentiles of one interval, microseconds; all 0 when nothing was counted.
struct Latency {
  uint64_t count = 0;
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
};
Latency LatencyOf(const Histogram& ns);

/// What happened from one look at a run to the next. Times are seconds since the series began.
struct SeriesPoint {
  double start_s = 0;
  double end_s = 0;
  uint64_t bytes = 0;  // true bytes that read calls returned in the interval
  uint64_t files = 0;  // files read to their end
  Latency call;
  Latency file;
};

/// One answer of the daemon behind the dataset: what it had counted since the series began.
struct DaemonPoint {
  double at_s = 0;
  DaemonCounters total;
};

/// What a run did over time, for charts. Plain values.
struct TimeSeries {
  double unix_start = 0;  // seconds
  std::string hostname;
  std::vector<SeriesPoint> points;  // without gaps, oldest first
  std::vector<DaemonPoint> daemon;  // empty when the dataset is on no Stoker mount
  std::string daemon_note;          // why there are none or no more, or ""
};

/// timeseries.json: one array per column, so that a spreadsheet or a script plots it at once. Pure.
std::string TimeSeriesJson(const TimeSeries& series);
/// kCorruption: not such a text; says what is wrong with it. Pure.
Result<TimeSeries> ParseTimeSeries(std::string_view json);

/// Keeps a series within a bound however long the run takes: when it is full, neighbours are joined in pairs,
/// and from then on intervals are twice as long. One thread.
class SeriesBuilder {
 public:
  /// `max_points`: an even number, at least 2. Memory: 31 KiB a point.
  SeriesBuilder(size_t max_points, double first_interval_s);

  /// The interval after which the next Add() is due.
  double interval_s() const { return interval_s_; }
  void Add(double start_s, double end_s, uint64_t bytes, uint64_t files, const Histogram& call_ns,
           const Histogram& file_ns);
  std::vector<SeriesPoint> Points() const;

 private:
  struct Interval {
    double start_s = 0;
    double end_s = 0;
    uint64_t bytes = 0;
    uint64_t files = 0;
    Histogram call_ns;
    Histogram file_ns;
  };
  const size_t max_points_;
  double interval_s_;
  std::vector<Interval> intervals_;
};

}  // namespace stoker::bench
