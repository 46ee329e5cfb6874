#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cache/base/ids.h"
#include "cache/base/result.h"

namespace stoker {

// The index's rows as bytes: docs/on_disk_format.md. Pure. A decoder answers kCorruption for bytes that do
// not fit their checksum and kUnsupported for a version it does not know; either way the row is as good as
// absent.

enum class ObjectPhase : uint8_t {
  kIncomplete = 0,  // parts as the parts column family says
  kComplete = 1,    // every part is resident; not known to be durable
  kSealed = 2,      // complete, and bytes and row were synced to the disk
};

/// One object.
struct ObjectRecord {
  ObjectPhase phase = ObjectPhase::kIncomplete;
  /// The machine went down before its parts were durable: compare with their checksums before first use.
  bool suspect = false;
  uint64_t size = 0;
  uint64_t part_length = 0;
  uint64_t charged_bytes = 0;  // allocated bytes when the row was written; binding once sealed
  uint64_t inode = 0;          // of the object file; known once sealed, else 0
  std::string token;           // FileVersion::token
  std::string name_hint;       // UFS path, at most kMaxNameHint bytes of it

  static constexpr size_t kMaxToken = 65535;
  static constexpr size_t kMaxNameHint = 4096;
  friend bool operator==(const ObjectRecord&, const ObjectRecord&) = default;
};
std::string EncodeObject(const ObjectRecord& record);
Result<ObjectRecord> DecodeObject(std::string_view bytes);

/// One resident part. Its checksum covers its key too, so that a row cannot pass for another's.
struct PartRecord {
  uint32_t length = 0;
  uint64_t checksum = 0;
  friend bool operator==(const PartRecord&, const PartRecord&) = default;
};
inline constexpr size_t kPartKeyBytes = 20;
/// Object id, then the part's index big-endian: rows of one object lie together, in order.
std::string EncodePartKey(const PartKey& key);
Result<PartKey> DecodePartKey(std::string_view bytes);
std::string EncodePart(const PartKey& key, const PartRecord& record);
Result<PartRecord> DecodePart(const PartKey& key, std::string_view bytes);

/// The run that last had the directory open.
struct RunRecord {
  std::string boot_id;  // of the machine, 36 characters
  bool clean = false;   // it ended with all it had written durable
  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};
std::string EncodeRun(const RunRecord& record);
Result<RunRecord> DecodeRun(std::string_view bytes);

std::string EncodeId(const ObjectId& id);
Result<ObjectId> DecodeId(std::string_view bytes);
/// Microseconds since 1970.
std::string EncodeUse(uint64_t used_at_us);
Result<uint64_t> DecodeUse(std::string_view bytes);

}  // namespace stoker
