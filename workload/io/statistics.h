#pragma once

#include <vector>

namespace stoker::bench {

/// Over repetitions, as IOR and mdtest have it: the deviation is that of the population (divided by n).
struct Spread {
  double max = 0;
  double min = 0;
  double mean = 0;
  double deviation = 0;
};
/// All 0 for no values. Pure.
Spread SpreadOf(const std::vector<double>& values);

}  // namespace stoker::bench
