#include "workload/report/comparison.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/base/text_table.h"

namespace stoker::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMiBDouble = static_cast<double>(kMiB);
/// From this share of resident bytes on, a turn is said to have read memory in part.
constexpr double kHotShare = 0.05;

std::string Time(double micros) {
  if (micros >= 1e6) return Text("%.2f s", micros / 1e6);
  if (micros >= 1e3) return Text("%.1f ms", micros / 1e3);
  return Text("%.0f us", micros);
}

/// "0.42 (0.40-0.45)".
std::string Ends(const Spread& spread, const char* format) {
  return Text(format, spread.median) + " (" + Text(format, spread.low) + "-" + Text(format, spread.high) +
         ")";
}

Json SpreadJson(const Spread& spread) {
  return Json{{"median", spread.median}, {"min", spread.low}, {"max", spread.high}};
}

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

TurnFigures TurnOf(const RunRecord& record, size_t contender, uint64_t round, uint64_t position) {
  TurnFigures out;
  out.contender = contender;
  out.round = round;
  out.position = position;
  out.status = record.status();
  out.valid = record.valid();
  out.read_errors = record.log.reads.errors;
  out.first_read_error = record.log.reads.first_error;
  out.au_percent = record.figures.au_mean_percent;
  out.nominal_mib_per_s = record.figures.mib_mean;
  out.true_mib_per_s = record.harness.bytes_per_s / kMiBDouble;
  const auto micros = [](uint64_t ns) { return static_cast<double>(ns) / 1e3; };
  out.call_p50_us = micros(record.log.reads.call_ns.Quantile(0.5));
  out.call_p99_us = micros(record.log.reads.call_ns.Quantile(0.99));
  out.file_p99_us = micros(record.log.reads.file_ns.Quantile(0.99));
  out.page_cache_before = record.cache.page_cache_before;
  if (record.cache.daemon) out.ufs_bytes = record.cache.daemon->bytes_ufs;
  out.read_bytes = record.log.reads.bytes;
  out.client_cpu_limits = record.cpu.client_limits();
  return out;
}

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

std::vector<ContenderFigures> CompareTurns(size_t contenders, const std::vector<TurnFigures>& turns) {
  std::vector<ContenderFigures> out;
  for (size_t c = 0; c < contenders; ++c) {
    ContenderFigures figures;
    const auto over = [&](double TurnFigures::*field) {
      std::vector<double> values;
      for (const TurnFigures& turn : turns) {
        if (turn.contender == c && turn.valid) values.push_back(turn.*field);
      }
      return SpreadOf(std::move(values));
    };
    figures.au_percent = over(&TurnFigures::au_percent);
    figures.nominal_mib_per_s = over(&TurnFigures::nominal_mib_per_s);
    figures.true_mib_per_s = over(&TurnFigures::true_mib_per_s);
    figures.call_p50_us = over(&TurnFigures::call_p50_us);
    figures.call_p99_us = over(&TurnFigures::call_p99_us);
    figures.file_p99_us = over(&TurnFigures::file_p99_us);
    // What the machine did in one round it did to both: the ratio is taken round by round.
    std::vector<double> ratios;
    for (const TurnFigures& turn : turns) {
      if (turn.contender != c || !turn.valid) continue;
      ++figures.counted;
      figures.read_bytes += turn.read_bytes;
      figures.client_cpu_limits = figures.client_cpu_limits || turn.client_cpu_limits;
      if (turn.ufs_bytes) figures.ufs_bytes = figures.ufs_bytes.value_or(0) + *turn.ufs_bytes;
      if (turn.page_cache_before) {
        figures.page_cache_before = std::max(figures.page_cache_before.value_or(0), *turn.page_cache_before);
      }
      for (const TurnFigures& first : turns) {
        if (first.contender == 0 && first.round == turn.round && first.valid && first.nominal_mib_per_s > 0) {
          ratios.push_back(turn.nominal_mib_per_s / first.nominal_mib_per_s);
        }
      }
    }
    figures.ratio = SpreadOf(std::move(ratios));
    out.push_back(std::move(figures));
  }
  return out;
}

std::string ComparisonText(const std::vector<ContenderPlace>& places, const std::vector<TurnFigures>& turns) {
  const std::vector<ContenderFigures> all = CompareTurns(places.size(), turns);
  std::vector<std::vector<std::string>> rows = {{"", "rounds", "AU %", "MiB/s nominal", "MiB/s true", "ratio",
                                                 "call p50", "call p99", "file p99", "in page cache",
                                                 "from UFS"}};
  std::string notes;
  for (size_t c = 0; c < places.size(); ++c) {
    const ContenderFigures& figures = all[c];
    if (figures.counted == 0) {
      rows.push_back({places[c].name, "0", "-", "-", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    rows.push_back({places[c].name, std::to_string(figures.counted), Ends(figures.au_percent, "%.1f"),
                    Ends(figures.nominal_mib_per_s, "%.0f"), Ends(figures.true_mib_per_s, "%.0f"),
                    figures.ratio.median > 0 ? Ends(figures.ratio, "%.2f") : "-",
                    Time(figures.call_p50_us.median), Time(figures.call_p99_us.median),
                    Time(figures.file_p99_us.median),
                    figures.page_cache_before ? Text("%.0f %%", 100 * *figures.page_cache_before) : "?",
                    figures.ufs_bytes ? FormatBytes(*figures.ufs_bytes) : "-"});
    if (figures.page_cache_before && *figures.page_cache_before >= kHotShare) {
      notes +=
          "NOTE: " + places[c].name + " began with up to " + Text("%.0f", 100 * *figures.page_cache_before) +
          " % of its dataset (by a sample) in the page cache: part of what it read came from memory, not "
          "from its storage\n";
    }
    if (figures.client_cpu_limits) {
      notes += "NOTE: while " + places[c].name +
               " ran, the client's CPU was nearly all used: the storage may be faster than its figures\n";
    }
  }
  for (const TurnFigures& turn : turns) {
    if (turn.valid) continue;
    notes += "NOTE: " + places[turn.contender].name + ", round " + std::to_string(turn.round + 1) +
             ", is not counted: " + turn.status;
    if (turn.read_errors > 0) {
      notes += "; " + std::to_string(turn.read_errors) + (turn.read_errors == 1 ? " file" : " files") +
               " could not be read, the first: " + turn.first_read_error;
    }
    notes += "\n";
  }
  for (const ContenderPlace& place : places) {
    notes += place.name + ": " + place.dir +
             (place.fstype.empty() ? "" : " (" + place.fstype + " at " + place.mount + ")") + "\n";
  }
  return TextTable(rows) + "Median (lowest-highest) over rounds; ratio: nominal MiB/s to " +
         places.front().name +
         " in the same round; latencies are medians of each round's percentile; in page cache: the most "
         "found "
         "before a turn.\n" +
         notes;
}

std::string ComparisonJson(const std::vector<ContenderPlace>& places, const std::vector<TurnFigures>& turns,
                           const Command& command) {
  const std::vector<ContenderFigures> all = CompareTurns(places.size(), turns);
  Json contenders = Json::array();
  for (size_t c = 0; c < places.size(); ++c) {
    const ContenderFigures& figures = all[c];
    Json rounds = Json::array();
    for (const TurnFigures& turn : turns) {
      if (turn.contender != c) continue;
      rounds.push_back(Json{{"round", turn.round + 1},
                            {"position", turn.position + 1},
                            {"status", turn.status},
                            {"read_errors", turn.read_errors},
                            {"valid", turn.valid},
                            {"au_percent", turn.au_percent},
                            {"nominal_MiB_per_second", turn.nominal_mib_per_s},
                            {"true_MiB_per_second", turn.true_mib_per_s},
                            {"read_call_p50_us", turn.call_p50_us},
                            {"read_call_p99_us", turn.call_p99_us},
                            {"read_file_p99_us", turn.file_p99_us},
                            {"page_cache_share_before", OrNull(turn.page_cache_before)},
                            {"true_bytes", turn.read_bytes},
                            {"ufs_bytes", OrNull(turn.ufs_bytes)},
                            {"client_cpu_limits", turn.client_cpu_limits}});
    }
    contenders.push_back(Json{{"name", places[c].name},
                              {"dir", places[c].dir},
                              {"mount", places[c].mount},
                              {"fstype", places[c].fstype},
                              {"counted_rounds", figures.counted},
                              {"au_percent", SpreadJson(figures.au_percent)},
                              {"nominal_MiB_per_second", SpreadJson(figures.nominal_mib_per_s)},
                              {"true_MiB_per_second", SpreadJson(figures.true_mib_per_s)},
                              {"ratio_to_first", SpreadJson(figures.ratio)},
                              {"read_call_p50_us", SpreadJson(figures.call_p50_us)},
                              {"read_call_p99_us", SpreadJson(figures.call_p99_us)},
                              {"read_file_p99_us", SpreadJson(figures.file_p99_us)},
                              {"page_cache_share_before_max", OrNull(figures.page_cache_before)},
                              {"true_bytes", figures.read_bytes},
                              {"ufs_bytes", OrNull(figures.ufs_bytes)},
                              {"rounds", rounds}});
  }
  const Json out{{"version", STOKER_VERSION},
                 {"mlperf", Name(command.profile.edition)},
                 {"workload", command.profile.workload},
                 {"accelerator", command.profile.accelerator},
                 {"num_accelerators", command.accelerators},
                 {"overrides", command.profile.overridden},
                 {"contenders", contenders}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stoker::bench
