#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace stoker {

/// XXH3-64 of the bytes, seed 0: the checksum of a part.
uint64_t Checksum64(std::span<const std::byte> bytes);
/// XXH3-128 of the bytes: names things that must not collide.
std::array<uint8_t, 16> Checksum128(std::span<const std::byte> bytes);

/// Checksum64 of bytes that come in pieces, in order.
class Checksum64Stream {
 public:
  Checksum64Stream();
  ~Checksum64Stream();
  Checksum64Stream(const Checksum64Stream&) = delete;
  Checksum64Stream& operator=(const Checksum64Stream&) = delete;
  void Update(std::span<const std::byte> bytes);
  uint64_t Digest() const;

 private:
  void* state_;
};

}  // namespace stoker
