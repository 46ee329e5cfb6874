#include "prefetch/part_progress.h"

#include <algorithm>

#include "cache/base/check.h"

namespace stoker {

PartProgress::PartProgress(uint64_t part_bytes)
    : bytes_(part_bytes), units_(CeilDiv(part_bytes, kUnitBytes), State::kMissing) {}

ByteRange PartProgress::Take(size_t unit, uint64_t limit_bytes) {
  size_t end = unit;
  while (end < units_.size() && units_[end] == State::kMissing &&
         (end + 1 - unit) * kUnitBytes <= std::max(limit_bytes, kUnitBytes)) {
    units_[end++] = State::kReading;
  }
  first_taken_ = true;
  next_ = end == units_.size() ? 0 : end;
  return {unit * kUnitBytes, std::min(end * kUnitBytes, bytes_)};
}

ByteRange PartProgress::TakeWanted(ByteRange wanted) {
  const size_t end = CeilDiv(std::min(wanted.end, bytes_), kUnitBytes);
  for (size_t unit = wanted.begin / kUnitBytes; unit < end; ++unit) {
    if (units_[unit] != State::kMissing) continue;
    // All that this reader misses in one request, so that one round trip answers it.
    const uint64_t missing = (end - unit) * kUnitBytes;
    const uint64_t at_least = first_taken_ ? kMaxPieceBytes : kFirstPieceBytes;
    return Take(unit, std::min(std::max(missing, at_least), kMaxPieceBytes));
  }
  return {};
}

ByteRange PartProgress::TakeAny() {
  for (size_t step = 0; step < units_.size(); ++step) {
    const size_t unit = (next_ + step) % units_.size();
    if (units_[unit] == State::kMissing) return Take(unit, kMaxPieceBytes);
  }
  return {};
}

void PartProgress::Set(ByteRange piece, State from, State to) {
  for (size_t unit = piece.begin / kUnitBytes; unit < CeilDiv(piece.end, kUnitBytes); ++unit) {
    STOKER_CHECK(units_[unit] == from);
    units_[unit] = to;
  }
}

void PartProgress::Landed(ByteRange piece) {
  Set(piece, State::kReading, State::kLanded);
}

void PartProgress::Lost(ByteRange piece) {
  Set(piece, State::kReading, State::kMissing);
}

void PartProgress::VerifyLanded() {
  for (State& state : units_) {
    if (state == State::kLanded) state = State::kVerified;
  }
}

bool PartProgress::AllAtLeast(ByteRange range, State state) const {
  const size_t end = CeilDiv(std::min(range.end, bytes_), kUnitBytes);
  for (size_t unit = range.begin / kUnitBytes; unit < end; ++unit) {
    if (units_[unit] < state) return false;
  }
  return true;
}

}  // namespace stoker
