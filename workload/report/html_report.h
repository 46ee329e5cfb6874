#pragma once

#include <string>
#include <vector>

#include "workload/report/submission.h"

namespace stoker::bench {

/// One page about all of it: verdicts in words, a comparison when there are several runs, and for each run
/// AU per epoch and accelerator, throughput, latency and cache over time, and the configuration. It fetches
/// nothing and runs no script (its own policy forbids both); every text from a file is escaped. An empty
/// `title` is replaced by what was run. Pure.
std::string HtmlReport(const std::vector<Submission>& submissions, const std::string& title);

}  // namespace stoker::bench
