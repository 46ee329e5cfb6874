#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/base/result.h"

namespace stoker::bench {

/// Page-aligned memory, on huge pages where asked for and where the system has them: a direct transfer of 1
/// MiB is then one piece of memory instead of 256, which the kernel pins quickly and need not split for the
/// device. Move-only.
class TransferBuffer {
 public:
  TransferBuffer() = default;
  ~TransferBuffer();
  TransferBuffer(TransferBuffer&& other) noexcept;
  TransferBuffer& operator=(TransferBuffer&& other) noexcept;
  TransferBuffer(const TransferBuffer&) = delete;
  TransferBuffer& operator=(const TransferBuffer&) = delete;
  /// kBusy: no memory.
  static Result<TransferBuffer> Allocate(uint64_t bytes, bool huge_pages = true);
  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

/// What a comparison found.
struct Mismatch {
  uint64_t words = 0;         // 8-byte words that differ
  uint64_t first_offset = 0;  // in the file, of the first of them
  uint64_t expected = 0;
  uint64_t found = 0;
};

/// The bytes that the I/O test writes, and their check: a pure function of (signature, file, offset). Random
/// words that repeat every MiB, so that they need not be made for each call; the first word of every 4096
/// bytes is a stamp made from signature, file and offset, so no two pages of a test are alike (nothing to
/// compress or to store once), and a page from elsewhere, or from an earlier repetition, is noticed.
/// Immutable; any thread.
class Pattern {
 public:
  static constexpr uint64_t kPeriodBytes = 1 << 20;
  static constexpr uint64_t kStampBytes = 4096;

  Pattern();

  /// Memory that Prepare needs for transfers of `transfer_bytes`.
  static uint64_t BufferBytes(uint64_t transfer_bytes) { return kPeriodBytes + transfer_bytes; }
  /// Fills a task's buffer once, before its first Prepare.
  void Fill(const TransferBuffer& buffer) const;

  /// The bytes [offset, offset + bytes) of `file`, somewhere in `buffer`, aligned as `offset` is (up to the
  /// page size). Costs one store for each 4096 bytes. REQUIRES Fill(buffer) before, offset and bytes
  /// multiples of 8, bytes + kPeriodBytes <= buffer.size().
  static std::byte* Prepare(const TransferBuffer& buffer, uint64_t signature, uint64_t file, uint64_t offset,
                            uint64_t bytes);
  /// Where a read of the same bytes should land; spoils the stamps there, so that bytes which were never
  /// delivered are not taken for right.
  static std::byte* PrepareRead(const TransferBuffer& buffer, uint64_t offset, uint64_t bytes);
  /// Compares what was read.
  Mismatch Check(const std::byte* data, uint64_t signature, uint64_t file, uint64_t offset,
                 uint64_t bytes) const;

 private:
  std::vector<uint64_t> words_;  // [kPeriodBytes / 8]
};

}  // namespace stoker::bench
