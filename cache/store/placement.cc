#include "cache/store/placement.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "cache/base/check.h"
#include "cache/base/checksum.h"

namespace stoker {
namespace {

/// splitmix64's finalizer: every bit of the result hangs on every bit of `z`.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

Placement::Placement(const std::vector<Place>& places) {
  STOKER_CHECK(!places.empty());
  for (const Place& place : places) {
    STOKER_CHECK(place.weight > 0);
    drawers_.push_back({Checksum64(std::as_bytes(std::span(place.name))), static_cast<double>(place.weight)});
  }
}

size_t Placement::Of(const ObjectId& id) const {
  uint64_t low = 0;
  uint64_t high = 0;
  std::memcpy(&low, id.bytes.data(), sizeof low);
  std::memcpy(&high, id.bytes.data() + sizeof low, sizeof high);
  const uint64_t key = low ^ Mix(high);
  size_t best = 0;
  double best_draw = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < drawers_.size(); ++i) {
    // Uniform in (0, 1), 53 bits; -ln of it over the weight is exponential, and the smallest wins.
    const double uniform = (static_cast<double>(Mix(key ^ drawers_[i].seed) >> 11) + 0.5) * 0x1.0p-53;
    const double draw = -std::log(uniform) / drawers_[i].weight;
    if (draw < best_draw) {
      best_draw = draw;
      best = i;
    }
  }
  return best;
}

}  // namespace stoker
