#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace stoker {

/// Named points in the code where a test may stop a thread or end the process. Compiled out of release
/// builds. The environment variable STOKER_KILL_POINT=name[:n] ends the process with SIGKILL at the n-th
/// passing (default 1).
class SyncPoints {
 public:
  /// Runs `action` at each passing of `name` until Clear(). Any thread.
  static void Set(std::string_view name, std::function<void()> action);
  static void Clear();
  /// How often `name` was passed since the last Clear().
  static uint64_t Passed(std::string_view name);
  static void Pass(std::string_view name);
};

}  // namespace stoker

#if defined(STOKER_SYNC_POINTS)
#define SYNC_POINT(name) ::stoker::SyncPoints::Pass(name)
#else
#define SYNC_POINT(name) \
  do {                   \
  } while (0)
#endif
