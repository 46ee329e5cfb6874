#pragma once

#include <cstdint>
#include <vector>

#include "cache/base/units.h"

namespace stoker {

/// Finds the sequential streams in the reads of one handle: one, or several interleaved ones (two threads
/// that share a descriptor, a program that reads two tables of one file). Reads of a stream may come out of
/// order and a little apart, as the kernel's readahead sends them; what matters is that nearly all bytes of
/// the stretch are read. Pure; no clock, no I/O.
class AccessPattern {
 public:
  static constexpr size_t kMaxStreams = 8;
  /// A read this near to where a stream is belongs to it: a few of the kernel's largest requests.
  static constexpr uint64_t kNearBytes = 4 * kMiB;
  /// A stream starts to count once so much was read of it in a row; less could be a peek at a header.
  static constexpr uint64_t kSureBytes = 128 * kKiB;
  /// Reads of the handle after which a stream that had none of them is over.
  static constexpr uint64_t kStaleReads = 64;

  struct Seen {
    uint64_t stream = 0;          // names the stream; never used again for another one
    bool sequential = false;      // sure enough to read ahead of
    uint64_t frontier = 0;        // the stream is read up to here
    std::vector<uint64_t> ended;  // streams that are over
  };
  Seen Observe(ByteRange range);

 private:
  struct Stream {
    uint64_t name = 0;
    uint64_t begin = 0;     // of the stretch that `bytes` was read of
    uint64_t frontier = 0;  // its end
    uint64_t bytes = 0;
    uint64_t last_read = 0;  // number of the read
  };

  std::vector<Stream> streams_;
  uint64_t reads_ = 0;
  uint64_t next_name_ = 1;
};

}  // namespace stoker
