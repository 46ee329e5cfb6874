#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"

namespace stoker {

/// How the files and directories that a rule fits are treated.
enum class PathClass : uint8_t {
  kImmutable,   // what is known is believed until the kernel forgets it
  kRevalidate,  // believed for the rule's ttl
  kSkip,        // never cached: reads go to the UFS
};

/// One item of metadata.rules.
struct PathRule {
  std::string glob;
  PathClass path_class = PathClass::kRevalidate;
  std::optional<std::chrono::nanoseconds> ttl = {};  // kRevalidate only; empty: metadata.ttl
  friend bool operator==(const PathRule&, const PathRule&) = default;
};

/// Whether the glob fits the path (relative to the mount point, without a leading '/').
///
/// A glob with a '/' in it is compared with the whole path; one without, with the last name alone, so that
/// `*.tmp` means these files everywhere and `/x` means the x at the top. `*` is any run of characters but
/// '/', `?` one of them, `[a-z]` or `[!a-z]` one out of a set, `\` takes the next character as it is. `**`
/// between slashes is any number of directories, also none; at the end (`a/**`) it is everything below a, not
/// a itself; `**` alone is everything. Bytes are compared as they are: no locale, no case folding. Takes time
/// in proportion to glob times path. Any thread.
bool GlobFits(std::string_view glob, std::string_view path);

/// kInvalidArgument: the glob cannot fit anything; the message says what is wrong with it and what would be
/// right.
Status CheckGlob(std::string_view glob);

/// "immutable", "revalidate", "skip".
std::string_view PathClassName(PathClass path_class);
/// kInvalidArgument: no such class; the message names the nearest.
Result<PathClass> ParsePathClass(std::string_view name);

/// The first rule that fits, or nullptr.
const PathRule* FindRule(const std::vector<PathRule>& rules, std::string_view path);

}  // namespace stoker
