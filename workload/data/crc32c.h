#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker::bench {

/// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) of `size` bytes following bytes whose CRC is `crc`
/// (0 to start). Pure.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size);

/// As TFRecord files store it: rotated and offset, so that the CRC of bytes which contain CRCs stays useful.
constexpr uint32_t MaskedCrc32c(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace stoker::bench
