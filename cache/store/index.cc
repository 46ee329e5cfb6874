#include "cache/store/index.h"

#include <fcntl.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "cache/base/fd.h"
#include "cache/base/units.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STOKER_UNDER_TSAN 1
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif
#endif

namespace stoker {
namespace {

// Memory of the index: bounded whatever the number of objects.
constexpr size_t kBlockCacheBytes = 32 * kMiB;
constexpr size_t kWriteBufferBytes = 8 * kMiB;       // per column family
constexpr size_t kAllWriteBuffersBytes = 32 * kMiB;  // together
constexpr int kMaxOpenTables = 256;                  // descriptors
constexpr size_t kMaxInfoLogBytes = kMiB;
/// Opening writes a manifest and a log, besides tables of what the last log held.
constexpr uint64_t kOpenNeedsBytes = 2 * kMiB;
/// Up to so many parts are deleted one by one; a range deletion costs every later read a little until it is
/// compacted away, so it is kept for large objects.
constexpr size_t kMaxSingleDeletes = 256;

constexpr char kRunKey[] = "run";
constexpr char kRemovalPrefix[] = "remove/";

/// In the order of their handles. names, jobs and pending are there from the start so that later versions
/// find them.
enum Family : size_t { kDefault, kObjects, kParts, kUses, kNames, kJobs, kPending, kFamilies };
constexpr const char* kFamilyNames[kFamilies] = {"default", "objects", "parts",  "uses",
                                                 "names",   "jobs",    "pending"};

Status FromRocks(const rocksdb::Status& status, const char* what) {
  if (status.ok()) return Status::Ok();
  Code code = Code::kIo;
  if (status.IsNoSpace()) code = Code::kNoSpace;
  if (status.IsCorruption()) code = Code::kCorruption;
  if (status.IsNotFound()) code = Code::kNotFound;
  return {code, std::string("index: ") + what + ": " + status.ToString()};
}

/// A write into the database, for ThreadSanitizer builds: the packaged RocksDB is not instrumented, so the
/// sanitizer does not see how writers hand their batches to the one of them who appends them all, and takes
/// that for a race. This thread's accesses do not count meanwhile; those before and after do.
class UnseenBySanitizer {
 public:
#if defined(STOKER_UNDER_TSAN)
  UnseenBySanitizer() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~UnseenBySanitizer() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  UnseenBySanitizer() {}
  ~UnseenBySanitizer() {}
#endif
  UnseenBySanitizer(const UnseenBySanitizer&) = delete;
  UnseenBySanitizer& operator=(const UnseenBySanitizer&) = delete;
};

rocksdb::Slice Slice(std::string_view bytes) {
  return {bytes.data(), bytes.size()};
}
std::string_view View(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

}  // namespace

namespace {

/// Debian's RocksDB is built with assertions, and a full disk while it opens trips one, which ends the
/// process. So the room is asked for first.
Status CheckRoom(const std::string& path) {
  uint64_t needed = kOpenNeedsBytes;
  std::error_code error_code;  // what cannot be listed or sized is not counted; opening meets it again
  for (std::filesystem::directory_iterator it(path, error_code), end; !error_code && it != end;
       it.increment(error_code)) {
    std::error_code gone;
    const uint64_t size = it->path().extension() == ".log" ? it->file_size(gone) : 0;
    if (!gone) needed += size;  // it is written again, as tables
  }
  const std::string name = path + "/room";
  const Fd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  int error = fd.valid() ? ::posix_fallocate(fd.get(), 0, static_cast<off_t>(needed)) : errno;
  if (fd.valid() && ::unlink(name.c_str()) != 0 && error == 0) error = errno;
  if (error == 0) return Status::Ok();
  const Status status = Status::FromErrno(error, "index: making room in " + path);
  if (status.code() != Code::kNoSpace) return status;
  return {Code::kNoSpace,
          "the cache disk is full: opening the index in " + path + " needs " + FormatBytes(needed) +
              "; free some space there or choose another cache.dirs",
          error};
}

}  // namespace

struct Index::Database {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> families;

  ~Database() {
    if (db == nullptr) return;
    for (rocksdb::ColumnFamilyHandle* family : families) {
      // Handles only; a failure leaves nothing behind that Close() does not end.
      db->DestroyColumnFamilyHandle(family).PermitUncheckedError();
    }
    // What is in the log is found again when the database is next opened, whatever Close() says.
    db->Close().PermitUncheckedError();
  }

  Status Write(rocksdb::WriteBatch& batch, Durability durability, const char* what) {
    rocksdb::WriteOptions options;
    options.sync = durability == Durability::kMachine;
    const UnseenBySanitizer unseen;
    return FromRocks(db->Write(options, &batch), what);
  }
  /// nullopt: no such row.
  Result<std::optional<std::string>> Get(Family family, std::string_view key) {
    std::string value;
    const rocksdb::Status status = db->Get(rocksdb::ReadOptions(), families[family], Slice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return FromRocks(status, "reading a row");
    return std::optional<std::string>(std::move(value));
  }
  /// Rows whose key begins with `prefix`, in order, until `visit` says false.
  Status Scan(Family family, std::string_view prefix,
              const std::function<bool(std::string_view key, std::string_view value)>& visit) {
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions(), families[family]));
    for (it->Seek(Slice(prefix)); it->Valid() && it->key().starts_with(Slice(prefix)); it->Next()) {
      if (!visit(View(it->key()), View(it->value()))) break;
    }
    return FromRocks(it->status(), "reading rows");
  }
};

Index::Index(std::unique_ptr<Database> database) : database_(std::move(database)) {}
Index::~Index() = default;

Result<std::unique_ptr<Index>> Index::Open(const std::string& path) {
  RETURN_IF_ERROR(CheckRoom(path));
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_open_files = kMaxOpenTables;
  options.db_write_buffer_size = kAllWriteBuffersBytes;
  options.max_background_jobs = 2;
  options.keep_log_file_num = 2;
  options.max_log_file_size = kMaxInfoLogBytes;
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kBlockCacheBytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  rocksdb::ColumnFamilyOptions family_options;
  family_options.write_buffer_size = kWriteBufferBytes;
  family_options.compression = rocksdb::kNoCompression;  // ids and checksums do not shrink
  family_options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));

  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const char* name : kFamilyNames) descriptors.emplace_back(name, family_options);
  auto database = std::make_unique<Database>();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(options, path, descriptors, &database->families, &db);
  database->db.reset(db);
  if (!opened.ok()) {
    Status status = FromRocks(opened, "opening");
    return Status(status.code(), status.message() + "; to start with an empty cache remove " + path);
  }
  return std::unique_ptr<Index>(new Index(std::move(database)));
}

Result<std::optional<RunRecord>> Index::GetRun() {
  std::optional<std::string> row;
  ASSIGN_OR_RETURN(row, database_->Get(kDefault, kRunKey));
  if (!row) return std::optional<RunRecord>();
  Result<RunRecord> run = DecodeRun(*row);
  if (!run.ok()) return std::optional<RunRecord>();
  return std::optional<RunRecord>(std::move(run).value());
}

Result<std::optional<ObjectRecord>> Index::GetObject(const ObjectId& id) {
  std::optional<std::string> row;
  ASSIGN_OR_RETURN(row, database_->Get(kObjects, EncodeId(id)));
  if (!row) return std::optional<ObjectRecord>();
  Result<ObjectRecord> record = DecodeObject(*row);
  if (!record.ok()) return std::optional<ObjectRecord>();
  return std::optional<ObjectRecord>(std::move(record).value());
}

Result<std::optional<PartRecord>> Index::GetPart(const PartKey& key) {
  std::optional<std::string> row;
  ASSIGN_OR_RETURN(row, database_->Get(kParts, EncodePartKey(key)));
  if (!row) return std::optional<PartRecord>();
  Result<PartRecord> record = DecodePart(key, *row);
  if (!record.ok()) return std::optional<PartRecord>();
  return std::optional<PartRecord>(*record);
}

Result<std::vector<Index::StoredPart>> Index::GetParts(const ObjectId& id) {
  std::vector<StoredPart> parts;
  RETURN_IF_ERROR(
      database_->Scan(kParts, EncodeId(id), [&](std::string_view key_bytes, std::string_view row) {
        const Result<PartKey> key = DecodePartKey(key_bytes);
        if (!key.ok()) return true;
        const Result<PartRecord> record = DecodePart(*key, row);
        if (record.ok()) parts.push_back({key.value().part, *record});
        return true;
      }));
  return parts;
}

Result<bool> Index::HasParts(const ObjectId& id) {
  bool found = false;
  RETURN_IF_ERROR(database_->Scan(kParts, EncodeId(id), [&](std::string_view, std::string_view) {
    found = true;
    return false;
  }));
  return found;
}

Status Index::PutRun(const RunRecord& run, Durability durability) {
  rocksdb::WriteBatch batch;
  RETURN_IF_ERROR(FromRocks(batch.Put(database_->families[kDefault], kRunKey, EncodeRun(run)), "batching"));
  return database_->Write(batch, durability, "writing the run");
}

Status Index::PutObjects(const std::vector<std::pair<ObjectId, ObjectRecord>>& objects,
                         Durability durability) {
  rocksdb::WriteBatch batch;
  for (const auto& [id, record] : objects) {
    RETURN_IF_ERROR(
        FromRocks(batch.Put(database_->families[kObjects], Slice(EncodeId(id)), Slice(EncodeObject(record))),
                  "batching"));
  }
  return database_->Write(batch, durability, "writing objects");
}

Status Index::PutPart(const PartKey& key, const PartRecord& record) {
  const UnseenBySanitizer unseen;
  return FromRocks(database_->db->Put(rocksdb::WriteOptions(), database_->families[kParts],
                                      Slice(EncodePartKey(key)), Slice(EncodePart(key, record))),
                   "writing a part");
}

Status Index::DeletePart(const PartKey& key) {
  const UnseenBySanitizer unseen;
  return FromRocks(
      database_->db->Delete(rocksdb::WriteOptions(), database_->families[kParts], Slice(EncodePartKey(key))),
      "deleting a part");
}

Status Index::PutUses(const std::vector<std::pair<ObjectId, uint64_t>>& uses) {
  rocksdb::WriteBatch batch;
  for (const auto& [id, used_at_us] : uses) {
    RETURN_IF_ERROR(
        FromRocks(batch.Put(database_->families[kUses], Slice(EncodeId(id)), Slice(EncodeUse(used_at_us))),
                  "batching"));
  }
  return database_->Write(batch, Durability::kProcess, "writing uses");
}

Status Index::RemoveObjects(const std::vector<ObjectId>& ids, Durability durability) {
  rocksdb::WriteBatch batch;
  for (const ObjectId& id : ids) {
    const std::string key = EncodeId(id);
    std::vector<std::string> parts;
    RETURN_IF_ERROR(database_->Scan(kParts, key, [&](std::string_view part_key, std::string_view) {
      parts.emplace_back(part_key);
      return parts.size() <= kMaxSingleDeletes;
    }));
    rocksdb::ColumnFamilyHandle* const part_family = database_->families[kParts];
    if (parts.size() > kMaxSingleDeletes) {
      // Part keys have four bytes after the id: five bytes 0xff lie behind the last of them.
      RETURN_IF_ERROR(FromRocks(
          batch.DeleteRange(part_family, Slice(key), Slice(key + std::string(5, '\xff'))), "batching"));
    } else {
      for (const std::string& part : parts) {
        RETURN_IF_ERROR(FromRocks(batch.Delete(part_family, Slice(part)), "batching"));
      }
    }
    RETURN_IF_ERROR(FromRocks(batch.Delete(database_->families[kObjects], Slice(key)), "batching"));
    RETURN_IF_ERROR(FromRocks(batch.Delete(database_->families[kUses], Slice(key)), "batching"));
    RETURN_IF_ERROR(FromRocks(
        batch.Put(database_->families[kDefault], Slice(kRemovalPrefix + key), rocksdb::Slice()), "batching"));
  }
  return database_->Write(batch, durability, "removing objects");
}

Status Index::ForgetRemovals(const std::vector<ObjectId>& ids) {
  rocksdb::WriteBatch batch;
  for (const ObjectId& id : ids) {
    RETURN_IF_ERROR(FromRocks(
        batch.Delete(database_->families[kDefault], Slice(kRemovalPrefix + EncodeId(id))), "batching"));
  }
  return database_->Write(batch, Durability::kProcess, "forgetting removals");
}

Result<std::vector<ObjectId>> Index::GetRemovals() {
  std::vector<ObjectId> ids;
  RETURN_IF_ERROR(database_->Scan(kDefault, kRemovalPrefix, [&](std::string_view key, std::string_view) {
    const Result<ObjectId> id = DecodeId(key.substr(std::strlen(kRemovalPrefix)));
    if (id.ok()) ids.push_back(*id);
    return true;
  }));
  return ids;
}

Status Index::ForEachObject(const ObjectVisitor& visit) {
  // Both families are ordered by id: one pass over each, side by side.
  const std::unique_ptr<rocksdb::Iterator> uses(
      database_->db->NewIterator(rocksdb::ReadOptions(), database_->families[kUses]));
  uses->SeekToFirst();
  RETURN_IF_ERROR(database_->Scan(kObjects, "", [&](std::string_view key, std::string_view row) {
    const Result<ObjectId> id = DecodeId(key);
    if (!id.ok()) return true;
    while (uses->Valid() && uses->key().compare(Slice(key)) < 0) uses->Next();
    uint64_t used_at_us = 0;
    if (uses->Valid() && uses->key() == Slice(key)) {
      if (const Result<uint64_t> use = DecodeUse(View(uses->value())); use.ok()) used_at_us = *use;
    }
    Result<ObjectRecord> record = DecodeObject(row);
    if (record.ok()) {
      visit(*id, std::move(record).value(), used_at_us);
    } else {
      visit(*id, std::nullopt, used_at_us);
    }
    return true;
  }));
  return FromRocks(uses->status(), "reading uses");
}

Result<std::vector<std::pair<ObjectId, std::optional<ObjectRecord>>>> Index::GetObjectsAfter(
    const ObjectId* after, size_t limit) {
  std::vector<std::pair<ObjectId, std::optional<ObjectRecord>>> page;
  const std::unique_ptr<rocksdb::Iterator> it(
      database_->db->NewIterator(rocksdb::ReadOptions(), database_->families[kObjects]));
  // A zero byte behind the id: the least key that is greater than it.
  if (after != nullptr) {
    it->Seek(Slice(EncodeId(*after) + std::string(1, '\0')));
  } else {
    it->SeekToFirst();
  }
  for (; it->Valid() && page.size() < limit; it->Next()) {
    const Result<ObjectId> id = DecodeId(View(it->key()));
    if (!id.ok()) continue;
    Result<ObjectRecord> record = DecodeObject(View(it->value()));
    page.emplace_back(*id, record.ok() ? std::optional(std::move(record).value()) : std::nullopt);
  }
  RETURN_IF_ERROR(FromRocks(it->status(), "reading objects"));
  return page;
}

Result<bool> Index::IsNew() {
  bool found = false;
  const auto see = [&](std::string_view, std::string_view) {
    found = true;
    return false;
  };
  RETURN_IF_ERROR(database_->Scan(kDefault, "", see));
  if (!found) RETURN_IF_ERROR(database_->Scan(kObjects, "", see));
  return !found;
}

Status Index::Sync() {
  return FromRocks(database_->db->SyncWAL(), "syncing");
}

}  // namespace stoker
