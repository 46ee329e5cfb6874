#pragma once

#include <cstdint>

namespace stoker {

/// How many parts to be ahead of one stream. Closed until the stream is sequential; opens at one part;
/// doubles each time that the reader reaches a further part or has to wait; closes when the stream is not
/// sequential any more. Pure.
class Window {
 public:
  explicit Window(uint32_t max_parts) : max_parts_(max_parts) {}

  /// One read of the stream, which now has reached `part`. `stalled`: the read has to wait for a fetch.
  void OnRead(bool sequential, uint32_t part, bool stalled);
  /// Parts to be ahead, 0 to max_parts.
  uint32_t parts() const { return parts_; }

 private:
  const uint32_t max_parts_;
  uint32_t parts_ = 0;
  uint32_t reached_ = 0;
  bool stalled_here_ = false;  // one part's requests all wait for the same fetch: that is one stall
};

}  // namespace stoker
