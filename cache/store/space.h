#pragma once

#include <cstdint>

#include "cache/base/metrics.h"
#include "cache/base/mutex.h"

namespace stoker {

/// The store's book of bytes: what objects occupy, what is promised to parts being written, and the limit.
/// The limit is the configured one or, when that is less, what the disk has left (SetDiskRoom). Any thread.
class Space {
 public:
  Space(uint64_t limit_bytes, Gauge& used_gauge) : limit_bytes_(limit_bytes), used_gauge_(used_gauge) {}

  /// Takes `bytes` out of what is free; false when used + reserved + bytes would pass the limit.
  bool TryReserve(uint64_t bytes) EXCLUDES(mu_);
  void Unreserve(uint64_t bytes) EXCLUDES(mu_);
  /// Objects occupy `delta` more (or less) than was booked.
  void Charge(int64_t delta) EXCLUDES(mu_);
  /// A reservation turns into `charged` occupied bytes; the rest of it is free again.
  void Convert(uint64_t reserved, int64_t charged) EXCLUDES(mu_);
  /// When objects occupied `used_bytes` the disk had `free_bytes`, of which `min_free_bytes` must stay.
  void SetDiskRoom(uint64_t used_bytes, uint64_t free_bytes, uint64_t min_free_bytes) EXCLUDES(mu_);

  /// How many bytes must be evicted, beyond those on their way out, before `bytes` more would keep usage at
  /// or under `ratio` of the limit. 0: none.
  uint64_t Shortage(uint64_t bytes, double ratio) const EXCLUDES(mu_);
  void BeginEviction(uint64_t bytes) EXCLUDES(mu_);
  /// REQUIRES: begun. The bytes themselves are booked with Charge().
  void EndEviction(uint64_t bytes) EXCLUDES(mu_);
  uint64_t evicting() const EXCLUDES(mu_);

  uint64_t used() const EXCLUDES(mu_);
  uint64_t reserved() const EXCLUDES(mu_);
  uint64_t limit_bytes() const { return limit_bytes_; }
  /// The limit, or less where the disk has less.
  uint64_t capacity_bytes() const EXCLUDES(mu_);

 private:
  uint64_t LimitLocked() const REQUIRES(mu_);
  void ChargeLocked(int64_t delta) REQUIRES(mu_);

  const uint64_t limit_bytes_;
  Gauge& used_gauge_;  // of all stores together; INVARIANT: used_ is in it
  mutable Mutex mu_;
  uint64_t disk_limit_ GUARDED_BY(mu_) = UINT64_MAX;
  uint64_t used_ GUARDED_BY(mu_) = 0;
  uint64_t reserved_ GUARDED_BY(mu_) = 0;
  uint64_t evicting_ GUARDED_BY(mu_) = 0;  // part of used_ that is being removed
};

}  // namespace stoker
