#include "workload/data/content.h"

#include <algorithm>
#include <cstring>

#include "cache/base/check.h"
#include "cache/base/random.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kMantissa = 0x000fffffffffffffULL;
constexpr uint64_t kOne = 0x3ff0000000000000ULL;  // 1.0

/// splitmix64's finaliser: neighbouring inputs give unrelated outputs.
uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t ToLittle(uint64_t word) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  return __builtin_bswap64(word);
#else
  return word;
#endif
}

}  // namespace

Content::Content(uint64_t seed, Element element)
    : seed_(seed), random_bits_(element == Element::kUint8 ? ~uint64_t{0} : kMantissa) {
  Random random(seed);
  const uint64_t fixed = element == Element::kUint8 ? 0 : kOne;
  pool_.resize(kBlocks * kBlockWords);
  for (uint64_t& word : pool_) word = ToLittle((random.Next() & random_bits_) | fixed);
  for (size_t i = 0; i < kBlocks; ++i) {
    pool_crc_.push_back(Crc32(0, &pool_[i * kBlockWords], kBlockBytes));
  }
  std::vector<uint64_t> pattern(kBlockWords, 0);
  const uint32_t zeros = Crc32(0, pattern.data(), kBlockBytes);
  for (int bit = 0; bit < 64; ++bit) {
    pattern.assign(kBlockWords, ToLittle(uint64_t{1} << bit));
    mask_crc_[bit] = Crc32(0, pattern.data(), kBlockBytes) ^ zeros;
  }
}

Content::BlockKey Content::KeyOf(uint64_t file, uint64_t block) const {
  const uint64_t base = Mix(Mix(seed_ ^ Mix(file)) ^ block);
  return {base % kBlocks, Mix(base) & random_bits_};
}

void Content::Fill(uint64_t file, uint64_t block, std::span<std::byte> out) const {
  FillPart(file, block, 0, out);
}

void Content::FillRange(uint64_t file, uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const size_t skip = offset % kBlockBytes;
    const size_t step = std::min(out.size(), kBlockBytes - skip);
    FillPart(file, offset / kBlockBytes, skip, out.first(step));
    offset += step;
    out = out.subspan(step);
  }
}

void Content::FillPart(uint64_t file, uint64_t block, size_t skip, std::span<std::byte> out) const {
  STOKER_CHECK(skip % 8 == 0 && out.size() <= kBlockBytes - skip);
  const BlockKey key = KeyOf(file, block);
  const uint64_t* source = &pool_[key.source * kBlockWords + skip / 8];
  const uint64_t mask = ToLittle(key.mask);
  const size_t words = out.size() / 8;
  std::byte* to = out.data();
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = source[i] ^ mask;
    std::memcpy(to + i * 8, &word, 8);  // `out` starts at any address
  }
  if (const size_t tail = out.size() % 8; tail != 0) {
    const uint64_t word = source[words] ^ mask;
    std::memcpy(to + words * 8, &word, tail);
  }
}

uint32_t Content::Crc(uint32_t crc, uint64_t file, uint64_t bytes) const {
  const uint64_t whole = bytes / kBlockBytes;
  for (uint64_t block = 0; block < whole; ++block) {
    const BlockKey key = KeyOf(file, block);
    uint32_t block_crc = pool_crc_[key.source];
    for (uint64_t mask = key.mask; mask != 0; mask &= mask - 1) block_crc ^= mask_crc_[__builtin_ctzll(mask)];
    crc = append_block_.Append(crc, block_crc);
  }
  const size_t tail = bytes % kBlockBytes;
  if (tail != 0) {
    std::vector<std::byte> last(tail);
    Fill(file, whole, last);
    crc = Crc32(crc, last.data(), tail);
  }
  return crc;
}

}  // namespace stoker::bench
