#include "workload/report/time_series.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace stoker::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr uint64_t kMaxPoints = 1'000'000;  // more in a file is not ours

/// Every column of a point: its name in the file and its field.
template <typename Visit>
void PointColumns(SeriesPoint& point, Visit visit) {
  visit("start_seconds", point.start_s);
  visit("end_seconds", point.end_s);
  visit("bytes", point.bytes);
  visit("files", point.files);
  visit("read_calls", point.call.count);
  visit("read_call_p50_us", point.call.p50_us);
  visit("read_call_p99_us", point.call.p99_us);
  visit("read_call_max_us", point.call.max_us);
  visit("read_files", point.file.count);
  visit("read_file_p50_us", point.file.p50_us);
  visit("read_file_p99_us", point.file.p99_us);
  visit("read_file_max_us", point.file.max_us);
}

template <typename Visit>
void DaemonColumns(DaemonPoint& point, Visit visit) {
  visit("at_seconds", point.at_s);
  visit("read_hits", point.total.read_hits);
  visit("read_misses", point.total.read_misses);
  visit("bytes_cache", point.total.bytes_cache);
  visit("bytes_delivered", point.total.bytes_delivered);
  visit("bytes_ufs", point.total.bytes_ufs);
  visit("opens", point.total.opens);
  visit("passthrough_opens", point.total.passthrough_opens);
}

}  // namespace

Latency LatencyOf(const Histogram& ns) {
  const auto micros = [](uint64_t value) { return static_cast<double>(value) / 1e3; };
  return {ns.count(), micros(ns.Quantile(0.5)), micros(ns.Quantile(0.99)), micros(ns.max())};
}

std::string TimeSeriesJson(const TimeSeries& series) {
  Json out;
  out["version"] = kVersion;
  out["unix_start"] = series.unix_start;
  out["hostname"] = series.hostname;
  Json points = Json::object();
  for (SeriesPoint point : series.points) {
    PointColumns(point, [&points](const char* name, const auto& value) { points[name].push_back(value); });
  }
  out["points"] = std::move(points);
  Json daemon = Json::object();
  for (DaemonPoint point : series.daemon) {
    DaemonColumns(point, [&daemon](const char* name, const auto& value) { daemon[name].push_back(value); });
  }
  out["daemon"] = std::move(daemon);
  if (!series.daemon_note.empty()) out["daemon_note"] = series.daemon_note;
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<TimeSeries> ParseTimeSeries(std::string_view json) {
  try {
    const Json in = Json::parse(json);
    const int version = in.at("version").get<int>();
    if (version != kVersion) {
      return Status(Code::kCorruption, "version " + std::to_string(version) + ", but only " +
                                           std::to_string(kVersion) + " is known");
    }
    TimeSeries out;
    out.unix_start = in.at("unix_start").get<double>();
    out.hostname = in.value("hostname", "");
    out.daemon_note = in.value("daemon_note", "");
    const Json& points = in.at("points");
    const Json& daemon = in.at("daemon");
    const size_t count = points.empty() ? 0 : points.at("end_seconds").size();
    const size_t answers = daemon.empty() ? 0 : daemon.at("at_seconds").size();
    if (count > kMaxPoints || answers > kMaxPoints) return Status(Code::kCorruption, "too many points");
    out.points.resize(count);
    out.daemon.resize(answers);
    for (size_t i = 0; i < count; ++i) {
      PointColumns(out.points[i],
                   [&](const char* name, auto& value) { points.at(name).at(i).get_to(value); });
    }
    for (size_t i = 0; i < answers; ++i) {
      DaemonColumns(out.daemon[i],
                    [&](const char* name, auto& value) { daemon.at(name).at(i).get_to(value); });
    }
    return out;
  } catch (const nlohmann::json::exception& error) {
    return Status(Code::kCorruption, error.what());
  }
}

SeriesBuilder::SeriesBuilder(size_t max_points, double first_interval_s)
    : max_points_(std::max<size_t>(2, max_points / 2 * 2)), interval_s_(first_interval_s) {}

void SeriesBuilder::Add(double start_s, double end_s, uint64_t bytes, uint64_t files,
                        const Histogram& call_ns, const Histogram& file_ns) {
  if (intervals_.size() == max_points_) {
    for (size_t i = 0; i < max_points_ / 2; ++i) {
      Interval joined = std::move(intervals_[2 * i]);
      const Interval& next = intervals_[2 * i + 1];
      joined.end_s = next.end_s;
      joined.bytes += next.bytes;
      joined.files += next.files;
      joined.call_ns.Merge(next.call_ns);
      joined.file_ns.Merge(next.file_ns);
      intervals_[i] = std::move(joined);
    }
    intervals_.resize(max_points_ / 2);
    interval_s_ *= 2;
  }
  intervals_.push_back({start_s, end_s, bytes, files, call_ns, file_ns});
}

std::vector<SeriesPoint> SeriesBuilder::Points() const {
  std::vector<SeriesPoint> out;
  for (const Interval& interval : intervals_) {
    out.push_back({interval.start_s, interval.end_s, interval.bytes, interval.files,
                   LatencyOf(interval.call_ns), LatencyOf(interval.file_ns)});
  }
  return out;
}

}  // namespace stoker::bench
