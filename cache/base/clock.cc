#include "cache/base/clock.h"

namespace stoker {
namespace {
class SteadyClock final : public Clock {
 public:
  Nanos Now() const override {
    return std::chrono::duration_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch());
  }
};
}  // namespace

Clock& Clock::Real() {
  static SteadyClock clock;
  return clock;
}

}  // namespace stoker
