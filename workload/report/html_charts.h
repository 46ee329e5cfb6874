#pragma once

#include <string>
#include <vector>

#include "workload/report/run_summary.h"

namespace stoker::bench {

/// A run and what it is called on the page.
struct NamedRun {
  std::string name;
  const RunSummary* run = nullptr;
};

/// Figures about one run, as markup; "" when the run did not record what they need. Pure.
std::string AuFigure(const RunSummary& run, double threshold_percent);
std::string ThroughputFigure(const RunSummary& run);
std::string LatencyFigure(const RunSummary& run);
/// UFS bytes, and hits and misses: two figures, for runs on a Stoker mount.
std::string CacheFigures(const RunSummary& run);
/// Every accelerator's AU in every epoch as a table with coloured cells; the lowest ones when there are many.
std::string AcceleratorTable(const RunSummary& run, double threshold_percent);
/// Percentiles of the whole run.
std::string LatencyTable(const RunSummary& run);

/// Several runs in one picture.
std::string CompareAuFigure(const std::vector<NamedRun>& runs, double threshold_percent);
std::string CompareThroughputFigure(const std::vector<NamedRun>& runs);

}  // namespace stoker::bench
