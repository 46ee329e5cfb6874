#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"
#include "workload/data/content.h"

namespace stoker::bench {

/// Collects small pieces into writes of 1 MiB to one file at a time, and keeps the disk busy meanwhile. Owns
/// its buffer, so that a million small files need no memory each. One thread.
class FileWriter {
 public:
  /// `bytes`: counts what was written; any thread may look.
  explicit FileWriter(std::atomic<uint64_t>& bytes);

  /// Starts a file. `path` is for messages; it and the descriptor must outlive what follows.
  void Begin(int fd, const std::string& path);
  Status Text(std::string_view text);
  /// Room for a piece, at most kPieceBytes; to be filled, then told with Used().
  std::span<std::byte> Room(size_t bytes);
  Status Used(size_t bytes);
  /// Hands everything to the kernel. Errors of the operating system, with path.
  Status Flush();
  /// Bytes of this file that the kernel has.
  uint64_t written() const { return written_; }

  static constexpr size_t kPieceBytes = Content::kBlockBytes;

 private:
  static constexpr size_t kWriteBytes = 4 * kPieceBytes;  // one write call

  std::atomic<uint64_t>& counter_;
  std::vector<std::byte> buffer_;  // [kWriteBytes + kPieceBytes]
  int fd_ = -1;
  const std::string* path_ = nullptr;
  size_t used_ = 0;
  uint64_t written_ = 0;
  uint64_t asked_ = 0;  // bytes whose write-back was asked for
};

}  // namespace stoker::bench
