#pragma once

#include <cstdint>

namespace stoker::fetch {

/// Decides whether a part that cannot be stored may be fetched whole. Fetching more than a reader asks for
/// pays when the rest of the part waits in memory until it is asked for, and is waste when the memory is
/// needed before. Each wasted byte must be earned back by kEarned bytes that are fetched exactly as they are
/// asked for; until then it says saving(). So what is fetched beyond what is delivered stays below one part
/// in kEarned, plus what is in memory at once (prefetch.budget). Not thread-safe: the engine's mutex covers
/// it.
class Thrift {
 public:
  static constexpr uint64_t kEarned = 8;

  /// Bytes left memory that nobody had asked for.
  void Wasted(uint64_t bytes) { debt_ += bytes * kEarned; }
  /// Bytes were fetched and delivered exactly as asked.
  void Exact(uint64_t bytes) { debt_ -= bytes < debt_ ? bytes : debt_; }
  bool saving() const { return debt_ > 0; }

 private:
  uint64_t debt_ = 0;  // bytes; at most kEarned times the memory, as nothing is wasted while saving
};

}  // namespace stoker::fetch
