#pragma once

#include <string>

#include "cache/base/status.h"

namespace stoker::bench {

/// Whether results can be written to `path` later, for `flag`. kAlreadyExists: there are some, which are
/// never overwritten; other errors: its folder is not there or not writable. An empty path is fine.
Status CheckResultFile(const std::string& flag, const std::string& path);
/// Writes `text` to `path`; the name appears when all of it is there. kAlreadyExists, kNoSpace, kIo, …
Status WriteResultFile(const std::string& path, const std::string& text);

}  // namespace stoker::bench
