#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "workload/base/rules.h"
#include "workload/report/run_summary.h"

namespace stoker::bench {

/// Where the public rules put a result.
enum class ResultClass : uint8_t { kClosed, kOpen, kWhatIf, kInvalid };
std::string_view Name(ResultClass result);  // "CLOSED", "OPEN", "WHAT-IF", "INVALID"

/// What one check found. kInvalid: no division takes it. kOpen: OPEN does, CLOSED does not. kNote: worth
/// knowing, decides nothing.
enum class Severity : uint8_t { kInvalid, kOpen, kNote };

struct Finding {
  Severity severity = Severity::kNote;
  std::string rule;   // which, in a few words, e.g. "dataset size"
  std::string where;  // run or host it is about, "" for all
  std::string text;   // what was found, what is allowed, what to do
};

/// What may be done with one configuration key under an edition (table 8.3 of the public rules, restated).
enum class OverrideClass : uint8_t { kClosed, kOpen, kNeither };
OverrideClass ClassOfOverride(Edition edition, std::string_view key);

/// Checks of one run on its own: whole, AU, overrides, dataset size, page cache. `profile_dirs` as for
/// LoadProfile(): the nominal figures come from there. Reads profiles, nothing else.
std::vector<Finding> CheckRun(const RunSummary& run, Edition edition, const std::string& where,
                              const std::vector<std::string>& profile_dirs);

/// INVALID beats WHAT-IF beats OPEN beats CLOSED.
ResultClass ClassOf(const std::vector<Finding>& findings, bool what_if);

/// The verdict in a sentence or two, e.g. "OPEN: valid, but not CLOSED, because …".
std::string ClassText(ResultClass result, const std::vector<Finding>& findings);

}  // namespace stoker::bench
