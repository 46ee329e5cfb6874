#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/base/result.h"
#include "workload/base/rules.h"
#include "workload/report/time_series.h"

namespace stoker::bench {

/// Percentiles of a whole run, microseconds.
struct LatencySummary {
  uint64_t count = 0;
  double p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

/// One epoch as our own runs tell it.
struct EpochSummary {
  double unix_start = 0;
  double unix_end = 0;
  bool complete = false;
  double au_percent = 0;
  double samples_per_s = 0;
  std::vector<double> au_per_accelerator;
};

/// What only our own summaries have (their object "stoker").
struct OwnSummary {
  std::string version;
  std::string status;  // "complete", "interrupted", "failed"
  bool valid = false;
  std::string failure, note, first_read_error;
  std::string division;  // as the run saw itself: "closed", "open", "whatif"
  std::string data_dir, mount, fstype;
  bool stoker_mount = false;
  bool null_storage = false;
  bool client_cpu_limits = false;
  uint64_t seed = 0;
  double au_threshold_percent = 0;
  uint64_t steps_per_epoch = 0;
  uint64_t read_errors = 0;
  uint64_t files_read = 0;
  uint64_t true_bytes = 0;
  double true_mib_per_s = 0, demand_mib_per_s = 0;
  double cpu_s_per_gb = 0, step_overhead_us = 0, client_cpu_share = 0;
  uint64_t memory_bytes = 0;  // of the host; v0.5's public fields do not have it
  std::optional<double> page_cache_before, page_cache_after;
  LatencySummary file_us, call_us;
  std::vector<EpochSummary> epochs;
  std::vector<std::pair<std::string, std::string>> rules;
  std::vector<std::pair<std::string, std::string>> parameters;  // effective
  std::vector<std::string> rule_overrides;                      // flags, e.g. "--order"
  std::vector<std::pair<std::string, std::string>> daemon;      // its counters over the run, as text
};

/// One summary.json, ours or the public tool's, with what lies beside it. Plain values.
struct RunSummary {
  std::string folder;  // that holds it
  std::vector<std::string>
      below;  // folder, relative to what was asked for: its parts, none when it is the same
  std::string model, accelerator;  // "" when nothing tells
  std::optional<Edition> edition;  // when the summary or its place tells
  std::string start, end;          // ISO, local time of the host
  double start_unix = 0;           // 0 when `start` is no time
  uint64_t accelerators = 0;
  uint64_t hosts = 1;
  std::string hostname;
  std::vector<double> au_percent, samples_per_s;  // per epoch
  double au_mean = 0, au_stdev = 0;
  double samples_mean = 0, samples_stdev = 0;
  double mib_mean = 0, mib_stdev = 0;  // nominal
  bool meets_expectation = false;
  uint64_t files = 0, samples_per_file = 0, epochs = 0;
  std::vector<double> host_memory_gb;       // units of 1024^3 bytes
  std::vector<uint64_t> potential_caching;  // [hosts] 1: an epoch's bytes fit in the host's memory
  std::vector<std::string> overrides;       // "key=value"
  std::string metric_json;                  // the object "metric" as it stands
  std::optional<OwnSummary> own;
  std::optional<TimeSeries> series;
  std::string series_fault;  // why timeseries.json beside it is not in `series`, or ""
};

/// Reads FOLDER/summary.json, the overrides in configs/ or dlio_config/, and timeseries.json. Errors name the
/// file, and the field that is missing or wrong. kNotFound: there is no summary.json.
Result<RunSummary> LoadRunSummary(const std::string& folder);

/// Every run at or below `folder`, sorted by path, links not followed. kNotFound: none, with a hint how
/// results look; else the first summary that cannot be read.
Result<std::vector<RunSummary>> FindRuns(const std::string& folder);

}  // namespace stoker::bench
