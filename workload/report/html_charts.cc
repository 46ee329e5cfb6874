#include "workload/report/html_charts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/report/chart.h"
#include "workload/report/html.h"
#include "workload/report/report.h"

namespace stoker::bench {
namespace {

constexpr double kMiBDouble = static_cast<double>(kMiB);
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kShownAccelerators = 24;
constexpr size_t kComparedRuns = 6;  // as many as there are colours

std::vector<ChartBand> EpochBands(const RunSummary& run) {
  std::vector<ChartBand> out;
  if (!run.own || !run.series) return out;
  for (size_t i = 0; i < run.own->epochs.size(); ++i) {
    const EpochSummary& epoch = run.own->epochs[i];
    out.push_back({epoch.unix_start - run.series->unix_start, epoch.unix_end - run.series->unix_start,
                   "epoch " + std::to_string(i + 1)});
  }
  return out;
}

/// A rate holds for its whole interval: two points, so that lines are steps.
void AddStep(ChartLine& line, double start_s, double end_s, double value) {
  line.points.emplace_back(start_s, value);
  line.points.emplace_back(end_s, value);
}

/// What the job read, MiB/s, per interval. Steps would be a hundred points too many for a table; the middle
/// of an interval stands for it.
ChartLine ReadLine(const TimeSeries& series, const std::string& name, int color) {
  ChartLine line;
  line.name = name;
  line.color = color;
  for (const SeriesPoint& point : series.points) {
    const double seconds = point.end_s - point.start_s;
    if (seconds <= 0) continue;
    line.points.emplace_back((point.start_s + point.end_s) / 2,
                             static_cast<double>(point.bytes) / kMiBDouble / seconds);
  }
  return line;
}

uint64_t SeriesBytes(const TimeSeries& series) {
  uint64_t out = 0;
  for (const SeriesPoint& point : series.points) out += point.bytes;
  return out;
}

double Highest(const ChartLine& line) {
  double out = 0;
  for (const auto& point : line.points) out = std::max(out, point.second);
  return out;
}

/// Over all intervals together, so that no interval's rate can lie below it everywhere: the epochs' own
/// figure leaves out what lies between epochs, which an interval may include. MiB/s.
double MeanRate(const TimeSeries& series) {
  const double seconds = series.points.back().end_s - series.points.front().start_s;
  return seconds > 0 ? static_cast<double>(SeriesBytes(series)) / seconds / kMiBDouble : 0;
}

/// The axis of AU: from a round figure below everything to 100.
double LowestAu(double lowest, double threshold) {
  return std::max(0.0, std::floor((std::min(lowest, threshold) - 2) / 10) * 10);
}

std::string Threshold(double percent) {
  return "threshold " + Text("%g", percent) + " %";
}

}  // namespace

std::string AuFigure(const RunSummary& run, double threshold_percent) {
  if (run.au_percent.empty()) return "";
  Chart chart;
  chart.title = "AU per epoch";
  chart.x_name = "epoch";
  chart.x_is_time = false;
  chart.unit = AxisUnit::kPercent;
  chart.y_max = 100;
  chart.mark = {threshold_percent, Threshold(threshold_percent)};
  ChartLine line;
  line.name = "mean over accelerators";
  line.dots = true;
  double lowest = 100;
  for (size_t i = 0; i < run.au_percent.size(); ++i) {
    const double x = static_cast<double>(i + 1);
    line.points.emplace_back(x, run.au_percent[i]);
    lowest = std::min(lowest, run.au_percent[i]);
    if (!run.own || i >= run.own->epochs.size() || run.own->epochs[i].au_per_accelerator.size() < 2) continue;
    const auto& all = run.own->epochs[i].au_per_accelerator;
    const auto [low, high] = std::minmax_element(all.begin(), all.end());
    chart.ranges.push_back({x, *low, *high});
    lowest = std::min(lowest, *low);
  }
  chart.y_min = LowestAu(lowest, threshold_percent);
  chart.lines.push_back(line);
  chart.summary = "Mean " + Num(run.au_mean, 2) + " %, from " +
                  Num(*std::min_element(run.au_percent.begin(), run.au_percent.end()), 2) + " to " +
                  Num(*std::max_element(run.au_percent.begin(), run.au_percent.end()), 2) + " %; " +
                  Threshold(threshold_percent) + ". The axis begins at " + Num(*chart.y_min, 0) + " %.";
  return ChartFigure(chart);
}

std::string ThroughputFigure(const RunSummary& run) {
  if (!run.series || run.series->points.empty()) return "";
  Chart chart;
  chart.title = "Read throughput over time";
  chart.unit = AxisUnit::kMebiPerSecond;
  chart.bands = EpochBands(run);
  ChartLine line = ReadLine(*run.series, "true bytes read", 0);
  line.area = true;
  const auto bytes = static_cast<double>(SeriesBytes(*run.series));
  chart.summary = "True bytes that read calls returned. Mean " + Num(MeanRate(*run.series)) +
                  " MiB/s, highest interval " + Num(Highest(line)) + " MiB/s.";
  // A run of several processes keeps the series of the one that wrote the results.
  if (run.own && bytes < 0.95 * static_cast<double>(run.own->true_bytes)) {
    chart.summary += " This is process 0 alone, which read " +
                     Num(bytes / static_cast<double>(run.own->true_bytes) * 100) +
                     " % of all bytes; all processes together read " + Num(run.own->true_mib_per_s) +
                     " MiB/s.";
  }
  if (run.own && run.own->demand_mib_per_s > 0) {
    chart.mark = {run.own->demand_mib_per_s, "demand at 100 % AU"};
    chart.summary += " At 100 % AU the job asks for " + Num(run.own->demand_mib_per_s) + " MiB/s.";
  }
  chart.lines.push_back(std::move(line));
  return ChartFigure(chart);
}

std::string LatencyFigure(const RunSummary& run) {
  if (!run.series || run.series->points.empty()) return "";
  Chart chart;
  chart.title = "Read-call latency over time";
  chart.unit = AxisUnit::kMicros;
  chart.log_y = true;
  chart.bands = EpochBands(run);
  ChartLine median{"median", 0, false, false, true, {}};
  ChartLine high{"99th percentile", 1, false, false, true, {}};
  ChartLine most{"maximum", 5, false, false, true, {}};
  for (const SeriesPoint& point : run.series->points) {
    const double x = (point.start_s + point.end_s) / 2;
    const bool any = point.call.count > 0;
    median.points.emplace_back(x, any ? point.call.p50_us : kNone);
    high.points.emplace_back(x, any ? point.call.p99_us : kNone);
    most.points.emplace_back(x, any ? point.call.max_us : kNone);
  }
  chart.summary = "Logarithmic; gaps are intervals without a read.";
  if (run.own) {
    chart.summary = "Whole run: median " + Micros(run.own->call_us.p50) + ", 99th percentile " +
                    Micros(run.own->call_us.p99) + ", longest " + Micros(run.own->call_us.max) + ". " +
                    chart.summary;
  }
  chart.lines = {median, high, most};
  return ChartFigure(chart);
}

std::string CacheFigures(const RunSummary& run) {
  if (!run.series || run.series->daemon.size() < 2) return "";
  const TimeSeries& series = *run.series;
  Chart bytes;
  bytes.title = "Where the bytes came from";
  bytes.unit = AxisUnit::kMebiPerSecond;
  bytes.bands = EpochBands(run);
  Chart requests;
  requests.title = "Hits and misses of the daemon";
  requests.unit = AxisUnit::kPerSecond;
  requests.bands = bytes.bands;
  ChartLine ufs{"from the UFS (read-ahead included)", 1, true, false, true, {}};
  ChartLine hits{"hits", 2, false, false, true, {}};
  ChartLine misses{"misses", 5, false, false, true, {}};
  ChartLine opens{"files opened with passthrough", 4, false, false, true, {}};
  for (size_t i = 1; i < series.daemon.size(); ++i) {
    const DaemonPoint& from = series.daemon[i - 1];
    const DaemonPoint& to = series.daemon[i];
    const double seconds = to.at_s - from.at_s;
    if (seconds <= 0) continue;
    const auto rate = [&](uint64_t DaemonCounters::*count) {
      return static_cast<double>(to.total.*count - std::min(from.total.*count, to.total.*count)) / seconds;
    };
    AddStep(ufs, from.at_s, to.at_s, rate(&DaemonCounters::bytes_ufs) / kMiBDouble);
    AddStep(hits, from.at_s, to.at_s, rate(&DaemonCounters::read_hits));
    AddStep(misses, from.at_s, to.at_s, rate(&DaemonCounters::read_misses));
    AddStep(opens, from.at_s, to.at_s, rate(&DaemonCounters::passthrough_opens));
  }
  const DaemonCounters& total = series.daemon.back().total;
  const double read = std::accumulate(
      series.points.begin(), series.points.end(), 0.0,
      [](double sum, const SeriesPoint& point) { return sum + static_cast<double>(point.bytes); });
  bytes.summary = "The job read " + FormatBytes(static_cast<uint64_t>(read)) + "; the UFS was asked for " +
                  FormatBytes(total.bytes_ufs) + ". What lies between came from the cache.";
  requests.summary = std::to_string(total.read_hits) + " hits, " + std::to_string(total.read_misses) +
                     " misses; reads of " + std::to_string(total.passthrough_opens) + " files of " +
                     std::to_string(total.opens) +
                     " went past the daemon (passthrough) and are not counted here.";
  bytes.lines = {ReadLine(series, "read by the job", 0), ufs};
  requests.lines = {hits, misses, opens};
  return ChartFigure(bytes) + ChartFigure(requests);
}

std::string AcceleratorTable(const RunSummary& run, double threshold_percent) {
  if (!run.own || run.own->epochs.empty()) return "";
  const std::vector<EpochSummary>& epochs = run.own->epochs;
  size_t ranks = 0;
  for (const EpochSummary& epoch : epochs) ranks = std::max(ranks, epoch.au_per_accelerator.size());
  if (ranks == 0) return "";
  std::vector<double> means(ranks, 0);
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<double> values;
    for (const EpochSummary& epoch : epochs) {
      if (rank < epoch.au_per_accelerator.size()) values.push_back(epoch.au_per_accelerator[rank]);
    }
    means[rank] = Mean(values);
  }
  std::vector<size_t> order(ranks);
  std::iota(order.begin(), order.end(), size_t{0});
  const bool all = ranks <= kShownAccelerators;
  if (!all)
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return means[a] < means[b]; });
  order.resize(std::min(ranks, kShownAccelerators));
  std::string out = "<thead><tr><th scope=\"col\">accelerator</th>";
  for (size_t i = 0; i < epochs.size(); ++i)
    out += "<th scope=\"col\">epoch " + std::to_string(i + 1) + "</th>";
  out += "<th scope=\"col\">mean</th></tr></thead><tbody>";
  const auto cell = [&](double value) {
    const int heat = value >= threshold_percent ? 2 : value >= threshold_percent - 5 ? 1 : 0;
    return "<td class=\"h" + std::to_string(heat) + "\">" + Num(value, 2) + "</td>";
  };
  for (const size_t rank : order) {
    out += "<tr><th scope=\"row\">" + std::to_string(rank) + "</th>";
    for (const EpochSummary& epoch : epochs) {
      out += rank < epoch.au_per_accelerator.size() ? cell(epoch.au_per_accelerator[rank]) : "<td>–</td>";
    }
    out += cell(means[rank]) + "</tr>";
  }
  const std::string caption =
      "AU per accelerator, %" +
      (all ? std::string() : ": the " + std::to_string(order.size()) + " lowest of " + std::to_string(ranks));
  return "<div class=\"card\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + caption +
         "\"><table class=\"heat\"><caption>" + caption + "</caption>" + out +
         "</tbody></table></div></div>\n";
}

std::string LatencyTable(const RunSummary& run) {
  if (!run.own || run.own->call_us.count == 0) return "";
  const auto row = [](const char* name, const LatencySummary& latency) {
    return std::vector<std::string>{name,
                                    Num(static_cast<double>(latency.count), 0),
                                    Micros(latency.p50),
                                    Micros(latency.p90),
                                    Micros(latency.p99),
                                    Micros(latency.p999),
                                    Micros(latency.max)};
  };
  return "<div class=\"card\">" +
         HtmlTable({{"", "count", "p50", "p90", "p99", "p99.9", "max"},
                    row("read call", run.own->call_us),
                    row("file, open to close", run.own->file_us)},
                   "Read latency of the whole run") +
         "</div>\n";
}

std::string CompareAuFigure(const std::vector<NamedRun>& runs, double threshold_percent) {
  Chart chart;
  chart.title = "AU per epoch, run by run";
  chart.x_name = "epoch";
  chart.x_is_time = false;
  chart.unit = AxisUnit::kPercent;
  chart.y_max = 100;
  chart.mark = {threshold_percent, Threshold(threshold_percent)};
  double lowest = 100;
  for (size_t r = 0; r < runs.size() && r < kComparedRuns; ++r) {
    ChartLine line{runs[r].name, static_cast<int>(r), false, true, true, {}};
    for (size_t i = 0; i < runs[r].run->au_percent.size(); ++i) {
      line.points.emplace_back(static_cast<double>(i + 1), runs[r].run->au_percent[i]);
      lowest = std::min(lowest, runs[r].run->au_percent[i]);
    }
    chart.lines.push_back(std::move(line));
  }
  chart.y_min = LowestAu(lowest, threshold_percent);
  chart.summary = "The axis begins at " + Num(*chart.y_min, 0) + " %.";
  if (runs.size() > kComparedRuns)
    chart.summary += " The first 6 of " + std::to_string(runs.size()) + " runs.";
  return ChartFigure(chart);
}

std::string CompareThroughputFigure(const std::vector<NamedRun>& runs) {
  Chart chart;
  chart.title = "Read throughput over time, run by run";
  chart.x_name = "time since the run's start";
  chart.unit = AxisUnit::kMebiPerSecond;
  for (size_t r = 0; r < runs.size() && chart.lines.size() < kComparedRuns; ++r) {
    const RunSummary& run = *runs[r].run;
    if (!run.series || run.series->points.empty()) continue;
    chart.lines.push_back(ReadLine(*run.series, runs[r].name, static_cast<int>(r)));
  }
  if (chart.lines.size() < 2) return "";
  chart.summary = "True bytes read, each run from its own start.";
  return ChartFigure(chart);
}

}  // namespace stoker::bench
