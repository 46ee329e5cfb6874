#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workload/base/network.h"

namespace stoker::bench {

/// What a quick look at the storage gave.
struct ProbeResult {
  uint64_t files = 0;    // opened
  uint64_t bytes = 0;    // read
  uint64_t threads = 0;  // that read at the same time
  double seconds = 0;
  double bytes_per_s = 0;
  std::optional<double> page_cache_before;  // share of a sample of these files that lay in memory
  uint64_t errors = 0;
  std::string first_error;
  bool hung = false;  // some threads did not come back: the storage does not answer
};

/// What is asked of the storage, and what is known of it before the run.
struct Prerun {
  double bytes_per_s = 0;     // demand at AU 100 %
  double au_threshold = 0.9;  // 0..1
  uint64_t accelerators = 1;
  double best_seconds = 0;  // all epochs, accelerators never waiting
  double bytes_of_run = 0;  // nominal, all epochs
  std::string fstype;       // of the data; "": not known
  std::vector<NetworkLink> links;
  std::optional<ProbeResult> probe;
};

/// Required bandwidth, link, available bandwidth, duration: a line each. Pure.
std::vector<std::string> PrerunLines(const Prerun& prerun);
/// Why the run cannot pass, or the probe says little: a sentence each. Pure.
std::vector<std::string> PrerunWarnings(const Prerun& prerun);

}  // namespace stoker::bench
