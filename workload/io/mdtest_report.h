#pragma once

#include <string>

#include "workload/io/mdtest.h"

namespace stoker::bench {

/// mdtest's table of rates (items/s) or, with `times`, of seconds: Max, Min, Mean, Std Dev over the
/// iterations. Phases that did not run have no row. Pure.
std::string MdSummaryText(const MdtestOptions& options, const std::vector<MdPhaseResult>& phases, bool times);

/// Everything of a run. `status`: "complete", "partial" or "failed".
std::string MdJson(const MdtestOptions& options, const MdOutcome& outcome, const std::string& status,
                   const std::string& command_line);

}  // namespace stoker::bench
