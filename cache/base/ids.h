#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

namespace stoker {

/// What the UFS says identifies content: part of every key, so that bytes of an old version can never match a
/// new one. `token` is opaque, made by the UFS driver, and names the content among all UFSs (POSIX: device,
/// inode, size, mtime and ctime; S3: bucket, key and ETag). Two equal versions hold equal bytes.
struct FileVersion {
  uint64_t size = 0;
  std::string token;
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

/// Names one object in the store: a 128-bit hash of a FileVersion.
struct ObjectId {
  std::array<uint8_t, 16> bytes{};
  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
  /// 32 lower-case hex digits: the object's file name.
  std::string ToHex() const;
};
ObjectId MakeObjectId(const FileVersion& version);

/// Index of a part inside its file: bytes [i·part_length, (i+1)·part_length).
enum class PartIndex : uint32_t {};
constexpr uint32_t ToInt(PartIndex part) {
  return static_cast<uint32_t>(part);
}

/// One part of one object: the unit of fetch, residency and checksum.
struct PartKey {
  ObjectId object;
  PartIndex part{};
  friend auto operator<=>(const PartKey&, const PartKey&) = default;
};

}  // namespace stoker

template <>
struct std::hash<stoker::ObjectId> {
  size_t operator()(const stoker::ObjectId& id) const noexcept {
    size_t value;  // already a good hash
    std::memcpy(&value, id.bytes.data(), sizeof value);
    return value;
  }
};
template <>
struct std::hash<stoker::PartKey> {
  size_t operator()(const stoker::PartKey& key) const noexcept {
    return std::hash<stoker::ObjectId>()(key.object) ^ (stoker::ToInt(key.part) * 0x9e3779b97f4a7c15ULL);
  }
};
