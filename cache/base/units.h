#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "cache/base/result.h"

namespace stoker {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;
/// Kernel memory page and the alignment O_DIRECT asks for on the disks we know.
inline constexpr uint64_t kPageBytes = 4096;

constexpr uint64_t AlignDown(uint64_t value, uint64_t step) {
  return value - value % step;
}
constexpr uint64_t AlignUp(uint64_t value, uint64_t step) {
  return AlignDown(value + step - 1, step);
}
constexpr uint64_t CeilDiv(uint64_t value, uint64_t by) {
  return value / by + (value % by != 0);
}

/// Bytes [begin, end) of a file.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  constexpr uint64_t size() const { return end > begin ? end - begin : 0; }
  constexpr bool empty() const { return end <= begin; }
  constexpr bool Contains(const ByteRange& other) const { return begin <= other.begin && other.end <= end; }
  friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};
/// The bytes both ranges have; empty when they do not meet.
constexpr ByteRange Intersect(const ByteRange& a, const ByteRange& b) {
  const uint64_t begin = a.begin > b.begin ? a.begin : b.begin;
  const uint64_t end = a.end < b.end ? a.end : b.end;
  return {begin, end > begin ? end : begin};
}

/// "4MiB", "512 KiB", "1GB", "4096B" → bytes. Binary (KiB…PiB) and decimal (KB…PB) units; fractions such as
/// "1.5GiB" are fine when they come to whole bytes. A number without a unit is refused (kInvalidArgument),
/// except "0".
Result<uint64_t> ParseBytes(std::string_view text);
/// "30s", "250ms", "5m", "1h", "7d". A number without a unit is refused, except "0".
Result<std::chrono::nanoseconds> ParseDuration(std::string_view text);
/// Shortest exact binary spelling that ParseBytes reads back: 4194304 → "4MiB", 5 → "5B".
std::string FormatBytesExact(uint64_t bytes);
/// For people: "218.4 GiB", three to four digits.
std::string FormatBytes(uint64_t bytes);
/// Shortest exact spelling that ParseDuration reads back: "1m30s" is written "90s".
std::string FormatDuration(std::chrono::nanoseconds duration);

}  // namespace stoker
