#pragma once

#include <string>
#include <vector>

#include "workload/report/submission.h"

namespace stoker::bench {

/// mlperf_storage_report.json of v0.5 and v1.0, with their field names and types (the number of accelerators
/// is a text there). Pure.
std::string PublicReportJson(const Submission& submission);

/// results.json of v2.0 and later: a list of runs, each with its parameters, metrics and class; and the same
/// flattened, one line a run. Pure.
std::string ResultsJson(const std::vector<Submission>& submissions);
std::string ResultsCsv(const std::vector<Submission>& submissions);

/// Everything this report knows: groups, their figures, every finding. Pure.
std::string FullReportJson(const std::vector<Submission>& submissions);

/// The table and the verdicts for the console. Pure.
std::string ReportText(const std::vector<Submission>& submissions);

/// Whether the round's own report would have been written: it refuses what breaks its checks.
bool PublicReportAllowed(const Submission& submission);

}  // namespace stoker::bench
