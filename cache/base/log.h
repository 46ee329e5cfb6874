#pragma once

#include <string>
#include <string_view>

#include "cache/base/status.h"

namespace stoker {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// Sends log lines to `file`, or to stderr when it is empty. Call once, early, before other threads; later
/// calls replace the sink. kInvalidArgument: unknown level (debug, info, warn, error). kIo: the file cannot
/// be opened.
Status ConfigureLog(std::string_view level, const std::string& file);

/// One line: time, level, room, message. Any thread; never throws. `room` is a short literal, e.g. "store".
void Log(LogLevel level, std::string_view room, std::string_view message);
inline void LogDebug(std::string_view room, std::string_view message) {
  Log(LogLevel::kDebug, room, message);
}
inline void LogInfo(std::string_view room, std::string_view message) {
  Log(LogLevel::kInfo, room, message);
}
inline void LogWarn(std::string_view room, std::string_view message) {
  Log(LogLevel::kWarn, room, message);
}
inline void LogError(std::string_view room, std::string_view message) {
  Log(LogLevel::kError, room, message);
}
/// True when a debug line would be written: guard for messages that are dear to build.
bool LogDebugEnabled();

}  // namespace stoker
