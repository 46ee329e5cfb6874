#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace stoker {

/// Small seeded generator (xoshiro256**, seeded by splitmix64; both are public-domain algorithms by Blackman
/// and Vigna). The standard library's distributions differ between implementations, so the few we need are
/// here: the same seed gives the same numbers on every platform. Not for secrets. Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15ULL;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
      word = z ^ (z >> 31);
    }
  }
  uint64_t Next() {
    const uint64_t result = Rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotl(state_[3], 45);
    return result;
  }
  /// Uniform in [0, n); REQUIRES n > 0. No modulo bias.
  uint64_t Below(uint64_t n) {
    const uint64_t limit = -n % n;
    while (true) {
      const uint64_t value = Next();
      if (value >= limit) return value % n;
    }
  }
  /// Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  /// Standard normal (Box-Muller).
  double Normal() {
    const double u = 1.0 - Uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * Uniform());
  }
  /// Fisher-Yates: every order equally likely, the same order for the same seed everywhere.
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (uint64_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }

 private:
  static uint64_t Rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace stoker
