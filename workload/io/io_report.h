#pragma once

#include <string>
#include <vector>

#include "workload/io/io_options.h"
#include "workload/io/io_test.h"
#include "workload/io/statistics.h"

namespace stoker::bench {

/// One row of the summary: an access over all repetitions.
struct IoSummary {
  Access access = Access::kWrite;
  Spread bandwidth;  // bytes/s; the mean is that of the repetitions' bandwidths
  Spread rate;       // transfers/s over the whole repetition (open to close)
  double mean_s = 0;
  uint64_t bytes = 0;  // of the first repetition
  // Means over the repetitions; 0 without -O stoneWallingWearOut=1.
  double stonewall_s = 0;
  double stonewall_bytes = 0;
};
/// Of write and of read, those that ran. Pure.
std::vector<IoSummary> SummarizeIo(const IoOptions& options, const std::vector<PhaseResult>& phases);

/// A number as IOR prints it in ten columns: six decimals below 1, two below 3600, none above.
std::string TenColumns(double value);

// The texts of a run; all end without a line end, all are pure.
std::string IoOptionsText(const IoOptions& options);
std::string IoTableHead();
std::string IoTableRow(const IoOptions& options, const PhaseResult& phase);
std::string IoRemoveRow(double seconds, uint64_t repetition);
/// "Max Write: 419.58 MiB/sec (439.96 MB/sec)" and the same of read.
std::string IoMaxText(const std::vector<IoSummary>& summaries);
/// Columns and widths of current IOR.
std::string IoSummaryText(const IoOptions& options, const std::vector<IoSummary>& summaries);
/// Columns of IOR before 3.0, as older reports show them: total bytes instead of MiB, no stonewall columns,
/// ending with test number and API.
std::string IoOldSummaryText(const IoOptions& options, const std::vector<IoSummary>& summaries);

/// Everything of a run as JSON, with the names of IOR's own JSON where it has one. `status`: "complete",
/// "partial" or "failed".
std::string IoJson(const IoOptions& options, const IoOutcome& outcome, const IoNotes& notes,
                   const std::string& status, const std::string& command_line);

}  // namespace stoker::bench
