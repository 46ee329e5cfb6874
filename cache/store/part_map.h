#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cache/base/ids.h"
#include "cache/base/units.h"

namespace stoker {

/// Which parts of one file are resident. Questions are lock-free from any thread; changes are ordered by the
/// object's owner.
class PartMap {
 public:
  /// A bitmap of 8 MiB; with parts of 4 MiB a file of 256 TiB.
  static constexpr uint64_t kMaxParts = uint64_t{1} << 26;
  /// Whether a file can be mapped at all: at most kMaxParts parts.
  static bool Fits(uint64_t size, uint64_t part_length);

  /// REQUIRES Fits(size, part_length), part_length > 0.
  PartMap(uint64_t size, uint64_t part_length);

  uint64_t size() const { return size_; }
  uint64_t part_length() const { return part_length_; }
  uint32_t count() const { return count_; }
  ByteRange Range(PartIndex part) const;
  PartIndex At(uint64_t offset) const { return static_cast<PartIndex>(offset / part_length_); }

  /// False for a part that the file does not have.
  bool Has(PartIndex part) const;
  /// All parts that the range, cut at the end of the file, touches.
  bool Has(ByteRange range) const;
  bool complete() const { return resident_parts() == count_; }
  uint32_t resident_parts() const { return resident_parts_.load(std::memory_order_acquire); }
  uint64_t resident_bytes() const { return resident_bytes_.load(std::memory_order_acquire); }

  /// False when nothing changed.
  bool Set(PartIndex part);
  bool Clear(PartIndex part);
  void SetAll();
  void ClearAll();

 private:
  const uint64_t size_;
  const uint64_t part_length_;
  const uint32_t count_;
  std::unique_ptr<std::atomic<uint64_t>[]> words_;  // bit p % 64 of word p / 64: part p is resident
  std::atomic<uint32_t> resident_parts_{0};         // INVARIANT (at rest): bits set in words_
  std::atomic<uint64_t> resident_bytes_{0};         // INVARIANT (at rest): sum of their Range().size()
};

}  // namespace stoker
