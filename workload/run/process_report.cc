#include "workload/run/process_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cache/base/units.h"
#include "workload/base/console.h"

namespace stoker::bench {
namespace {

/// The rules of v0.5 want the hosts of a run started within it.
constexpr double kClockTolerance_s = 10;
constexpr size_t kNamed = 4;  // processes in one sentence

std::string NameOf(size_t process, const ProcessReport& report) {
  return "process " + std::to_string(process) + " on host " + report.hostname;
}

/// "process 1 on host b", "process 1 on host b and 3 more".
std::string Some(const std::vector<size_t>& processes, const std::vector<ProcessReport>& reports) {
  std::string out;
  for (size_t i = 0; i < processes.size() && i < kNamed; ++i) {
    out += (i == 0 ? "" : ", ") + NameOf(processes[i], reports[processes[i]]);
  }
  if (processes.size() > kNamed) out += " and " + std::to_string(processes.size() - kNamed) + " more";
  return out;
}

std::string Quoted(const std::string& text) {
  return "\"" + text + "\"";
}

/// Processes whose `value` is not that of the process before all others, by value.
template <typename Value>
std::map<std::string, std::vector<size_t>> Others(const std::vector<ProcessReport>& reports, size_t first,
                                                  Value value) {
  std::map<std::string, std::vector<size_t>> out;
  for (size_t i = 0; i < reports.size(); ++i) {
    if (value(reports[i]) != value(reports[first])) out[value(reports[i])].push_back(i);
  }
  return out;
}

std::string Parameter(const ProcessReport& report, const std::string& key) {
  for (const auto& [name, value] : report.parameters) {
    if (name == key) return value;
  }
  return "";
}

/// "host a 2, host b 1".
std::string Counts(const ProcessCrew& crew) {
  std::string out;
  for (size_t i = 0; i < crew.hosts.size() && i < 2 * kNamed; ++i) {
    out += (i == 0 ? "host " : ", host ") + crew.hosts[i] + " has " + std::to_string(crew.processes_on[i]);
  }
  if (crew.hosts.size() > 2 * kNamed) out += ", ...";
  return out;
}

void CheckShares(const ProcessCrew& crew, uint64_t processes, uint64_t accelerators, Findings& out) {
  const bool uneven = std::any_of(crew.processes_on.begin(), crew.processes_on.end(),
                                  [&](uint64_t count) { return count != crew.processes_on.front(); });
  if (uneven) {
    out.faults.push_back(
        "the hosts have different numbers of processes (" + Counts(crew) +
        "), so their accelerators would be uneven; start the same number on each (hosts file, "
        "-ppn, --ntasks-per-node)");
  }
  if (accelerators % processes == 0) return;
  const uint64_t less = accelerators / processes * processes;
  out.faults.push_back("--num-accelerators: " + std::to_string(accelerators) + " (the total) over " +
                       std::to_string(processes) + " processes is not even; use " +
                       (less > 0 ? std::to_string(less) + " or " : "") + std::to_string(less + processes) +
                       ", or another number of processes");
}

}  // namespace

std::string EncodeReport(const ProcessReport& report) {
  nlohmann::json out{{"version", report.version},
                     {"hostname", report.hostname},
                     {"problem", report.problem},
                     {"parameters", report.parameters},
                     {"fstype", report.fstype},
                     {"data_folder", report.data_folder},
                     {"dataset_files", report.dataset_files},
                     {"first_file_bytes", report.first_file_bytes}};
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<ProcessReport> DecodeReport(const std::string& text) {
  try {
    const nlohmann::json in = nlohmann::json::parse(text);
    ProcessReport out;
    out.version = in.at("version").get<std::string>();
    out.hostname = in.at("hostname").get<std::string>();
    out.problem = in.at("problem").get<std::string>();
    out.parameters = in.at("parameters").get<std::vector<std::pair<std::string, std::string>>>();
    out.fstype = in.at("fstype").get<std::string>();
    out.data_folder = in.at("data_folder").get<std::string>();
    out.dataset_files = in.at("dataset_files").get<uint64_t>();
    out.first_file_bytes = in.at("first_file_bytes").get<uint64_t>();
    return out;
  } catch (const nlohmann::json::exception& error) {
    return Status(Code::kCorruption, std::string("not the report of a process: ") + error.what());
  }
}

std::vector<std::pair<std::string, std::string>> SharedParameters(const Command& command) {
  const auto number = [](double value) { return Text("%.17g", value); };
  std::vector<std::pair<std::string, std::string>> out = {
      {"--workload", command.profile.workload},
      {"--mlperf", std::string(Name(command.profile.edition))},
      {"--accelerator", command.profile.accelerator},
      {"--num-accelerators", std::to_string(command.accelerators)},
      {"--seed", std::to_string(command.seed)},
      {"--file-layout", std::string(Name(command.rules.file_layout))},
      {"--order", std::string(Name(command.rules.order))},
      {"--read-shape", std::string(Name(command.rules.read_shape))},
      {"--read-piece", std::to_string(command.read_piece_bytes)},
      {"--metric", std::string(Name(command.rules.metric))},
      {"--results-layout", std::string(Name(command.rules.results_layout))},
      {"--cache-control", std::string(Name(command.rules.cache_control))},
      {"--null", command.null_storage ? "yes" : "no"},
      {"--step-timeout", FormatDuration(command.step_timeout)},
      {"record bytes", number(command.profile.record_bytes)}};
  for (const auto& [key, value] : EffectiveParams(command.profile)) {
    if (key != "dataset.data_folder") out.emplace_back("--param " + key, value);
  }
  return out;
}

ProcessCrew CrewOf(const std::vector<ProcessReport>& reports) {
  ProcessCrew out;
  for (const ProcessReport& report : reports) {
    const auto found = std::find(out.hosts.begin(), out.hosts.end(), report.hostname);
    const auto host = static_cast<size_t>(found - out.hosts.begin());
    if (found == out.hosts.end()) {
      out.hosts.push_back(report.hostname);
      out.processes_on.push_back(0);
    }
    out.host_of.push_back(host);
    ++out.processes_on[host];
  }
  return out;
}

std::vector<std::string> ProcessNames(const ProcessCrew& crew, uint64_t accelerators) {
  std::vector<std::string> out;
  const uint64_t each = accelerators / crew.host_of.size();
  for (size_t i = 0; i < crew.host_of.size(); ++i) {
    const uint64_t first = i * each;
    std::string ranks;
    if (each == 1) ranks = " (rank " + std::to_string(first) + ")";
    if (each > 1) ranks = " (ranks " + std::to_string(first) + "-" + std::to_string(first + each - 1) + ")";
    out.push_back("process " + std::to_string(i) + " on host " + crew.hosts[crew.host_of[i]] + ranks);
  }
  return out;
}

Findings CheckSame(const std::vector<ProcessReport>& reports) {
  Findings out;
  const ProcessReport& first = reports.front();
  for (const auto& [version, who] :
       Others(reports, 0, [](const ProcessReport& one) { return one.version; })) {
    out.faults.push_back(Some(who, reports) + " runs stoker-bench " + version + ", but " + NameOf(0, first) +
                         " " + first.version + "; install the same version on every host");
  }
  if (!out.faults.empty()) return out;  // other versions may have other parameters
  for (const auto& parameter : first.parameters) {
    const std::string& key = parameter.first;
    for (const auto& [value, who] :
         Others(reports, 0, [&](const ProcessReport& one) { return Parameter(one, key); })) {
      out.faults.push_back(key + " is " + Quoted(value) + " on " + Some(who, reports) + ", but " +
                           Quoted(parameter.second) + " on " + NameOf(0, first) +
                           "; give every process the same command line");
    }
  }
  return out;
}

Findings CheckCrew(const std::vector<ProcessReport>& reports, uint64_t accelerators, bool independent) {
  Findings out = CheckSame(reports);
  if (!out.faults.empty()) return out;
  const ProcessCrew crew = CrewOf(reports);
  CheckShares(crew, reports.size(), accelerators, out);
  if (independent && crew.hosts.size() == 1 && reports.size() > 1) {
    out.warnings.push_back("all " + std::to_string(reports.size()) + " processes are on host " +
                           crew.hosts[0] + ": one host, one result");
  }
  return out;
}

Findings CheckReadiness(const std::vector<ProcessReport>& reports, bool independent) {
  Findings out;
  std::map<std::string, std::vector<size_t>> problems;
  size_t first = reports.size();  // with a dataset
  for (size_t i = 0; i < reports.size(); ++i) {
    if (!reports[i].problem.empty()) problems[reports[i].problem].push_back(i);
    if (reports[i].problem.empty() && first == reports.size()) first = i;
  }
  for (const auto& [problem, who] : problems) out.faults.push_back(Some(who, reports) + ": " + problem);
  if (first < reports.size()) {
    const ProcessReport& good = reports[first];
    for (size_t i = first + 1; i < reports.size(); ++i) {
      const ProcessReport& one = reports[i];
      // Independent hosts have datasets of their own.
      if (independent || !one.problem.empty()) continue;
      if (one.dataset_files != good.dataset_files || one.first_file_bytes != good.first_file_bytes) {
        out.faults.push_back(NameOf(i, one) + " finds another dataset in " + one.data_folder + " (" +
                             std::to_string(one.dataset_files) + " files, the first of " +
                             std::to_string(one.first_file_bytes) + " bytes) than " + NameOf(first, good) +
                             " in " + good.data_folder + " (" + std::to_string(good.dataset_files) + ", " +
                             std::to_string(good.first_file_bytes) +
                             " bytes); is the same storage mounted there?");
      }
    }
    for (const auto& [fstype, who] : Others(reports, first, [&](const ProcessReport& one) {
           return one.problem.empty() ? one.fstype : good.fstype;
         })) {
      out.warnings.push_back("the data folder of " + Some(who, reports) + " is on " +
                             (fstype.empty() ? "an unknown file system" : fstype) + ", that of " +
                             NameOf(first, good) + " on " + good.fstype + ": is a mount missing?");
    }
  }
  for (size_t i = 0; i < reports.size(); ++i) {
    const double ahead = reports[i].clock_ahead_s;
    if (std::abs(ahead) <= kClockTolerance_s) continue;
    const std::string text = "the clock of " + NameOf(i, reports[i]) + " is " +
                             Text("%.1f", std::abs(ahead)) + " s " + (ahead > 0 ? "ahead of" : "behind") +
                             " that of " + NameOf(0, reports[0]);
    if (independent) {
      out.faults.push_back(text + "; start times of a v0.5 run must lie within 10 s: set the clocks (NTP)");
    } else {
      out.warnings.push_back(text + "; times in logs of the hosts will not fit together");
    }
  }
  return out;
}

}  // namespace stoker::bench
