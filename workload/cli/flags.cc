#include "workload/cli/flags.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "cache/base/units.h"

namespace stoker::bench {
namespace {

Status Bad(const std::string& flag, const std::string& text, const std::string& allowed) {
  return Status(Code::kInvalidArgument, flag + ": \"" + text + "\" is not " + allowed);
}

template <typename T>
bool ReadWhole(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<uint64_t> ParseCount(const std::string& flag, const std::string& text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  if (!ReadWhole(text, value) || value < min || value > max) {
    return Bad(flag, text, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return value;
}

Result<double> ParseNumber(const std::string& flag, const std::string& text, double max) {
  double value = 0;
  if (!ReadWhole(text, value) || !std::isfinite(value) || value <= 0 || value > max) {
    char limit[32];
    std::snprintf(limit, sizeof limit, "%.12g", max);
    return Bad(flag, text, std::string("a number above 0 up to ") + limit);
  }
  return value;
}

Result<uint64_t> ParseSize(const std::string& flag, const std::string& text, uint64_t min, uint64_t max,
                           uint64_t multiple) {
  const Result<uint64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) return Status(bytes.status().code(), flag + ": " + bytes.status().message());
  if (*bytes < min || *bytes > max || *bytes % multiple != 0) {
    return Bad(flag, text,
               (multiple > 1 ? "a multiple of " + FormatBytesExact(multiple) + " " : "") + "from " +
                   FormatBytesExact(min) + " to " + FormatBytesExact(max));
  }
  return bytes;
}

Result<Nanos> ParseTime(const std::string& flag, const std::string& text, Nanos min, Nanos max) {
  const Result<Nanos> time = ParseDuration(text);
  if (!time.ok()) return Status(time.status().code(), flag + ": " + time.status().message());
  if (*time < min || *time > max) {
    return Bad(flag, text, "from " + FormatDuration(min) + " to " + FormatDuration(max));
  }
  return time;
}

}  // namespace stoker::bench
