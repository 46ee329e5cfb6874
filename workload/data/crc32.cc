#include "workload/data/crc32.h"

#include <cstring>

namespace stoker::bench {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320u;  // APPNOTE 4.4.7, bits reversed

/// tables[0]: one byte at a time; tables[k]: that byte followed by k zero bytes, so eight can be taken at
/// once.
struct Tables {
  uint32_t t[8][256];
};

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables.t[0][i] = crc;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (int k = 1; k < 8; ++k) {
      const uint32_t before = tables.t[k - 1][i];
      tables.t[k][i] = (before >> 8) ^ tables.t[0][before & 0xff];
    }
  }
  return tables;
}
constexpr Tables kTables = MakeTables();

using Matrix = std::array<uint32_t, 32>;

uint32_t Times(const Matrix& matrix, uint32_t vector) {
  uint32_t sum = 0;
  for (size_t i = 0; vector != 0; ++i, vector >>= 1) {
    if ((vector & 1) != 0) sum ^= matrix[i];
  }
  return sum;
}

Matrix Square(const Matrix& matrix) {
  Matrix out{};
  for (size_t i = 0; i < 32; ++i) out[i] = Times(matrix, matrix[i]);
  return out;
}

}  // namespace

uint32_t Crc32(uint32_t crc, const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  crc = ~crc;
  while (size >= 8) {
    uint32_t low = 0;
    uint32_t high = 0;
    std::memcpy(&low, bytes, 4);
    std::memcpy(&high, bytes + 4, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    low = __builtin_bswap32(low);
    high = __builtin_bswap32(high);
#endif
    low ^= crc;
    crc = kTables.t[7][low & 0xff] ^ kTables.t[6][(low >> 8) & 0xff] ^ kTables.t[5][(low >> 16) & 0xff] ^
          kTables.t[4][low >> 24] ^ kTables.t[3][high & 0xff] ^ kTables.t[2][(high >> 8) & 0xff] ^
          kTables.t[1][(high >> 16) & 0xff] ^ kTables.t[0][high >> 24];
    bytes += 8;
    size -= 8;
  }
  for (; size > 0; --size, ++bytes) crc = (crc >> 8) ^ kTables.t[0][(crc ^ *bytes) & 0xff];
  return ~crc;
}

CrcAppender::CrcAppender(uint64_t appended_bytes) {
  // One zero bit: the register shifts right by one. Squaring three times gives one byte, further squarings
  // the powers of two of which `appended_bytes` is a sum.
  Matrix power{};
  power[0] = kPolynomial;
  for (size_t i = 1; i < 32; ++i) power[i] = 1u << (i - 1);
  for (int i = 0; i < 3; ++i) power = Square(power);
  for (size_t i = 0; i < 32; ++i) columns_[i] = 1u << i;
  for (uint64_t left = appended_bytes; left != 0; left >>= 1) {
    if ((left & 1) != 0) {
      for (uint32_t& column : columns_) column = Times(power, column);
    }
    power = Square(power);
  }
}

uint32_t CrcAppender::Append(uint32_t crc_a, uint32_t crc_b) const {
  return Times(columns_, crc_a) ^ crc_b;
}

}  // namespace stoker::bench
