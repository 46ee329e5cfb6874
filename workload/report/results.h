#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/result.h"
#include "workload/base/command.h"
#include "workload/base/cpu_use.h"
#include "workload/base/daemon_counters.h"
#include "workload/base/host.h"
#include "workload/report/prerun.h"
#include "workload/report/report.h"
#include "workload/report/time_series.h"

namespace stoker::bench {

/// Folder of one run below --results-dir: flat: itself; v2.0: training/MODEL/run/TIME; v3.0:
/// DIVISION/ORG/results/SYSTEM/training/MODEL/run/TIME, TIME being YYYYMMDD_HHMMSS local. Pure but for the
/// time zone.
std::string ResultsFolder(const Command& command, const std::string& hostname, std::time_t now);

/// "closed" when the pair is in the closed list and only what the rules allow was changed, "open" when more
/// was, "whatif" for pairs outside the list and for runs that read nothing.
std::string DivisionOf(const Command& command);

/// Writes `text` to `path`, whole or not at all; makes the folders above it.
Status WriteWhole(const std::string& path, const std::string& text);

/// A folder reserved for the results of one run. RAII: lets go of the folder and removes its mark.
class ResultsDir {
 public:
  /// Makes the folder. kAlreadyExists: it holds a run already; kBusy: another run is writing to it;
  /// kInvalidArgument: it cannot be made or written. Messages name it and the remedy.
  static Result<std::unique_ptr<ResultsDir>> Reserve(const std::string& folder);
  ~ResultsDir();
  ResultsDir(const ResultsDir&) = delete;
  ResultsDir& operator=(const ResultsDir&) = delete;

  const std::string& folder() const { return folder_; }
  /// Writes `name` below the folder, whole or not at all.
  Status Write(const std::string& name, const std::string& text);

 private:
  ResultsDir(std::string folder, Fd mark) : folder_(std::move(folder)), mark_(std::move(mark)) {}
  const std::string folder_;
  const Fd mark_;  // an open, locked file: the folder can be written and is ours
};

/// What was known about caches around the run.
struct CacheState {
  std::optional<MountInfo> mount;
  uint64_t sampled_files = 0;
  std::optional<double> page_cache_before;  // share of the sampled files' bytes
  std::optional<double> page_cache_after;
  std::optional<DaemonCounters> daemon;  // counted during the run; on a Stoker mount only
  std::string daemon_note;               // why there is none although it is one
};

/// One host's part in a run of several processes.
struct HostShare {
  HostInfo host;
  uint64_t processes = 0;
  uint64_t accelerators = 0;
  uint64_t true_bytes = 0;
  double cpu_s = 0;  // user + system of its processes while epochs ran
  CpuUse cpu;        // of its busiest process
  CacheState cache;  // as its first process saw it
};

struct RunRecord {
  Command command;
  HostInfo host;
  MetricOptions metric;
  RunFigures figures;
  HarnessFigures harness;
  Demand demand;
  TrainingLog log;
  CacheState cache;
  CpuUse cpu;
  std::optional<ProbeResult> probe;    // run --probe on
  std::optional<double> self_test_au;  // %, of run --self-test
  TimeSeries series;                   // empty for runs that read nothing
  std::vector<HostShare> hosts;        // in the order of their first ranks; empty for a process alone
  std::string message_library;         // "" for a process alone
  uint64_t steps = 0;
  std::string note;  // why figures are defined but meaningless, or ""

  /// Every epoch done, every file read.
  bool complete() const;
  bool valid() const { return complete() && log.reads.errors == 0 && log.failure.ok(); }
  /// "complete", "interrupted" or "failed".
  std::string status() const;
};

/// summary.json: the public field names of the edition, and our own object "stoker". Pure.
std::string SummaryJson(const RunRecord& record);

/// Writes summary.json (last, so that its presence means the rest is there), per-epoch statistics, the
/// per-rank step times and the configuration under their public names. Returns the path of summary.json.
Result<std::string> WriteResults(ResultsDir& dir, const RunRecord& record);

}  // namespace stoker::bench
