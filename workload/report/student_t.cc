#include "workload/report/student_t.h"

#include <cmath>
#include <numbers>

namespace stoker::bench {
namespace {

/// P(T > t), t >= 0.
double UpperTail(double t, uint64_t degrees) {
  const double root = std::sqrt(static_cast<double>(degrees));
  const double angle = std::atan(t / root);
  const double cosine = std::cos(angle);
  const double squared = cosine * cosine;
  const bool odd = degrees % 2 == 1;
  // Odd: cos + 2/3 cos^3 + (2 4)/(3 5) cos^5 + …; even: 1 + 1/2 cos^2 + (1 3)/(2 4) cos^4 + …
  double term = odd ? cosine : 1;
  double sum = 0;
  for (uint64_t k = odd ? 1 : 0; k + 2 <= degrees; k += 2) {
    sum += term;
    term *= squared * static_cast<double>(k + 1) / static_cast<double>(k + 2);
  }
  const double inner = odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  return (1 - inner) / 2;
}

}  // namespace

double StudentCdf(double t, uint64_t degrees) {
  return t >= 0 ? 1 - UpperTail(t, degrees) : UpperTail(-t, degrees);
}

double StudentQuantile(double tail, uint64_t degrees) {
  double low = 0;
  double high = 1;
  while (UpperTail(high, degrees) > tail && high < 1e15) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (UpperTail(middle, degrees) > tail ? low : high) = middle;
  }
  return high;
}

}  // namespace stoker::bench
