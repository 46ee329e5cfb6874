#pragma once

#include <string>
#include <string_view>

#include "cache/base/result.h"
#include "fuse/cache_jobs.h"

namespace stoker {

// JSON texts of evict and verify on the control socket; conventions as in control_protocol.h.

/// {"paths": [...], "bytes_per_second": N}; the second only where it is not 0.
std::string EncodeCacheRequest(const CacheJobRequest& request);
/// The kind comes with the path of the request.
Result<CacheJobRequest> DecodeCacheRequest(CacheJobRequest::Kind kind, std::string_view json);
/// Also what --json prints at the end.
std::string EncodeCacheProgress(const CacheJobProgress& progress);
Result<CacheJobProgress> DecodeCacheProgress(std::string_view json);
std::string_view StateName(CacheJobProgress::State state);

}  // namespace stoker
