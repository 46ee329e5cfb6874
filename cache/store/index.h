#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/base/ids.h"
#include "cache/base/result.h"
#include "cache/store/records.h"

namespace stoker {

/// The rows that say what the object files hold; the only file that knows RocksDB. Writes survive the death
/// of the process at once, and the machine's only where `sync` says so. Any thread; no order among concurrent
/// writers of one id (the store sees to it). Errors: kIo, kNoSpace, kCorruption.
class Index {
 public:
  enum class Durability { kProcess, kMachine };

  struct StoredPart {
    PartIndex part{};
    PartRecord record;
  };

  /// Opens or makes the database at `path` (a directory that exists).
  static Result<std::unique_ptr<Index>> Open(const std::string& path);
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  /// Absent, and for rows that cannot be read: nullopt.
  Result<std::optional<RunRecord>> GetRun();
  Result<std::optional<ObjectRecord>> GetObject(const ObjectId& id);
  Result<std::optional<PartRecord>> GetPart(const PartKey& key);
  /// In order; rows that cannot be read are left out.
  Result<std::vector<StoredPart>> GetParts(const ObjectId& id);
  Result<bool> HasParts(const ObjectId& id);

  Status PutRun(const RunRecord& run, Durability durability);
  Status PutObjects(const std::vector<std::pair<ObjectId, ObjectRecord>>& objects, Durability durability);
  Status PutObject(const ObjectId& id, const ObjectRecord& record) {
    return PutObjects({{id, record}}, Durability::kProcess);
  }
  Status PutPart(const PartKey& key, const PartRecord& record);
  Status DeletePart(const PartKey& key);
  /// Coarse last uses, microseconds since 1970.
  Status PutUses(const std::vector<std::pair<ObjectId, uint64_t>>& uses);

  /// Deletes all rows of these objects and leaves a note for each that its file is to be unlinked, all or
  /// nothing.
  Status RemoveObjects(const std::vector<ObjectId>& ids, Durability durability);
  /// The files are gone: takes the notes back.
  Status ForgetRemovals(const std::vector<ObjectId>& ids);
  Result<std::vector<ObjectId>> GetRemovals();

  /// Every object row, with its last use (0: none known). A row that cannot be read comes as nullopt.
  using ObjectVisitor =
      std::function<void(const ObjectId&, std::optional<ObjectRecord>, uint64_t used_at_us)>;
  Status ForEachObject(const ObjectVisitor& visit);
  /// At most `limit` objects behind `after` (null: from the first), in order of their ids. Rows that cannot
  /// be read come as nullopt.
  Result<std::vector<std::pair<ObjectId, std::optional<ObjectRecord>>>> GetObjectsAfter(const ObjectId* after,
                                                                                        size_t limit);
  /// No object was ever recorded, and no run: the database has just been made.
  Result<bool> IsNew();
  Status Sync();

 private:
  struct Database;
  explicit Index(std::unique_ptr<Database> database);
  std::unique_ptr<Database> database_;
};

}  // namespace stoker
