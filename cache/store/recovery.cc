#include "cache/store/recovery.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <utility>

#include "cache/base/log.h"

namespace stoker {
namespace {

/// Rows in one write batch while recovering: bounds its memory.
constexpr size_t kBatch = 256;

Status RemoveAll(Index& index, const Disk& disk, const std::vector<ObjectId>& ids) {
  for (size_t begin = 0; begin < ids.size(); begin += kBatch) {
    const std::vector<ObjectId> some(
        ids.begin() + static_cast<ptrdiff_t>(begin),
        ids.begin() + static_cast<ptrdiff_t>(std::min(ids.size(), begin + kBatch)));
    RETURN_IF_ERROR(index.RemoveObjects(some, Index::Durability::kMachine));
    for (const ObjectId& id : some) RETURN_IF_ERROR(disk.UnlinkObject(id));
    RETURN_IF_ERROR(index.ForgetRemovals(some));
  }
  return Status::Ok();
}

/// Removals that were cut short between index and file.
Status FinishRemovals(Index& index, const Disk& disk) {
  std::vector<ObjectId> ids;
  ASSIGN_OR_RETURN(ids, index.GetRemovals());
  if (ids.empty()) return Status::Ok();
  return RemoveAll(index, disk, ids);
}

}  // namespace

std::string CurrentBootId() {
  if (const char* text = std::getenv("STOKER_BOOT_ID"); text != nullptr && *text != '\0') return text;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;  // empty where /proc is hidden: never equal to a recorded one, see Recover()
}

Result<std::vector<RecoveredObject>> Recover(Index& index, const Disk& disk, const std::string& boot_id) {
  bool is_new = false;
  ASSIGN_OR_RETURN(is_new, index.IsNew());
  if (is_new) {
    // The index was made just now: whatever files there are, nothing is known about them.
    RETURN_IF_ERROR(disk.UnlinkAll());
  }
  RETURN_IF_ERROR(FinishRemovals(index, disk));

  std::optional<RunRecord> last;
  ASSIGN_OR_RETURN(last, index.GetRun());
  const bool clean = last && last->clean;
  const bool trusted = last && (clean || (!boot_id.empty() && last->boot_id == boot_id));

  std::vector<RecoveredObject> objects;
  std::vector<std::pair<ObjectId, ObjectRecord>> unsealed;
  std::vector<ObjectId> dropped;
  RETURN_IF_ERROR(
      index.ForEachObject([&](const ObjectId& id, std::optional<ObjectRecord> record, uint64_t used_at_us) {
        if (!record) {
          dropped.push_back(id);
        } else if (record->phase == ObjectPhase::kSealed) {
          objects.push_back({id, record->charged_bytes, used_at_us, record->phase, false, false});
        } else {
          objects.push_back({id, 0, used_at_us, record->phase, record->suspect || !trusted, !clean});
          unsealed.emplace_back(id, *std::move(record));
        }
      }));

  // objects and unsealed are in the same order: walk the unsealed ones of both together.
  std::vector<std::pair<ObjectId, ObjectRecord>> suspects;
  std::vector<RecoveredObject> kept;
  kept.reserve(objects.size());
  size_t next = 0;
  for (RecoveredObject& object : objects) {
    if (object.phase != ObjectPhase::kSealed) {
      auto& [id, record] = unsealed[next++];
      const Result<struct stat> info = disk.StatObject(id);
      bool keep = info.ok() && S_ISREG(info.value().st_mode) &&
                  static_cast<uint64_t>(info.value().st_size) == record.size;
      if (keep && record.phase == ObjectPhase::kIncomplete) {
        ASSIGN_OR_RETURN(keep, index.HasParts(id));
      }
      if (!keep) {
        dropped.push_back(id);
        continue;
      }
      object.charged_bytes = AllocatedBytes(info.value());
      if (object.suspect && !record.suspect) {
        record.suspect = true;
        suspects.emplace_back(id, std::move(record));
      }
    }
    kept.push_back(object);
  }
  // The marks must be there before the new run is: were this run killed, the next one would trust its boot
  // id.
  for (size_t begin = 0; begin < suspects.size(); begin += kBatch) {
    const size_t end = std::min(suspects.size(), begin + kBatch);
    RETURN_IF_ERROR(index.PutObjects(
        {suspects.begin() + static_cast<ptrdiff_t>(begin), suspects.begin() + static_cast<ptrdiff_t>(end)},
        Index::Durability::kProcess));
  }
  RETURN_IF_ERROR(index.PutRun({boot_id, false}, Index::Durability::kMachine));
  RETURN_IF_ERROR(RemoveAll(index, disk, dropped));
  if (!kept.empty() || !dropped.empty()) {
    LogInfo("store", std::to_string(kept.size()) + " objects found in " + disk.dir() + ", " +
                         std::to_string(suspects.size()) + " to be verified before use, " +
                         std::to_string(dropped.size()) + " unfinished ones dropped");
  }
  return kept;
}

}  // namespace stoker
