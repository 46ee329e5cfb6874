#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "workload/data/crc32.h"

namespace stoker::bench {

/// What the elements of a sample are.
enum class Element : uint8_t {
  kUint8,    // uniform bytes
  kFloat64,  // uniform in [1, 2): 52 random bits each
};
constexpr uint64_t ElementBytes(Element element) {
  return element == Element::kUint8 ? 1 : 8;
}

/// The made-up bytes of sample files: a pure function of (seed, file, offset), not compressible, no two
/// blocks alike, and cheap: one pass of XOR over a block of random words that was drawn once. Because XOR and
/// CRC-32 are both linear, a file's CRC is known from its block keys without reading the bytes; computing it
/// byte by byte would cost more than making them. Bytes are little-endian words. Immutable after construction
/// (about 50 ms, 16 MiB); any thread.
class Content {
 public:
  static constexpr size_t kBlockBytes = 256 * 1024;  // what fits the second-level cache with its source

  Content(uint64_t seed, Element element);

  /// Bytes [block * kBlockBytes, + out.size()) of `file`. REQUIRES out.size() <= kBlockBytes.
  void Fill(uint64_t file, uint64_t block, std::span<std::byte> out) const;

  /// The same at any `offset` that is a multiple of 8, of any length.
  void FillRange(uint64_t file, uint64_t offset, std::span<std::byte> out) const;

  /// CRC-32 of bytes whose CRC is `crc` followed by the first `bytes` of `file`.
  uint32_t Crc(uint32_t crc, uint64_t file, uint64_t bytes) const;

 private:
  static constexpr size_t kBlocks = 64;
  static constexpr size_t kBlockWords = kBlockBytes / 8;

  struct BlockKey {
    uint64_t source;  // which block of the pool
    uint64_t mask;    // XORed into each of its words
  };
  /// Bytes [skip, skip + out.size()) of a block. REQUIRES skip % 8 == 0, and that the block has them.
  void FillPart(uint64_t file, uint64_t block, size_t skip, std::span<std::byte> out) const;
  BlockKey KeyOf(uint64_t file, uint64_t block) const;

  const uint64_t seed_;
  const uint64_t random_bits_;      // of a word: those that are random
  std::vector<uint64_t> pool_;      // [kBlocks * kBlockWords]
  std::vector<uint32_t> pool_crc_;  // [kBlocks]
  uint32_t mask_crc_[64];           // what bit i of a mask adds to a whole block's CRC
  CrcAppender append_block_{kBlockBytes};
};

}  // namespace stoker::bench
