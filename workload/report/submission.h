#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workload/base/rules.h"
#include "workload/report/run_summary.h"
#include "workload/report/validity.h"

namespace stoker::bench {

/// One run over all its hosts. v0.5: a summary per host, independent runs that were started together, their
/// throughputs added. Later: one summary.
struct CombinedRun {
  std::string name;  // its folder's
  std::vector<RunSummary> hosts;
  bool warm_up = false;  // does not count
  double samples_per_s = 0;
  double mib_per_s = 0;   // nominal
  double au_percent = 0;  // v0.5: the lowest of the hosts'; each has to pass
  uint64_t accelerators = 0;
};

/// Runs that belong together: same place, round, workload and accelerator.
struct Submission {
  std::string folder;  // what the runs have in common
  Edition edition = Edition::kV30;
  std::string model, accelerator;
  std::vector<CombinedRun> runs;
  uint64_t counted = 0;                        // runs without warm-up
  double samples_mean = 0, samples_stdev = 0;  // over counted runs; population deviation
  double mib_mean = 0, mib_stdev = 0;
  double au_mean = 0, au_stdev = 0;
  bool what_if = false;
  std::vector<Finding> findings;
  ResultClass result = ResultClass::kInvalid;
};

/// The runs found below one folder that the user named.
struct FoundRuns {
  std::string folder;
  std::vector<RunSummary> runs;
};

/// Groups runs as each round's own report does, adds hosts up, and checks everything that results can tell:
/// number of runs, equality, hosts, and every run by itself (CheckRun). `edition` overrides what the
/// summaries say. Pure but for the profiles.
std::vector<Submission> Combine(const std::vector<FoundRuns>& found, std::optional<Edition> edition,
                                const std::vector<std::string>& profile_dirs);

/// What the round calls for: v0.5 and v1.0: 5; v2.0: 5 and perhaps a warm-up; v3.0: 6, the first a warm-up.
inline constexpr uint64_t kCountedRuns = 5;

}  // namespace stoker::bench
