#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stoker::bench {

/// Counts durations in buckets 1/32 wide, relative to their value: a percentile is at most 3.2 % too high,
/// for anything from 1 ns to centuries, in 15 KiB. Not thread-safe.
class Histogram {
 public:
  void Add(uint64_t value) {
    ++counts_[BucketOf(value)];
    ++total_;
    if (value > max_) max_ = value;
  }
  void Merge(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    if (other.max_ > max_) max_ = other.max_;
  }
  uint64_t count() const { return total_; }
  uint64_t max() const { return max_; }
  /// The value that a share `q` (0..1) of all values does not exceed: its bucket's upper end, never above
  /// max(). 0 when empty.
  uint64_t Quantile(double q) const {
    if (total_ == 0) return 0;
    uint64_t rank = static_cast<uint64_t>(q * static_cast<double>(total_));
    if (static_cast<double>(rank) < q * static_cast<double>(total_) || rank == 0) ++rank;
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += counts_[i];
      if (seen >= rank) return UpperEnd(i) < max_ ? UpperEnd(i) : max_;
    }
    return max_;
  }

  /// Calls `see(bucket, count)` for each bucket that has counts: with AddCounts() and RaiseMax() the same
  /// histogram comes out elsewhere.
  template <typename See>
  void ForEach(See see) const {
    for (size_t i = 0; i < kBuckets; ++i) {
      if (counts_[i] != 0) see(i, counts_[i]);
    }
  }
  /// False, and nothing happens, when there is no such bucket.
  bool AddCounts(size_t bucket, uint64_t count) {
    if (bucket >= kBuckets) return false;
    counts_[bucket] += count;
    total_ += count;
    return true;
  }
  void RaiseMax(uint64_t max) {
    if (max > max_) max_ = max;
  }

 private:
  friend class SharedHistogram;

  static constexpr int kSubBits = 5;
  static constexpr size_t kSub = 1u << kSubBits;
  static constexpr size_t kBuckets = (64 - kSubBits + 1) * kSub;

  static size_t BucketOf(uint64_t value) {
    if (value < kSub) return value;
    const int shift = 63 - __builtin_clzll(value) - kSubBits;
    return static_cast<size_t>(shift + 1) * kSub + ((value >> shift) - kSub);
  }
  static uint64_t UpperEnd(size_t bucket) {
    if (bucket < kSub) return bucket;
    const int shift = static_cast<int>(bucket / kSub) - 1;
    return ((kSub + bucket % kSub) << shift) + ((uint64_t{1} << shift) - 1);
  }

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t total_ = 0;
  uint64_t max_ = 0;
};

/// The same counts, added by many threads at once and taken out by one.
class SharedHistogram {
 public:
  void Add(uint64_t value) { counts_[Histogram::BucketOf(value)].fetch_add(1, std::memory_order_relaxed); }
  /// What was added since the last call; its max() is the upper end of the highest bucket.
  Histogram Drain() {
    Histogram out;
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i].load(std::memory_order_relaxed) == 0) continue;
      out.counts_[i] = counts_[i].exchange(0, std::memory_order_relaxed);
      out.total_ += out.counts_[i];
      out.max_ = Histogram::UpperEnd(i);
    }
    return out;
  }

 private:
  std::array<std::atomic<uint64_t>, Histogram::kBuckets> counts_{};
};

}  // namespace stoker::bench
