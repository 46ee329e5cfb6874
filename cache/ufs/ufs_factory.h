#pragma once

#include <memory>
#include <string>

#include "cache/base/metrics.h"
#include "cache/ufs/ufs.h"

namespace stoker {

/// "/path" or "file:///path" → a driver for that tree. kInvalidArgument names an unknown scheme and the ones
/// there are; kNotFound / kNotADirectory name a path that cannot be a UFS.
Result<std::unique_ptr<Ufs>> MakeUfs(const std::string& uri, Metrics& metrics);

}  // namespace stoker
