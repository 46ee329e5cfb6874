#include "cache/base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace stoker {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array<Unit, 12> kByteUnits{{{"B", 1},
                                           {"KiB", 1024.0},
                                           {"MiB", 1024.0 * 1024},
                                           {"GiB", 1024.0 * 1024 * 1024},
                                           {"TiB", 1024.0 * 1024 * 1024 * 1024},
                                           {"PiB", 1024.0 * 1024 * 1024 * 1024 * 1024},
                                           {"KB", 1e3},
                                           {"kB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12},
                                           {"PB", 1e15}}};
constexpr std::array<Unit, 7> kTimeUnits{
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}}};

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Splits "1.5 GiB" into number and unit; the unit may be empty.
bool SplitNumber(std::string_view text, double* number, std::string_view* unit) {
  text = Trim(text);
  const char* begin = text.data();
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(begin, end, *number, std::chars_format::fixed);
  if (error != std::errc() || stop == begin || !std::isfinite(*number) || *number < 0) return false;
  *unit = Trim(std::string_view(stop, static_cast<size_t>(end - stop)));
  return true;
}

template <size_t N>
const Unit* FindUnit(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

Status BadValue(std::string_view text, std::string_view what, std::string_view example) {
  return {Code::kInvalidArgument,
          "'" + std::string(text) + "' is not a " + std::string(what) + ": " + std::string(example)};
}

}  // namespace

Result<uint64_t> ParseBytes(std::string_view text) {
  double number = 0;
  std::string_view name;
  if (!SplitNumber(text, &number, &name))
    return BadValue(text, "size", "write a number and a unit, e.g. 4MiB");
  if (name.empty()) {
    if (number == 0) return uint64_t{0};
    return BadValue(text, "size", "the unit is missing, e.g. " + std::string(Trim(text)) + "MiB");
  }
  const Unit* unit = FindUnit(kByteUnits, name);
  if (unit == nullptr) {
    return BadValue(text, "size",
                    "unknown unit '" + std::string(name) + "', use B, KiB, MiB, GiB, TiB, KB, MB, GB or TB");
  }
  const double bytes = number * unit->factor;
  if (bytes >= 9.0e18) return BadValue(text, "size", "too large, the limit is 8191PiB");
  if (bytes != std::floor(bytes)) return BadValue(text, "size", "it does not come to whole bytes");
  return static_cast<uint64_t>(bytes);
}

Result<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  double number = 0;
  std::string_view name;
  if (!SplitNumber(text, &number, &name)) {
    return BadValue(text, "duration", "write a number and a unit, e.g. 30s");
  }
  if (name.empty()) {
    if (number == 0) return std::chrono::nanoseconds{0};
    return BadValue(text, "duration", "the unit is missing, e.g. " + std::string(Trim(text)) + "s");
  }
  const Unit* unit = FindUnit(kTimeUnits, name);
  if (unit == nullptr) {
    return BadValue(text, "duration",
                    "unknown unit '" + std::string(name) + "', use ns, us, ms, s, m, h or d");
  }
  const double ns = number * unit->factor;
  if (ns >= 9.0e18) return BadValue(text, "duration", "too long, the limit is 100000d");
  return std::chrono::nanoseconds(static_cast<int64_t>(ns));
}

std::string FormatBytesExact(uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes != 0 && unit + 1 < kNames.size() && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + std::string(kNames[unit]);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kNames[unit]);
  return text;
}

std::string FormatDuration(std::chrono::nanoseconds duration) {
  const int64_t ns = duration.count();
  constexpr std::array<std::pair<int64_t, const char*>, 7> kSteps{{{86400'000'000'000, "d"},
                                                                   {3600'000'000'000, "h"},
                                                                   {60'000'000'000, "m"},
                                                                   {1'000'000'000, "s"},
                                                                   {1'000'000, "ms"},
                                                                   {1'000, "us"},
                                                                   {1, "ns"}}};
  if (ns == 0) return "0s";
  for (const auto& [step, name] : kSteps) {
    if (ns % step == 0) return std::to_string(ns / step) + name;
  }
  return std::to_string(ns) + "ns";
}

}  // namespace stoker
