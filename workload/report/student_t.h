#pragma once

#include <cstdint>

namespace stoker::bench {

/// P(T <= t) for Student's distribution with `degrees` degrees of freedom, by the finite series for whole
/// degrees (Abramowitz and Stegun 26.7.3 and 26.7.4). REQUIRES degrees >= 1. Pure.
double StudentCdf(double t, uint64_t degrees);

/// The t above which a share `tail` of the distribution lies, e.g. 2.776 for 0.025 and 4 degrees.
/// REQUIRES 0 < tail < 0.5, degrees >= 1. Pure.
double StudentQuantile(double tail, uint64_t degrees);

}  // namespace stoker::bench
