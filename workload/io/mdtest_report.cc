#include "workload/io/mdtest_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "workload/base/host.h"
#include "workload/io/statistics.h"

namespace stoker::bench {
namespace {

std::vector<double> ValuesOf(const std::vector<MdPhaseResult>& phases, MdPhase phase, bool times) {
  std::vector<double> values;
  for (const MdPhaseResult& result : phases) {
    if (result.phase == phase) values.push_back(times ? result.seconds : result.rate());
  }
  return values;
}

}  // namespace

std::string MdSummaryText(const MdtestOptions& options, const std::vector<MdPhaseResult>& phases,
                          bool times) {
  char line[256];
  std::string text = std::string("SUMMARY ") + (times ? "time" : "rate") + ": (of " +
                     std::to_string(options.iterations) +
                     " iterations)\n"
                     "   Operation                      Max            Min           Mean        Std Dev\n"
                     "   ---------                      ---            ---           ----        -------";
  for (size_t i = 0; i < kMdPhases; ++i) {
    const MdPhase phase = static_cast<MdPhase>(i);
    const std::vector<double> values = ValuesOf(phases, phase, times);
    if (values.empty()) continue;
    const Spread spread = SpreadOf(values);
    std::snprintf(line, sizeof line, "\n   %-26s: %14.3f %14.3f %14.3f %14.3f", MdPhaseName(phase),
                  spread.max, spread.min, spread.mean, spread.deviation);
    text += line;
    double seconds = 0;
    double items = 0;
    for (const MdPhaseResult& result : phases) {
      if (result.phase != phase) continue;
      seconds += result.stonewall_s;
      items += static_cast<double>(result.stonewall_items);
    }
    if (seconds > 0) {
      std::snprintf(line, sizeof line, "\n   %-26s: %14s %14s %14.3f %14s",
                    phase == MdPhase::kDirCreate ? "Dir create (stonewall)" : "File create (stonewall)", "NA",
                    "NA", times ? seconds / static_cast<double>(values.size()) : items / seconds, "NA");
      text += line;
    }
  }
  return text;
}

std::string MdJson(const MdtestOptions& options, const MdOutcome& outcome, const std::string& status,
                   const std::string& command_line) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["tool"] = "stoker-bench mdtest";
  json["version"] = STOKER_VERSION;
  json["Command line"] = command_line;
  json["Machine"] = ReadHostInfo().hostname;
  json["status"] = status;
  if (!outcome.failure.ok()) json["failure"] = outcome.failure.message();
  json["Options"] = {{"path", options.folder},
                     {"tasks", options.tasks},
                     {"itemsPerTask", options.shape.items()},
                     {"itemsPerDirectory", options.shape.items_per_dir},
                     {"trees", options.shape.loops},
                     {"branch", options.branch},
                     {"depth", options.depth},
                     {"leafOnly", options.leaf_only},
                     {"uniqueDirPerTask", options.own_folder},
                     {"stride", options.stride},
                     {"iterations", options.iterations},
                     {"writeBytes", options.write_bytes},
                     {"readBytes", options.read_bytes},
                     {"stonewall", options.stonewall_s}};
  json["Results"] = Json::array();
  for (const MdPhaseResult& result : outcome.phases) {
    json["Results"].push_back({{"phase", MdPhaseName(result.phase)},
                               {"iter", result.iteration},
                               {"items", result.items},
                               {"seconds", result.seconds},
                               {"rate", result.rate()},
                               {"stonewallSeconds", result.stonewall_s},
                               {"stonewallItems", result.stonewall_items}});
  }
  json["summary"] = Json::array();
  for (size_t i = 0; i < kMdPhases; ++i) {
    const MdPhase phase = static_cast<MdPhase>(i);
    const std::vector<double> rates = ValuesOf(outcome.phases, phase, false);
    if (rates.empty()) continue;
    const Spread rate = SpreadOf(rates);
    const Spread time = SpreadOf(ValuesOf(outcome.phases, phase, true));
    json["summary"].push_back({{"phase", MdPhaseName(phase)},
                               {"rateMax", rate.max},
                               {"rateMin", rate.min},
                               {"rateMean", rate.mean},
                               {"rateStdDev", rate.deviation},
                               {"secondsMean", time.mean}});
  }
  json["wrongFiles"] = outcome.wrong_files;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stoker::bench
