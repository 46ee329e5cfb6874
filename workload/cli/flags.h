#pragma once

#include <cstdint>
#include <string>

#include "cache/base/clock.h"
#include "cache/base/result.h"

namespace stoker::bench {

/// Values of flags, read from text. kInvalidArgument: the message names the flag, the value and what is
/// allowed. Pure.
Result<uint64_t> ParseCount(const std::string& flag, const std::string& text, uint64_t min, uint64_t max);
/// A number above 0, up to `max`.
Result<double> ParseNumber(const std::string& flag, const std::string& text, double max);
/// Bytes with a unit, from `min` to `max`, a multiple of `multiple`.
Result<uint64_t> ParseSize(const std::string& flag, const std::string& text, uint64_t min, uint64_t max,
                           uint64_t multiple);
/// A time with a unit, from `min` to `max`.
Result<Nanos> ParseTime(const std::string& flag, const std::string& text, Nanos min, Nanos max);

}  // namespace stoker::bench
