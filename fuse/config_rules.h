#pragma once

#include <string>
#include <vector>

#include "cache/base/result.h"
#include "fuse/path_rules.h"

namespace YAML {
class Node;
}  // namespace YAML

namespace stoker {

/// The rules of a YAML sequence of maps {path, class, ttl}. kInvalidArgument: the message names file and
/// line, `key`, the value and the remedy.
Result<std::vector<PathRule>> ParseRules(const std::string& file, const std::string& key,
                                         const YAML::Node& list);

}  // namespace stoker
