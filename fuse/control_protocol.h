#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/metrics.h"
#include "cache/base/result.h"
#include "cache/store/object_store.h"
#include "fuse/session.h"
#include "prefetch/fetch_engine.h"
#include "prefetch/warmer.h"

namespace stoker {

/// What a daemon says of itself.
struct DaemonStatus {
  int64_t pid = 0;
  std::string version;
  std::string ufs;
  std::string mountpoint;
  std::string cache_dir;              // of several: the paths with ", " between them
  std::vector<DirectoryReport> dirs;  // each cache directory; empty from a daemon older than this command
  std::string log_file;               // "" = stderr
  double uptime_seconds = 0;
  bool stopping = false;
  PassthroughState passthrough;
  StoreUsage cache;
  PolicyReport policy;
  FetchEngineState fetch;
  uint64_t warm_jobs_running = 0;
  std::map<std::string, int64_t> metrics;  // by field name of Metrics
};

/// JSON texts of the control socket. Names that are not UTF-8 appear with replacement characters; requests
/// carry them as
/// {"hex": "…"}. Decoding: kInvalidArgument says what is missing or of the wrong type.
std::string EncodeStatus(const DaemonStatus& status);
Result<DaemonStatus> DecodeStatus(std::string_view json);

/// Failures from index `failures_from` on; the others were seen before.
std::string EncodeProgress(const WarmProgress& progress, size_t failures_from);
std::string EncodeJobs(const std::vector<WarmProgress>& jobs);
Result<WarmProgress> DecodeProgress(std::string_view json);
Result<std::vector<WarmProgress>> DecodeJobs(std::string_view json);
std::string_view StateName(WarmProgress::State state);

/// {"paths": [...]}: paths inside the UFS, "" for all of it.
std::string EncodeWarmRequest(const std::vector<std::string>& paths);
Result<std::vector<std::string>> DecodeWarmRequest(std::string_view json);
std::string EncodeJobId(WarmJobId id);
Result<WarmJobId> DecodeJobId(std::string_view json);

/// {"error": {"code": …, "message": …}}
std::string EncodeError(const Status& status);
/// The Status inside an error body; kInternal with the body's beginning when it is not one of ours.
Status DecodeError(long http_status, std::string_view json);

/// Wraps the bodies of several daemons: {"mounts": [...]}. Each must be a JSON text.
std::string JoinStatuses(const std::vector<std::string>& bodies);

/// One line of `stoker warm --json`.
std::string WarmStartEvent(WarmJobId job, const std::string& mountpoint,
                           const std::vector<std::string>& paths);
std::string WarmProgressEvent(const WarmProgress& progress);
std::string WarmFailureEvent(WarmJobId job, const std::string& path, const std::string& reason);
std::string WarmDoneEvent(const WarmProgress& progress);

}  // namespace stoker
