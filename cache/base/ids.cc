#include "cache/base/ids.h"

#include <span>
#include <string>

#include "cache/base/checksum.h"

namespace stoker {

std::string ObjectId::ToHex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(32);
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

ObjectId MakeObjectId(const FileVersion& version) {
  std::string input(8, '\0');
  for (size_t i = 0; i < 8; ++i) input[i] = static_cast<char>(version.size >> (8 * i));  // little-endian
  input += version.token;
  return ObjectId{Checksum128(std::as_bytes(std::span(input.data(), input.size())))};
}

}  // namespace stoker
