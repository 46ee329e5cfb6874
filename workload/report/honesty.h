#pragma once

#include <string>
#include <vector>

#include "workload/report/results.h"

namespace stoker::bench {

/// Lines about who did the work: the client's CPU, and on a Stoker mount where the bytes came from. Pure.
std::vector<std::string> HonestyLines(const RunRecord& record);
/// What makes a finished run's figures doubtful: the client was the limit. One sentence each. Pure.
std::vector<std::string> HonestyWarnings(const RunRecord& record);

}  // namespace stoker::bench
