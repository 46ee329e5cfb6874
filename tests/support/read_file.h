#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace stoker::testing {

/// A whole file in one read; "" when it cannot be read. Not through istreambuf_iterator: a call for each byte
/// takes minutes for a few megabytes where every access is checked (ThreadSanitizer, -O0).
inline std::string ReadFile(const std::filesystem::path& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return "";
  std::string bytes(size, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

}  // namespace stoker::testing
