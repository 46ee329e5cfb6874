#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/base/result.h"
#include "workload/base/rules.h"

namespace stoker::bench {

/// A closed list: the values of an enum and what they are called in flags, files and reports.
template <typename T, size_t N>
using NameTable = std::array<std::pair<T, std::string_view>, N>;

/// kInvalidArgument: `text` is not a name of the table; the message lists them, with the nearest one.
template <typename T, size_t N>
Result<T> ParseName(const NameTable<T, N>& table, std::string_view flag, std::string_view text) {
  std::vector<std::string> allowed;
  for (const auto& [value, name] : table) {
    if (name == text) return value;
    allowed.emplace_back(name);
  }
  return Status(Code::kInvalidArgument, NotOneOf(flag, text, allowed));
}

template <typename T, size_t N>
std::string_view NameIn(const NameTable<T, N>& table, T wanted) {
  for (const auto& [value, name] : table) {
    if (value == wanted) return name;
  }
  return "unknown";
}

}  // namespace stoker::bench
