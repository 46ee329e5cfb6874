#include "cache/store/part_map.h"

#include <algorithm>

#include "cache/base/check.h"

namespace stoker {
namespace {
constexpr uint32_t kWordBits = 64;
}

bool PartMap::Fits(uint64_t size, uint64_t part_length) {
  return CeilDiv(size, part_length) <= kMaxParts;
}

PartMap::PartMap(uint64_t size, uint64_t part_length)
    : size_(size), part_length_(part_length), count_(static_cast<uint32_t>(CeilDiv(size, part_length))) {
  STOKER_CHECK(Fits(size, part_length));
  words_ = std::make_unique<std::atomic<uint64_t>[]>(CeilDiv(count_, kWordBits));
}

ByteRange PartMap::Range(PartIndex part) const {
  const uint64_t begin = std::min(size_, ToInt(part) * part_length_);
  return {begin, std::min(size_, begin + part_length_)};
}

bool PartMap::Has(PartIndex part) const {
  const uint32_t index = ToInt(part);
  if (index >= count_) return false;
  return (words_[index / kWordBits].load(std::memory_order_acquire) >> (index % kWordBits)) & 1;
}

bool PartMap::Has(ByteRange range) const {
  range.end = std::min(range.end, size_);
  if (range.empty() || complete()) return true;
  const uint32_t last = ToInt(At(range.end - 1));
  for (uint32_t index = ToInt(At(range.begin)); index <= last; ++index) {
    if (!Has(static_cast<PartIndex>(index))) return false;
  }
  return true;
}

bool PartMap::Set(PartIndex part) {
  const uint32_t index = ToInt(part);
  STOKER_CHECK(index < count_);
  const uint64_t bit = uint64_t{1} << (index % kWordBits);
  if (words_[index / kWordBits].fetch_or(bit, std::memory_order_acq_rel) & bit) return false;
  resident_bytes_.fetch_add(Range(part).size(), std::memory_order_acq_rel);
  resident_parts_.fetch_add(1, std::memory_order_acq_rel);  // last: complete() says that all bits are set
  return true;
}

bool PartMap::Clear(PartIndex part) {
  const uint32_t index = ToInt(part);
  STOKER_CHECK(index < count_);
  if (!Has(part)) return false;
  resident_parts_.fetch_sub(1, std::memory_order_acq_rel);  // first: complete() must not outlive the bit
  resident_bytes_.fetch_sub(Range(part).size(), std::memory_order_acq_rel);
  words_[index / kWordBits].fetch_and(~(uint64_t{1} << (index % kWordBits)), std::memory_order_acq_rel);
  return true;
}

void PartMap::SetAll() {
  for (uint32_t index = 0; index < count_; index += kWordBits) {
    const uint32_t bits = std::min(kWordBits, count_ - index);
    const uint64_t word = bits == kWordBits ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    words_[index / kWordBits].store(word, std::memory_order_release);
  }
  resident_bytes_.store(size_, std::memory_order_release);
  resident_parts_.store(count_, std::memory_order_release);
}

void PartMap::ClearAll() {
  resident_parts_.store(0, std::memory_order_release);
  resident_bytes_.store(0, std::memory_order_release);
  for (uint32_t index = 0; index < count_; index += kWordBits) {
    words_[index / kWordBits].store(0, std::memory_order_release);
  }
}

}  // namespace stoker
