#include "workload/io/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stoker::bench {

Spread SpreadOf(const std::vector<double>& values) {
  if (values.empty()) return {};
  const double n = static_cast<double>(values.size());
  Spread spread;
  spread.max = *std::max_element(values.begin(), values.end());
  spread.min = *std::min_element(values.begin(), values.end());
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / n);
  return spread;
}

}  // namespace stoker::bench
