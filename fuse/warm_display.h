#pragma once

#include <cstddef>
#include <string>

#include "prefetch/warmer.h"

namespace stoker {

/// "1:02:03" or "2:03"; "--:--" when negative.
std::string FormatClock(double seconds);
/// "1.2 GiB/s".
std::string FormatRate(double bytes_per_second);
/// Between 0 and 1; 0 while nothing is known. Bytes count, files when there are no bytes. Never 1 before all
/// is done.
double WarmFraction(const WarmProgress& progress);

/// One line for a terminal of `columns`, never wider; no newline.
std::string WarmBar(const WarmProgress& progress, size_t columns);
/// One line for a log or a pipe, without a newline.
std::string WarmLine(const WarmProgress& progress);
/// What became of the job, in one sentence.
std::string WarmSummary(const WarmProgress& progress);

}  // namespace stoker
