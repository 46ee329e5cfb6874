#pragma once

#include <cstdint>
#include <vector>

#include "cache/base/units.h"

namespace stoker {

/// Which bytes of one part are asked for, have landed, and are known to be of the right version; and which
/// piece to read next. Pure; ranges are relative to the start of the part. Kept in units of 64 KiB.
class PartProgress {
 public:
  static constexpr uint64_t kUnitBytes = 64 * kKiB;
  /// The first piece of a part: small enough to be there soon, large enough to be worth a request.
  static constexpr uint64_t kFirstPieceBytes = 256 * kKiB;
  /// Larger pieces gain nothing, and one write of 4 MiB is far slower than four of 1 MiB.
  static constexpr uint64_t kMaxPieceBytes = kMiB;

  explicit PartProgress(uint64_t part_bytes);

  /// A piece that covers bytes of `wanted` which nobody reads yet, marked as being read; empty when there is
  /// none. It starts where `wanted` is first missing.
  ByteRange TakeWanted(ByteRange wanted);
  /// The next piece in order after the last one taken, wrapping; empty when all is read or being read.
  ByteRange TakeAny();

  void Landed(ByteRange piece);
  /// The piece could not be read: it can be taken again.
  void Lost(ByteRange piece);
  /// All that has landed so far is of the right version.
  void VerifyLanded();

  bool HasLanded(ByteRange range) const { return AllAtLeast(range, State::kLanded); }
  bool IsVerified(ByteRange range) const { return AllAtLeast(range, State::kVerified); }
  bool AllLanded() const { return HasLanded({0, bytes_}); }

 private:
  enum class State : uint8_t { kMissing, kReading, kLanded, kVerified };

  bool AllAtLeast(ByteRange range, State state) const;
  ByteRange Take(size_t unit, uint64_t limit_bytes);
  void Set(ByteRange piece, State from, State to);

  const uint64_t bytes_;
  std::vector<State> units_;
  size_t next_ = 0;  // where TakeAny goes on
  bool first_taken_ = false;
};

}  // namespace stoker
