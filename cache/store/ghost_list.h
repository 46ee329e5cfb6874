#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker {

/// Names of objects that are not here: the last so many that were added. A name is kept as 32 bits of its key
/// and the time it came, in a bucket of eight: where a bucket overflows its oldest is forgotten early (about
/// one in fifty), and with n names remembered one question in 2^32 / n is answered with yes by mistake.
/// Constant time, on average where the table doubles. Not thread-safe.
class GhostList {
 public:
  /// At most `max_entries` are remembered. Memory: 16 bytes each, rounded up to a power of two of them.
  explicit GhostList(size_t max_entries) : max_entries_(max_entries) {}

  /// Remembers `key`, and of all only the newest `limit` (at most max_entries). `key`: evenly spread bits.
  void Add(uint64_t key, size_t limit);
  bool Has(uint64_t key) const { return Find(key) != nullptr; }
  /// Has(), and forgets it.
  bool Take(uint64_t key);

  /// Names remembered; those taken out or forgotten early count until their time would have come.
  size_t size() const { return added_ < limit_ ? static_cast<size_t>(added_) : limit_; }
  size_t memory_bytes() const { return slots_.size() * sizeof(Slot); }

 private:
  static constexpr size_t kWays = 8;  // a bucket is a cache line
  struct Slot {
    uint32_t print = 0;  // 0: empty
    uint32_t time = 0;   // `added_` when it came, its lower half
  };
  static uint32_t Print(uint64_t key) { return static_cast<uint32_t>(key >> 32 != 0 ? key >> 32 : 1); }
  uint32_t Age(const Slot& slot) const { return static_cast<uint32_t>(added_) - slot.time; }
  bool Alive(const Slot& slot) const { return slot.print != 0 && Age(slot) < limit_; }
  size_t Bucket(uint32_t print) const { return (print & (slots_.size() / kWays - 1)) * kWays; }
  const Slot* Find(uint64_t key) const;
  void Put(Slot slot);

  const size_t max_entries_;
  size_t limit_ = 0;
  uint64_t added_ = 0;
  std::vector<Slot> slots_;  // empty, or a power of two that is at least twice the limit
};

}  // namespace stoker
