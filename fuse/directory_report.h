#pragma once

#include <string>
#include <vector>

#include "cache/store/object_store.h"

namespace stoker {

/// The paths with ", " between them.
std::string CacheDirsText(const std::vector<std::string>& dirs);

/// Prometheus text of what is known of each cache directory, label `dir`: stoker_cache_dir_up (1, or 0 when
/// down), stoker_cache_dir_used_bytes, stoker_cache_dir_limit_bytes and stoker_cache_dir_objects.
std::string RenderDirectoryMetrics(const std::vector<DirectoryReport>& dirs);

}  // namespace stoker
