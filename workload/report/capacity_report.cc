#include "workload/report/capacity_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/base/text_table.h"

namespace stoker::bench {
namespace {

using Json = nlohmann::ordered_json;

const CapacityPoint* PointOf(const CapacityResult& result, uint64_t accelerators) {
  for (const CapacityPoint& point : result.points) {
    if (point.accelerators == accelerators) return &point;
  }
  return nullptr;
}

std::string AuText(const CapacityRecord& record, uint64_t accelerators) {
  const CapacityPoint* const point = PointOf(record.result, accelerators);
  if (point == nullptr) return "-";
  const double margin = point->margin(record.options);
  return Text("%.2f", point->mean()) + (std::isfinite(margin) ? " ± " + Text("%.2f", margin) : "") + " %";
}

std::string PassText(const CapacityRecord& record, uint64_t accelerators) {
  const CapacityPoint* const point = PointOf(record.result, accelerators);
  if (point == nullptr) return "";
  return std::to_string(accelerators) + " passed " +
         std::to_string(point->passes(record.options.threshold_percent)) + " of " +
         std::to_string(point->scouted.size() + point->confirmed.size()) + " measurements";
}

/// Mean of what was read while so many were measured.
double BytesPerSecond(const CapacityRecord& record, uint64_t accelerators) {
  double sum = 0;
  size_t count = 0;
  for (const CapacityMeasurement& one : record.measurements) {
    if (one.probe.accelerators != accelerators) continue;
    sum += one.bytes_per_s;
    ++count;
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

std::string_view VerdictName(CapacityVerdict verdict) {
  switch (verdict) {
    case CapacityVerdict::kFed:
      return "fed";
    case CapacityVerdict::kStarved:
      return "starved";
    case CapacityVerdict::kOpen:
      break;
  }
  return "open";
}

/// Numbers between the proved ones that repeats did not decide.
std::string OpenText(const CapacityRecord& record) {
  std::string out;
  for (const CapacityPoint& point : record.result.points) {
    const uint64_t n = point.accelerators;
    if (n <= record.result.fed || (record.result.starved && n >= *record.result.starved)) continue;
    if (point.confirmed.size() < record.options.repeats) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(n) + ": AU " + AuText(record, n);
  }
  if (out.empty()) return "";
  return "; too close to the threshold for " + std::to_string(record.options.repeats) + " repeats: " + out;
}

Json SharesJson(const StepShares& shares) {
  return Json{{"compute_share", shares.compute},
              {"load_wait_share", shares.load_wait},
              {"barrier_wait_share", shares.barrier_wait},
              {"overhead_share", shares.overhead}};
}

Json PointJson(const CapacityRecord& record, const CapacityPoint& point) {
  const double margin = point.margin(record.options);
  return Json{{"accelerators", point.accelerators},
              {"verdict", VerdictName(point.verdict)},
              {"au_mean_percent", point.mean()},
              {"au_margin_percent", std::isfinite(margin) ? Json(margin) : Json(nullptr)},
              {"passes", point.passes(record.options.threshold_percent)},
              {"scouted_au_percent", point.scouted},
              {"confirmed_au_percent", point.confirmed}};
}

Json MeasurementJson(const CapacityMeasurement& one) {
  Json out{{"accelerators", one.probe.accelerators},
           {"confirming", one.probe.confirming},
           {"au_percent", one.au_percent},
           {"counted_steps", one.steps},
           {"seconds", one.seconds},
           {"true_MiB_per_second", one.bytes_per_s / static_cast<double>(kMiB)},
           {"client_cpu_share", one.cpu.process},
           {"machine_cpu_share", one.cpu.machine},
           {"cut", one.cut}};
  out.update(SharesJson(one.shares));
  return out;
}

Json RecordJson(const CapacityRecord& record) {
  const Command& command = record.command;
  const double mib = static_cast<double>(kMiB);
  Json out;
  out["workload"] = command.profile.workload;
  out["mlperf"] = Name(command.profile.edition);
  out["accelerator"] = command.profile.accelerator;
  out["au_threshold_percent"] = record.options.threshold_percent;
  out["confidence"] = record.options.confidence;
  out["fed"] = record.result.fed;
  out["starved"] = record.result.starved ? Json(*record.result.starved) : Json(nullptr);
  out["likely"] = record.result.likely;
  out["statement"] = CapacityStatement(record);
  out["finished"] = record.result.finished && record.ended_early.empty();
  if (!record.ended_early.empty()) out["ended_early"] = record.ended_early;
  out["limit"] = Name(record.limit.limit);
  out["limit_reason"] = record.limit.reason;
  out["max"] = record.options.max;
  out["max_reason"] = record.max_reason;
  out["repeats"] = record.options.repeats;
  out["demand_MiB_per_second_each"] = record.bytes_per_s_each / mib;
  out["true_MiB_per_second_at_fed"] = BytesPerSecond(record, record.result.fed) / mib;
  out["rules"] = Json{{"order", Name(command.rules.order)},
                      {"read_shape", Name(command.rules.read_shape)},
                      {"cache_control", Name(command.rules.cache_control)},
                      {"null_storage", command.null_storage},
                      {"seed", command.seed}};
  out["counted_steps"] = record.counted_steps;
  out["uncounted_steps_each_side"] = record.margin_steps;
  out["seconds"] = record.seconds;
  if (record.null_shares) out["null_storage_at_starved"] = SharesJson(*record.null_shares);
  out["points"] = Json::array();
  for (const CapacityPoint& point : record.result.points) out["points"].push_back(PointJson(record, point));
  out["measurements"] = Json::array();
  for (const CapacityMeasurement& one : record.measurements) {
    out["measurements"].push_back(MeasurementJson(one));
  }
  return out;
}

}  // namespace

std::string CapacityStatement(const CapacityRecord& record) {
  const CapacityResult& result = record.result;
  const std::string& name = record.command.profile.accelerator;
  const std::string early = record.ended_early.empty() ? "" : "Not finished (" + record.ended_early + "). ";
  if (result.fed == 0 && !result.starved) {
    return early + "Nothing was proved; most likely " + std::to_string(result.likely) + " x " + name +
           " are fed" + OpenText(record);
  }
  const std::string start = early + "With " + Text("%g", 100 * record.options.confidence) + " % confidence ";
  if (result.fed == 0 && result.starved == 1) {
    return start + "not even one " + name + " is fed: AU " + AuText(record, 1) + ", threshold " +
           Text("%g", record.options.threshold_percent) + " %";
  }
  if (result.starved == result.fed + 1) {
    return start + std::to_string(result.fed) + " x " + name + " are fed and " +
           std::to_string(*result.starved) + " are not (" + PassText(record, result.fed) + ", " +
           PassText(record, *result.starved) + ")";
  }
  if (result.fed == record.options.max) {
    return start + std::to_string(result.fed) + " x " + name + " are fed (" + PassText(record, result.fed) +
           "); more were not tried: " + record.max_reason;
  }
  const std::string range = OpenText(record);
  if (result.starved) {
    return start + "between " + std::to_string(result.fed) + " and " + std::to_string(*result.starved - 1) +
           " x " + name + " are fed; most likely " + std::to_string(result.likely) + range;
  }
  return start + "at least " + std::to_string(result.fed) + " x " + name + " are fed; most likely " +
         std::to_string(result.likely) + range;
}

std::string CapacityTable(const std::vector<CapacityRecord>& records) {
  std::vector<std::vector<std::string>> rows{
      {"workload", "accelerator", "threshold", "fed", "AU", "MiB/s", "too many", "AU", "limited by"}};
  for (const CapacityRecord& record : records) {
    const CapacityResult& result = record.result;
    const double mib = BytesPerSecond(record, result.fed) / static_cast<double>(kMiB);
    rows.push_back(
        {record.command.profile.workload, record.command.profile.accelerator,
         Text("%g", record.options.threshold_percent) + " %", std::to_string(result.fed),
         result.fed == 0 ? "-" : AuText(record, result.fed), result.fed == 0 ? "-" : Text("%.1f", mib),
         result.starved ? std::to_string(*result.starved) : "-",
         result.starved ? AuText(record, *result.starved) : "-", std::string(Name(record.limit.limit))});
  }
  return TextTable(rows, {.numbers_right = false});
}

std::string CapacityJson(const std::vector<CapacityRecord>& records, const std::string& hostname) {
  Json out{{"version", STOKER_VERSION}, {"hostname", hostname}, {"results", Json::array()}};
  for (const CapacityRecord& record : records) out["results"].push_back(RecordJson(record));
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stoker::bench
