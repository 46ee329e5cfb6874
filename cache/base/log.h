#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cache/base/clock.h"
#include "cache/base/mutex.h"
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

/// For lines that a lasting fault would write thousands of times a second, where the first few say it all.
/// One object for each kind of line, kept by whoever writes it; it lets `per_second` lines a second through
/// and drops the rest. The next line that is let through says how many were dropped before it. Any thread.
class LogLimiter {
 public:
  explicit LogLimiter(uint32_t per_second, Clock& clock = Clock::Real())
      : clock_(clock), per_second_(per_second) {}
  void Log(LogLevel level, std::string_view room, std::string_view message) EXCLUDES(mu_);

 private:
  Clock& clock_;
  const uint32_t per_second_;
  Mutex mu_;
  Nanos second_began_ GUARDED_BY(mu_){0};
  uint32_t written_ GUARDED_BY(mu_) = 0;  // since then
  uint64_t dropped_ GUARDED_BY(mu_) = 0;  // since the last line that was let through
};

}  // namespace stoker
