#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "cache/base/clock.h"
#include "cache/base/ids.h"
#include "cache/base/units.h"
#include "prefetch/part_buffer.h"

namespace stoker::fetch {

/// Parts that were fetched and could not be stored: their bytes stay in memory for a while, for the reader
/// who comes back for the next piece. Least recently used goes first; limited in bytes.
///
/// Not thread-safe: the engine's mutex covers it. A buffer must not die under that mutex, so whatever leaves
/// is handed out to the caller.
class Lingering {
 public:
  struct Entry {
    PartKey key;
    ByteRange part;  // of the file
    std::shared_ptr<PartBuffer> buffer;
    Nanos last_use{0};
  };

  explicit Lingering(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Its newest entry; it may be over the limit then, for the caller to TakeOldest().
  void Add(const PartKey& key, ByteRange part, std::shared_ptr<PartBuffer> buffer, Nanos now);
  bool Has(const PartKey& key) const;
  /// The part's entry, which becomes the newest; null when it is not here. Valid until the next call.
  const Entry* Use(const PartKey& key, Nanos now);
  /// REQUIRES: not empty.
  Entry TakeOldest();

  bool empty() const { return entries_.empty(); }
  bool over_limit() const { return bytes_ > limit_bytes_; }
  /// `bytes` more would stay within the limit.
  bool HasRoomFor(uint64_t bytes) const { return bytes_ + bytes <= limit_bytes_; }
  /// When the oldest was last used. REQUIRES: not empty.
  Nanos oldest_use() const { return entries_.front().last_use; }

 private:
  const uint64_t limit_bytes_;
  std::list<Entry> entries_;  // least recently used first
  uint64_t bytes_ = 0;
};

}  // namespace stoker::fetch
