#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/base/result.h"

namespace stoker::bench {

/// One option of a verb whose command line is that of an older tool: letters that may be run together (-vv,
/// -wr), values joined or apart (-t1m, -t 1m, -t=1m), a few long names.
struct ShortOption {
  char letter;             // 0: it has only the long name
  const char* long_name;   // without dashes; nullptr: none
  const char* value_name;  // for the help; nullptr: takes no value
  const char* help;
};

/// An option that was given: its letter ("t") or, where it has none, its long name.
struct GivenOption {
  std::string name;
  std::string value;
  /// As to be shown in messages, e.g. "-t".
  std::string flag() const { return (name.size() == 1 ? "-" : "--") + name; }
};

/// kInvalidArgument: an unknown option, a missing value, or a word that belongs to no option; the message
/// names the verb, the word and what is near. One thread (it uses getopt).
Result<std::vector<GivenOption>> ParseShortOptions(const std::string& verb,
                                                   const std::vector<std::string>& arguments,
                                                   const std::vector<ShortOption>& options);
/// The options, a line each.
std::string DescribeShortOptions(const std::vector<ShortOption>& options);

// Values. kInvalidArgument names flag, value and what is allowed.
/// Bytes as IOR writes them: a number with k, m, g or t (binary) or none, or one of our own units (4MiB,
/// 1GB).
Result<uint64_t> ParseIorSize(const std::string& flag, const std::string& text);
Result<int64_t> ParseSigned(const std::string& flag, const std::string& text, int64_t min, int64_t max);

}  // namespace stoker::bench
