#include "workload/report/prerun.h"

#include <algorithm>
#include <cmath>

#include "cache/base/units.h"
#include "workload/base/console.h"

namespace stoker::bench {
namespace {

constexpr double kMiBDouble = static_cast<double>(kMiB);
constexpr double kHotShare = 0.1;  // of the probed files in memory; above, the probe measured memory as well

std::string MiBs(double bytes_per_s) {
  return Text("%.1f", bytes_per_s / kMiBDouble) + " MiB/s";
}
std::string Gigabits(double bytes_per_s) {
  return Text("%.3g", 8 * bytes_per_s / 1e9) + " Gb/s";
}
double AtThreshold(const Prerun& prerun) {
  return prerun.bytes_per_s * prerun.au_threshold;
}
bool Usable(const ProbeResult& probe) {
  return probe.bytes_per_s > 0 && probe.errors == 0 && !probe.hung;
}

std::string ProbeLine(const Prerun& prerun, const ProbeResult& probe) {
  return "Available: " + MiBs(probe.bytes_per_s) + ", " +
         Text("%.0f", 100 * probe.bytes_per_s / prerun.bytes_per_s) +
         " % of the demand at AU 100 %: a probe of " + FormatBytes(probe.bytes) + " in " +
         std::to_string(probe.files) + (probe.files == 1 ? " file" : " files") + " by " +
         std::to_string(probe.threads) + (probe.threads == 1 ? " thread" : " threads") + " in " +
         Text("%.1f", probe.seconds) + " s, its pages given back";
}

}  // namespace

std::vector<std::string> PrerunLines(const Prerun& prerun) {
  std::vector<std::string> out;
  out.push_back("Required: " + MiBs(prerun.bytes_per_s) + " at AU 100 %, " + MiBs(AtThreshold(prerun)) +
                " at the threshold of " + Text("%g", 100 * prerun.au_threshold) + " %");
  if (prerun.fstype.empty() || IsRemoteFileSystem(prerun.fstype)) {
    std::string line = "Network: where the data comes over one, this is " + Gigabits(AtThreshold(prerun)) +
                       " of file bytes at the threshold, " + Gigabits(prerun.bytes_per_s) + " at AU 100 %";
    if (!prerun.links.empty()) {
      const NetworkLink& fastest = prerun.links.front();
      line += "; this host's fastest link: " + fastest.name + ", " + Gigabits(fastest.bits_per_s / 8);
    }
    out.push_back(line);
  }
  if (prerun.probe && Usable(*prerun.probe)) {
    const ProbeResult& probe = *prerun.probe;
    out.push_back(ProbeLine(prerun, probe));
    if (AtThreshold(prerun) <= 0) return out;
    const double fed =
        std::floor(probe.bytes_per_s / (AtThreshold(prerun) / static_cast<double>(prerun.accelerators)));
    out.push_back("By the probe " + Text("%.0f", fed) + (fed == 1 ? " accelerator" : " accelerators") +
                  " would be fed, and the run take about " +
                  Text("%.0f", std::max(prerun.best_seconds, prerun.bytes_of_run / probe.bytes_per_s)) +
                  " s");
  }
  return out;
}

std::vector<std::string> PrerunWarnings(const Prerun& prerun) {
  std::vector<std::string> out;
  double link = 0;
  for (const NetworkLink& one : prerun.links) link += one.bits_per_s / 8;
  if (!prerun.fstype.empty() && IsRemoteFileSystem(prerun.fstype) && link > 0 && AtThreshold(prerun) > link) {
    out.push_back("the threshold needs " + Gigabits(AtThreshold(prerun)) + ", this host's links carry " +
                  Gigabits(link) +
                  ": unless the bytes are cached on this host, AU cannot reach it; use fewer "
                  "accelerators on each host");
  }
  if (!prerun.probe) return out;
  const ProbeResult& probe = *prerun.probe;
  if (probe.hung) {
    out.push_back("the probe's reads have not come back: the storage does not answer");
  } else if (probe.errors > 0) {
    out.push_back("the probe could not read " + std::to_string(probe.errors) +
                  (probe.errors == 1 ? " file" : " files") + "; the first: " + probe.first_error);
  } else if (probe.bytes_per_s <= 0) {
    out.push_back("the probe found nothing to read");
  }
  if (!Usable(probe)) return out;
  if (probe.page_cache_before && *probe.page_cache_before >= kHotShare) {
    out.push_back(
        Text("%.0f", 100 * *probe.page_cache_before) +
        " % of the probed files lay in the page cache: the probe says more of this host's memory than "
        "of the storage");
  }
  if (probe.bytes_per_s < AtThreshold(prerun)) {
    out.push_back("the probe's " + MiBs(probe.bytes_per_s) + " are less than the " +
                  MiBs(AtThreshold(prerun)) + " that AU " + Text("%g", 100 * prerun.au_threshold) +
                  " % needs: the run is not expected to pass");
  }
  return out;
}

}  // namespace stoker::bench
