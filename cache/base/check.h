#pragma once

namespace stoker {
/// Prints file, line and the broken condition on stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace stoker

/// A broken invariant of ours: stop before it does harm. On in every build; never for bad input.
#define STOKER_CHECK(condition)                      \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? void(0)                                     \
       : ::stoker::CheckFailed(__FILE__, __LINE__, #condition))
