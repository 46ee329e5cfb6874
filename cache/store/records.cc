#include "cache/store/records.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "cache/base/check.h"
#include "cache/base/checksum.h"

namespace stoker {
namespace {

constexpr uint8_t kRowVersion = 1;
constexpr size_t kObjectHeadBytes = 40;
constexpr size_t kChecksumBytes = 8;
constexpr size_t kPartBytes = 24;
constexpr size_t kRunHeadBytes = 4;
constexpr uint8_t kSuspectFlag = 1;

template <typename Int>
void PutLittle(std::string& to, Int value) {
  for (size_t i = 0; i < sizeof(Int); ++i) to += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}
template <typename Int>
Int GetLittle(std::string_view from, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Int); ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(from[at + i])) << (8 * i);
  }
  return static_cast<Int>(value);
}

uint64_t ChecksumOf(std::string_view bytes) {
  return Checksum64(std::as_bytes(std::span(bytes.data(), bytes.size())));
}
void AppendChecksum(std::string& row) {
  PutLittle(row, ChecksumOf(row));
}

/// Version and checksum of a row that ends with a checksum of all before it.
Status CheckFrame(std::string_view row, size_t least, const char* what) {
  if (row.size() < least + kChecksumBytes)
    return {Code::kCorruption, std::string(what) + " row is too short"};
  if (static_cast<uint8_t>(row[0]) != kRowVersion) {
    return {Code::kUnsupported,
            std::string(what) + " row has version " + std::to_string(static_cast<uint8_t>(row[0]))};
  }
  const size_t body = row.size() - kChecksumBytes;
  if (GetLittle<uint64_t>(row, body) != ChecksumOf(row.substr(0, body))) {
    return {Code::kCorruption, std::string(what) + " row does not fit its checksum"};
  }
  return Status::Ok();
}

}  // namespace

std::string EncodeObject(const ObjectRecord& record) {
  STOKER_CHECK(record.token.size() <= ObjectRecord::kMaxToken);
  const std::string_view hint = std::string_view(record.name_hint).substr(0, ObjectRecord::kMaxNameHint);
  std::string row;
  row.reserve(kObjectHeadBytes + record.token.size() + hint.size() + kChecksumBytes);
  PutLittle(row, kRowVersion);
  PutLittle(row, static_cast<uint8_t>(record.phase));
  PutLittle(row, static_cast<uint8_t>(record.suspect ? kSuspectFlag : 0));
  PutLittle(row, uint8_t{0});
  PutLittle(row, static_cast<uint16_t>(record.token.size()));
  PutLittle(row, static_cast<uint16_t>(hint.size()));
  PutLittle(row, record.size);
  PutLittle(row, record.part_length);
  PutLittle(row, record.charged_bytes);
  PutLittle(row, record.inode);
  row += record.token;
  row += hint;
  AppendChecksum(row);
  return row;
}

Result<ObjectRecord> DecodeObject(std::string_view row) {
  RETURN_IF_ERROR(CheckFrame(row, kObjectHeadBytes, "object"));
  const size_t token = GetLittle<uint16_t>(row, 4);
  const size_t hint = GetLittle<uint16_t>(row, 6);
  ObjectRecord record;
  record.phase = static_cast<ObjectPhase>(row[1]);
  record.suspect = (static_cast<uint8_t>(row[2]) & kSuspectFlag) != 0;
  record.size = GetLittle<uint64_t>(row, 8);
  record.part_length = GetLittle<uint64_t>(row, 16);
  record.charged_bytes = GetLittle<uint64_t>(row, 24);
  record.inode = GetLittle<uint64_t>(row, 32);
  if (record.phase > ObjectPhase::kSealed || record.part_length == 0 ||
      row.size() != kObjectHeadBytes + token + hint + kChecksumBytes) {
    return Status(Code::kCorruption, "object row holds impossible values");
  }
  record.token = row.substr(kObjectHeadBytes, token);
  record.name_hint = row.substr(kObjectHeadBytes + token, hint);
  return record;
}

std::string EncodePartKey(const PartKey& key) {
  std::string bytes = EncodeId(key.object);
  const uint32_t index = ToInt(key.part);
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(index >> shift);
  return bytes;
}

Result<PartKey> DecodePartKey(std::string_view bytes) {
  if (bytes.size() != kPartKeyBytes) return Status(Code::kCorruption, "part key has a wrong length");
  PartKey key;
  ASSIGN_OR_RETURN(key.object, DecodeId(bytes.substr(0, 16)));
  uint32_t index = 0;
  for (size_t i = 16; i < kPartKeyBytes; ++i) index = index << 8 | static_cast<uint8_t>(bytes[i]);
  key.part = static_cast<PartIndex>(index);
  return key;
}

std::string EncodePart(const PartKey& key, const PartRecord& record) {
  std::string row;
  row.reserve(kPartBytes);
  PutLittle(row, kRowVersion);
  row.append(3, '\0');
  PutLittle(row, record.length);
  PutLittle(row, record.checksum);
  PutLittle(row, ChecksumOf(EncodePartKey(key) + row));
  return row;
}

Result<PartRecord> DecodePart(const PartKey& key, std::string_view row) {
  if (row.size() != kPartBytes) return Status(Code::kCorruption, "part row has a wrong length");
  if (static_cast<uint8_t>(row[0]) != kRowVersion) {
    return Status(Code::kUnsupported, "part row has version " + std::to_string(static_cast<uint8_t>(row[0])));
  }
  if (GetLittle<uint64_t>(row, 16) != ChecksumOf(EncodePartKey(key) + std::string(row.substr(0, 16)))) {
    return Status(Code::kCorruption, "part row does not fit its checksum");
  }
  return PartRecord{GetLittle<uint32_t>(row, 4), GetLittle<uint64_t>(row, 8)};
}

std::string EncodeRun(const RunRecord& record) {
  std::string row;
  PutLittle(row, kRowVersion);
  PutLittle(row, static_cast<uint8_t>(record.clean ? 1 : 0));
  PutLittle(row, uint16_t{0});
  row += record.boot_id;
  AppendChecksum(row);
  return row;
}

Result<RunRecord> DecodeRun(std::string_view row) {
  RETURN_IF_ERROR(CheckFrame(row, kRunHeadBytes, "run"));
  return RunRecord{std::string(row.substr(kRunHeadBytes, row.size() - kRunHeadBytes - kChecksumBytes)),
                   row[1] != 0};
}

std::string EncodeId(const ObjectId& id) {
  return std::string(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
}

Result<ObjectId> DecodeId(std::string_view bytes) {
  ObjectId id;
  if (bytes.size() != id.bytes.size()) return Status(Code::kCorruption, "object key has a wrong length");
  std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
  return id;
}

std::string EncodeUse(uint64_t used_at_us) {
  std::string row;
  PutLittle(row, used_at_us);
  return row;
}

Result<uint64_t> DecodeUse(std::string_view bytes) {
  if (bytes.size() != sizeof(uint64_t)) return Status(Code::kCorruption, "use row has a wrong length");
  return GetLittle<uint64_t>(bytes, 0);
}

}  // namespace stoker
