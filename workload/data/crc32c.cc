#include "workload/data/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace stoker::bench {

uint32_t Crc32c(uint32_t crc, const void* data, size_t size) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // the library takes an int
  // It neither reads through a const pointer nor inverts; "iscsi" is where this polynomial became common.
  auto* bytes = static_cast<unsigned char*>(const_cast<void*>(data));
  crc = ~crc;
  while (size > 0) {
    const size_t step = std::min(size, kMostAtOnce);
    crc = ::crc32_iscsi(bytes, static_cast<int>(step), crc);
    bytes += step;
    size -= step;
  }
  return ~crc;
}

}  // namespace stoker::bench
