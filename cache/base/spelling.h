#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoker {

/// The candidate with the smallest edit distance to `word`, or "" when none is near (more than a third of it
/// differs).
std::string NearestSpelling(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace stoker
