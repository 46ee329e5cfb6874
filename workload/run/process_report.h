#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cache/base/result.h"
#include "workload/base/command.h"

namespace stoker::bench {

/// What one process says of itself before a run of several begins. Plain values; travels as JSON, so that a
/// process of another version can be named instead of misread.
struct ProcessReport {
  std::string version;
  std::string hostname;
  std::string problem;  // what it found wrong on its side, or ""
  /// What must be the same everywhere: [key, value].
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string fstype;  // of the data folder; "" when not known
  std::string data_folder;
  uint64_t dataset_files = 0;     // N in the names
  uint64_t first_file_bytes = 0;  // 0: no file was looked at
  double clock_ahead_s = 0;       // wall clock less process 0's; filled in by process 0
};
std::string EncodeReport(const ProcessReport& report);
/// kCorruption: not such a text.
Result<ProcessReport> DecodeReport(const std::string& text);

/// The values of `command` that all processes must share: not where data and results lie.
std::vector<std::pair<std::string, std::string>> SharedParameters(const Command& command);

/// Who is who: the processes by host.
struct ProcessCrew {
  std::vector<std::string> hosts;      // in the order of their first processes
  std::vector<uint64_t> host_of;       // [processes]
  std::vector<uint64_t> processes_on;  // [hosts]
};
ProcessCrew CrewOf(const std::vector<ProcessReport>& reports);

/// "process 2 on host b (ranks 4-5)".
std::vector<std::string> ProcessNames(const ProcessCrew& crew, uint64_t accelerators);

/// What keeps processes from running together, found before any work; `warnings` is what makes the figures
/// doubtful. One sentence each, naming process and host, and the remedy.
struct Findings {
  std::vector<std::string> faults;
  std::vector<std::string> warnings;
};
/// Versions and parameters. Pure.
Findings CheckSame(const std::vector<ProcessReport>& reports);
/// That, and even numbers of ranks. `independent`: hosts are runs of their own (v0.5). Pure.
Findings CheckCrew(const std::vector<ProcessReport>& reports, uint64_t accelerators, bool independent);
/// Own problems, datasets that differ, clocks that differ. Pure.
Findings CheckReadiness(const std::vector<ProcessReport>& reports, bool independent);

}  // namespace stoker::bench
