#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cache/base/result.h"
#include "workload/train/counted_io.h"

namespace stoker::bench {

/// Finds the records in a TFRecord file that passes by in chunks, wherever the cuts fall. Only the framing is
/// looked at: the check sum of a length is compared, that of the data is not (the public reader's work on the
/// bytes is what this program leaves out). Pure.
class TfRecordFraming {
 public:
  /// The next bytes of the file. Returns how many records they completed. kCorruption: no record begins here.
  Result<uint64_t> Feed(std::span<const std::byte> chunk);
  /// Ok when the file may end here: between two records, and not before the first.
  Status AtEnd() const;

 private:
  std::array<std::byte, 12> head_{};
  uint64_t head_have_ = 0;  // bytes of it
  uint64_t left_ = 0;       // bytes of the record's data and check sum still to come
  uint64_t at_ = 0;         // position in the file
  uint64_t records_ = 0;
};

/// Reads TFRecord files as TensorFlow's record reader does: front to back, one call of `buffer_bytes` each,
/// and one call more that returns nothing, as it learns of the end only that way. One thread.
class TfRecordReader {
 public:
  /// kInvalidArgument: no memory for the buffer.
  static Result<std::unique_ptr<TfRecordReader>> Make(uint64_t buffer_bytes, CacheControl cache_control);

  struct Chunk {
    uint64_t records = 0;  // completed by this read
    bool ended = false;
  };
  /// The next chunk of the file `path`; opens it if `opening` is not that of the call before. Errors are
  /// counted in `stats` and end the file.
  Result<Chunk> Read(const std::string& path, uint64_t opening, ReadStats& stats);

 private:
  TfRecordReader(Buffer buffer, uint64_t buffer_bytes, CacheControl cache_control)
      : buffer_(std::move(buffer)), buffer_bytes_(buffer_bytes), file_(cache_control) {}
  Result<Chunk> ReadOpen(ReadStats& stats);

  const Buffer buffer_;
  const uint64_t buffer_bytes_;
  CountedFile file_;
  TfRecordFraming framing_;
  uint64_t opening_ = 0;
  uint64_t at_ = 0;
};

}  // namespace stoker::bench
