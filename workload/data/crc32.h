#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace stoker::bench {

/// CRC-32 as in ZIP (reflected polynomial 0xEDB88320), of `size` bytes following bytes whose CRC is `crc`
/// (0 to start). Pure.
uint32_t Crc32(uint32_t crc, const void* data, size_t size);

/// CRC arithmetic without the bytes. CRC-32 is linear: appending N bytes multiplies the old CRC by a fixed
/// 32 x 32 bit matrix, which this holds for one N. Immutable after construction; any thread.
class CrcAppender {
 public:
  explicit CrcAppender(uint64_t appended_bytes);
  /// CRC of A followed by B, from crc(A) and crc(B), where B is `appended_bytes` long.
  uint32_t Append(uint32_t crc_a, uint32_t crc_b) const;

 private:
  std::array<uint32_t, 32> columns_{};  // column i: what bit i of crc(A) becomes
};

}  // namespace stoker::bench
