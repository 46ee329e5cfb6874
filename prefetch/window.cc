#include "prefetch/window.h"

#include <algorithm>

namespace stoker {

void Window::OnRead(bool sequential, uint32_t part, bool stalled) {
  if (!sequential || max_parts_ == 0) {
    parts_ = 0;
    return;
  }
  if (parts_ == 0) {
    parts_ = 1;
    reached_ = part;
    stalled_here_ = stalled;
    return;
  }
  bool grow = false;
  if (part > reached_) {
    reached_ = part;
    stalled_here_ = false;
    grow = true;
  }
  if (stalled && !stalled_here_) {
    stalled_here_ = true;
    grow = true;
  }
  if (grow) parts_ = parts_ > max_parts_ / 2 ? max_parts_ : parts_ * 2;
}

}  // namespace stoker
