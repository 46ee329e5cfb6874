#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/ids.h"
#include "cache/store/eviction_policy.h"

namespace stoker::testing {

/// Which objects are read in which order, each from its beginning to its end.
struct AccessTrace {
  std::string name;
  std::string what;                // one line, sizes as multiples of the cache
  std::vector<uint64_t> sizes;     // [objects] bytes
  std::vector<uint32_t> accesses;  // [accesses] objects
  size_t counted_from = 0;         // accesses before this are not in the ratios
  size_t counted_to = SIZE_MAX;    // nor these and later ones
};

/// How objects differ in size.
enum class TraceSizes { kEqual, kMixed };  // kMixed: half to twice the mean, and one in a hundred 8 times it

struct TraceSpec {
  uint64_t cache_objects = 1000;  // objects of mean size that fit
  TraceSizes sizes = TraceSizes::kEqual;
  uint64_t seed = 1;
};
constexpr uint64_t kTraceObjectBytes = 1 << 20;  // mean

/// Names of the traces that MakeTrace knows. The first six are those that `auto` is held to; the others stand
/// for what else happens on a training node.
const std::vector<std::string>& TraceNames();
AccessTrace MakeTrace(std::string_view name, const TraceSpec& spec);

struct HitRatio {
  double bytes = 0;
  double objects = 0;
};

/// A cache of `capacity` under `policy`, as the store works it.
HitRatio Replay(const AccessTrace& trace, EvictionPolicy& policy, uint64_t capacity, double low_watermark);
/// The same with the whole trace known beforehand: what is used last goes first, and what would be used later
/// than anything that had to go for it is not taken in (Belady). The optimum for objects of equal size; for
/// others only near it (the optimum is NP-hard).
HitRatio ReplayBelady(const AccessTrace& trace, uint64_t capacity);

}  // namespace stoker::testing
