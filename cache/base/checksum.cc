#include "cache/base/checksum.h"

#include <xxhash.h>

#include "cache/base/check.h"

namespace stoker {

uint64_t Checksum64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::array<uint8_t, 16> Checksum128(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::array<uint8_t, 16> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = canonical.digest[i];
  return out;
}

Checksum64Stream::Checksum64Stream() : state_(XXH3_createState()) {
  STOKER_CHECK(state_ != nullptr);
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}
Checksum64Stream::~Checksum64Stream() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}
void Checksum64Stream::Update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}
uint64_t Checksum64Stream::Digest() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

}  // namespace stoker
