#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"

namespace stoker::bench {

/// A round of the public storage benchmark. It fixes several things at once (Rules below).
enum class Edition : uint8_t { kV05, kV10, kV20, kV30 };

/// In what order a rank reads samples, epoch after epoch (sampler.h).
enum class AccessOrder : uint8_t { kV1, kV2, kV3 };

/// Which system calls read one file (reader.h).
enum class ReadShape : uint8_t { kNpz, kWhole, kODirect };

/// Where the files of one run go below --results-dir (results.h).
enum class ResultsLayout : uint8_t { kFlat, kV2, kV3 };

/// What becomes of the kernel's page cache. kFadvise: a file's pages are given back as soon as it was read.
enum class CacheControl : uint8_t { kNone, kFadvise };

/// "v0.5", "v1.0", "v2.0", "v3.0" and so on; kInvalidArgument lists the allowed names and the nearest one.
Result<Edition> ParseEdition(std::string_view flag, std::string_view text);
Result<AccessOrder> ParseAccessOrder(std::string_view flag, std::string_view text);
Result<ReadShape> ParseReadShape(std::string_view flag, std::string_view text);
Result<ResultsLayout> ParseResultsLayout(std::string_view flag, std::string_view text);
Result<CacheControl> ParseCacheControl(std::string_view flag, std::string_view text);

std::string_view Name(Edition edition);
std::string_view Name(AccessOrder order);
std::string_view Name(ReadShape shape);
std::string_view Name(ResultsLayout layout);
std::string_view Name(CacheControl control);

/// All that an edition decides. Each field can be overridden by a flag of its own.
struct Rules {
  Edition datasize = Edition::kV30;     // formula for the smallest dataset (datasize.h)
  Edition file_layout = Edition::kV30;  // folders, file names, element type (dataset.h)
  Edition loop = Edition::kV30;         // whose input pipeline, where rounds differ (stream_plan.h)
  AccessOrder order = AccessOrder::kV3;
  ReadShape read_shape = ReadShape::kWhole;
  bool read_labels = false;         // kNpz only: y.npy is read as well
  Edition metric = Edition::kV30;   // windows and formulas of AU and throughput (report.h)
  Edition results = Edition::kV30;  // fields of summary.json (results.h)
  ResultsLayout results_layout = ResultsLayout::kV3;
  CacheControl cache_control = CacheControl::kFadvise;
};
Rules RulesOf(Edition edition);

/// Every edition, oldest first.
const std::vector<Edition>& AllEditions();

/// `"x" is not one of a, b, c; did you mean "b"?`: the sentence for a value that is not in a closed list.
std::string NotOneOf(std::string_view what, std::string_view value, const std::vector<std::string>& allowed);

/// Items joined by ", ".
std::string Join(const std::vector<std::string>& items);

}  // namespace stoker::bench
