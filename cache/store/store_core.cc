#include "cache/store/store_core.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "cache/base/check.h"
#include "cache/base/checksum.h"
#include "cache/base/log.h"
#include "cache/base/sync_point.h"

namespace stoker {
namespace {

/// An object that is found damaged while it is being loaded is dropped and made anew; more often than this in
/// one call, somebody is at work on the directory and it is better to say so.
constexpr int kMaxLoadTries = 4;
constexpr size_t kVerifyChunkBytes = kMiB;

uint64_t WallMicros() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

/// What an object of this size occupies when it is whole.
uint64_t FootprintOf(uint64_t size) {
  return AlignUp(size, kPageBytes);
}

int64_t Difference(uint64_t now, uint64_t before) {
  return static_cast<int64_t>(now) - static_cast<int64_t>(before);
}

/// What the file tells about itself against what the row says: wrong in any point, it is not the file we
/// wrote. Half of the blocks: file systems may store the same bytes in fewer blocks later, but never none.
bool LooksLikeOurs(const struct stat& info, uint64_t size, ObjectPhase phase, uint64_t inode,
                   uint64_t charged) {
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) != size) return false;
  if (phase != ObjectPhase::kSealed) return true;
  return info.st_ino == inode && AllocatedBytes(info) >= charged / 2;
}

}  // namespace

StoreCore::StoreCore(const ObjectStoreOptions& options, std::unique_ptr<Disk> disk,
                     std::unique_ptr<Index> index, std::unique_ptr<EvictionPolicy> policy,
                     std::string boot_id, Metrics& metrics, Clock& clock)
    : options_(options),
      disk_(std::move(disk)),
      index_(std::move(index)),
      boot_id_(std::move(boot_id)),
      metrics_(metrics),
      clock_(clock),
      space_(options.limit_bytes, metrics.cache_used_bytes),
      files_(options.max_open_files),
      policy_(std::move(policy)) {
  metrics_.cache_limit_bytes.Add(static_cast<int64_t>(options.limit_bytes));
}

void StoreCore::Start(const std::vector<RecoveredObject>& objects) {
  {
    MutexLock lock(mu_);
    table_.reserve(objects.size());
    std::vector<Entry*> by_use;
    by_use.reserve(objects.size());
    for (const RecoveredObject& object : objects) {
      const auto it = table_.try_emplace(object.id).first;
      Entry& entry = it->second;
      entry.id = &it->first;
      entry.charged = object.charged_bytes;
      entry.used_at_us = object.used_at_us;
      entry.suspect = object.suspect;
      entry.written = object.unsynced;
      entry.sealed = object.phase == ObjectPhase::kSealed;
      SetRecordedLocked(entry);
      if (object.phase != ObjectPhase::kIncomplete) SetCompleteLocked(entry);
      if (object.phase == ObjectPhase::kComplete && !object.suspect) to_seal_.push_back(object.id);
      space_.Charge(static_cast<int64_t>(object.charged_bytes));
      by_use.push_back(&entry);
    }
    std::sort(by_use.begin(), by_use.end(),
              [](const Entry* a, const Entry* b) { return a->used_at_us < b->used_at_us; });
    for (Entry* entry : by_use) BecomeCandidateLocked(*entry);
    over_limit_ = true;  // the limit may be lower than it was
  }
  RefreshDiskRoom();
  thread_ = std::thread([this] { Background(); });
}

void StoreCore::SetRecordedLocked(Entry& entry) {
  if (std::exchange(entry.recorded, true)) return;
  ++recorded_;
  metrics_.cache_objects.Add();
}

void StoreCore::SetCompleteLocked(Entry& entry) {
  if (std::exchange(entry.complete, true)) return;
  ++complete_;
  metrics_.cache_complete_objects.Add();
}

void StoreCore::EraseEntryLocked(Table::iterator it) {
  Entry& entry = it->second;
  STOKER_CHECK(!entry.candidate);
  if (entry.recorded) {
    --recorded_;
    metrics_.cache_objects.Sub();
  }
  if (entry.complete) {
    --complete_;
    metrics_.cache_complete_objects.Sub();
  }
  if (entry.protectors > 0) {
    for (auto& [group, members] : groups_) members.erase(it->first);
  }
  table_.erase(it);
}

void StoreCore::BecomeCandidateLocked(Entry& entry) {
  if (entry.candidate || entry.protectors > 0 || entry.active != nullptr || entry.going || entry.broken)
    return;
  entry.candidate = true;
  candidate_bytes_ += entry.charged;
  policy_->Insert(entry, std::exchange(entry.used, false));
  ShowPolicyLocked();
}

void StoreCore::StopCandidateLocked(Entry& entry) {
  if (!std::exchange(entry.candidate, false)) return;
  candidate_bytes_ -= entry.charged;
  policy_->Erase(entry);
}

void StoreCore::TouchLocked(Entry& entry) {
  entry.used_at_us = WallMicros();
  if (!std::exchange(entry.use_noted, true)) used_.push_back(*entry.id);
}

Status StoreCore::Failed(const Status& status) {
  metrics_.cache_errors.Add();
  failures_log_.Log(LogLevel::kWarn, "store", status.message());
  return status;
}

// ---------------------------------------------------------------------------------------------------------------
// Holding and letting go
// ---------------------------------------------------------------------------------------------------------------

std::shared_ptr<ObjectState> StoreCore::NewStateLocked(Entry& entry) {
  std::shared_ptr<ObjectState> state(new ObjectState(*this, *entry.id),
                                     [this](ObjectState* last) { Release(last); });
  {
    MutexLock lock(state->mu);
    state->recorded = entry.recorded;
    state->charged = entry.charged;
  }
  entry.active = state.get();
  metrics_.cache_pinned_objects.Add();
  return state;
}

Result<std::shared_ptr<ObjectState>> StoreCore::Hold(const ObjectId& id, const FileVersion* version,
                                                     const std::string& name_hint, ProtectGroup group,
                                                     bool create) {
  Status status;
  for (int attempt = 0; attempt < kMaxLoadTries; ++attempt) {
    std::shared_ptr<ObjectState> state;
    bool loader = false;
    bool recorded = false;
    {
      MutexLock lock(mu_);
      auto it = table_.find(id);
      // Somebody is removing it, or its last holder is just letting go: both end soon.
      while (it != table_.end()) {
        if (!it->second.going) {
          if (it->second.active == nullptr) break;
          state = it->second.active->weak_from_this().lock();
          if (state != nullptr) break;
        }
        changed_.Wait(mu_);
        it = table_.find(id);
      }
      if (it == table_.end()) {
        if (!create) return Status(Code::kNotFound, "object is not in the cache");
        it = table_.try_emplace(id).first;
        it->second.id = &it->first;
      }
      Entry& entry = it->second;
      if (entry.broken) return Status(Code::kIo, "index: rows of this object could not be deleted");
      recorded = entry.recorded;
      if (state == nullptr) {
        StopCandidateLocked(entry);
        state = NewStateLocked(entry);
        loader = true;
      }
      if (version != nullptr) {
        TouchLocked(entry);
        // A new use. Others who come while it lasts are part of it: what they read is in their page cache.
        if (loader) policy_->Use(id, recorded, FootprintOf(version->size), space_.capacity_bytes());
        entry.used = true;
      }
      JoinGroupLocked(entry, group);
    }
    if (loader) {
      if (recorded) {
        status = Load(*state, version);
      } else {
        STOKER_CHECK(version != nullptr);
        state->parts = std::make_unique<PartMap>(version->size, options_.part_length);
        state->token = version->token;
        state->name_hint = name_hint.substr(0, ObjectRecord::kMaxNameHint);
      }
      MutexLock lock(state->mu);
      state->load = status.ok() ? ObjectState::Load::kReady : ObjectState::Load::kFailed;
      state->load_error = status;
      state->cv.NotifyAll();
    } else {
      MutexLock lock(state->mu);
      while (state->load == ObjectState::Load::kLoading) state->cv.Wait(state->mu);
      status = state->load_error;
    }
    if (status.ok()) {
      if (version != nullptr && (state->parts->size() != version->size || state->token != version->token)) {
        return Status(Code::kInternal, "two versions with one object id");
      }
      return state;
    }
    if (status.code() != Code::kStale) return status;
    status = Status::Ok();
  }
  return Status(Code::kIo, "cache directory " + disk_->dir() + " is being changed by somebody else");
}

Status StoreCore::Load(ObjectState& state, const FileVersion* version) {
  Result<std::optional<ObjectRecord>> row = index_->GetObject(state.id);
  if (!row.ok()) return Failed(row.status());
  if (!row.value() || !PartMap::Fits(row.value()->size, row.value()->part_length) ||
      (version != nullptr && (row.value()->size != version->size || row.value()->token != version->token))) {
    Remove(state.id, {.only = &state, .lost = true, .damaged = std::nullopt});
    return {Code::kStale, "object row is missing or not this object's"};
  }
  ObjectRecord record = std::move(*row.value());
  state.parts = std::make_unique<PartMap>(record.size, record.part_length);
  state.token = std::move(record.token);
  state.name_hint = std::move(record.name_hint);
  {
    MutexLock lock(state.mu);
    state.phase = record.phase;
    state.suspect = record.suspect;
    state.inode = record.inode;
  }
  if (record.phase != ObjectPhase::kIncomplete && !record.suspect) {
    state.parts->SetAll();
    return Status::Ok();
  }
  Result<std::vector<Index::StoredPart>> stored = index_->GetParts(state.id);
  if (!stored.ok()) return Failed(stored.status());
  // Rows of a part that this file does not have, or has in another length, say nothing about it.
  auto& rows = stored.value();
  rows.erase(std::remove_if(rows.begin(), rows.end(),
                            [&](const Index::StoredPart& part) {
                              return ToInt(part.part) >= state.parts->count() ||
                                     part.record.length != state.parts->Range(part.part).size();
                            }),
             rows.end());
  if (record.suspect) return VerifySuspect(state, rows);
  for (const Index::StoredPart& part : rows) state.parts->Set(part.part);
  // The process died between the last part's row and the object's.
  if (state.parts->complete() && EnterWriter(state)) {
    MarkComplete(state);
    LeaveWriter(state);
  }
  return Status::Ok();
}

Status StoreCore::VerifySuspect(ObjectState& state, const std::vector<Index::StoredPart>& stored) {
  // Held open all the while: ReadChecksum() below cannot find it lost.
  const Result<std::shared_ptr<const Fd>> file = OpenFile(state);
  if (!file.ok()) {
    if (file.status().code() == Code::kCorruption) return {Code::kStale, file.status().message()};
    return file.status();
  }
  std::vector<PartIndex> damaged;
  for (const Index::StoredPart& part : stored) {
    const Result<uint64_t> checksum = ReadChecksum(state, part.part);
    if (checksum.ok() && *checksum == part.record.checksum) {
      state.parts->Set(part.part);
    } else {
      damaged.push_back(part.part);
    }
  }
  metrics_.cache_damaged_parts.Add(damaged.size());
  LogInfo("store", state.name_hint + " (" + Disk::RelativePath(state.id) +
                       "): " + std::to_string(state.parts->resident_parts()) +
                       " parts survived the machine's crash, " + std::to_string(damaged.size()) + " did not");

  if (!EnterWriter(state)) return {Code::kStale, "the object was removed"};
  const bool complete = state.parts->complete();
  ObjectRecord record;
  {
    MutexLock lock(state.mu);
    state.suspect = false;
    state.phase = complete ? ObjectPhase::kComplete : ObjectPhase::kIncomplete;
    record = RecordOf(state);
  }
  // The rows of damaged parts before the mark: without it they would be believed.
  Status status;
  for (size_t i = 0; i < damaged.size() && status.ok(); ++i)
    status = index_->DeletePart({state.id, damaged[i]});
  if (status.ok()) status = index_->PutObject(state.id, record);
  if (status.ok()) {
    MutexLock lock(mu_);
    Entry& entry = table_.find(state.id)->second;  // writers hold the entry in the table
    entry.suspect = false;
    if (complete) {
      SetCompleteLocked(entry);
      to_seal_.push_back(state.id);
      wake_.NotifyOne();
    } else if (std::exchange(entry.complete, false)) {
      --complete_;
      metrics_.cache_complete_objects.Sub();
    }
  }
  LeaveWriter(state);
  return status.ok() ? status : Failed(status);
}

void StoreCore::Release(ObjectState* state) {
  bool measure = false;
  {
    MutexLock lock(state->mu);
    measure = state->written && state->recorded && !state->detached;
    state->kept_file.reset();  // a nameless file gives its blocks back before they are booked as free
  }
  // What failed fetches have left in the file was never booked.
  std::optional<uint64_t> allocated;
  if (measure) {
    if (const Result<struct stat> info = disk_->StatObject(state->id); info.ok()) {
      allocated = AllocatedBytes(info.value());
    }
  }
  {
    MutexLock lock(mu_);
    MutexLock state_lock(state->mu);
    const auto it = table_.find(state->id);
    if (it != table_.end() && it->second.active == state) {
      Entry& entry = it->second;
      if (allocated) {
        space_.Charge(Difference(*allocated, state->charged));
        state->charged = *allocated;
      }
      entry.charged = state->charged;
      entry.written |= state->written;
      entry.active = nullptr;
      if (measure && !entry.sealed) UnsettledLocked(state->id);
      if (entry.recorded) {
        if (entry.used) TouchLocked(entry);  // the store's own looking after it is no use of it
        BecomeCandidateLocked(entry);
      } else {
        EraseEntryLocked(it);
      }
    } else {
      space_.Charge(-static_cast<int64_t>(state->charged));
    }
    changed_.NotifyAll();
  }
  metrics_.cache_pinned_objects.Sub();
  delete state;
}

Result<ObjectRef> StoreCore::Acquire(const FileVersion& version, const std::string& name_hint,
                                     ProtectGroup group) {
  if (!PartMap::Fits(version.size, options_.part_length)) {
    return Status(Code::kUnsupported,
                  "a file of " + FormatBytes(version.size) + " has more than " +
                      std::to_string(PartMap::kMaxParts) + " parts of " +
                      FormatBytesExact(options_.part_length) +
                      ": it is read without being cached (or raise prefetch.part_length)");
  }
  if (version.token.size() > ObjectRecord::kMaxToken) {
    return Status(Code::kUnsupported, "version token of " + std::to_string(version.token.size()) + " bytes");
  }
  std::shared_ptr<ObjectState> state;
  ASSIGN_OR_RETURN(state, Hold(MakeObjectId(version), &version, name_hint, group, /*create=*/true));
  return ObjectRef(std::move(state));
}

Result<ObjectRef> StoreCore::Find(const FileVersion& version) {
  std::shared_ptr<ObjectState> state;
  ASSIGN_OR_RETURN(state, Hold(MakeObjectId(version), &version, "", 0, /*create=*/false));
  if (state->parts->resident_parts() == 0 && state->parts->count() != 0) {
    return Status(Code::kNotFound, "nothing of the object is in the cache");
  }
  return ObjectRef(std::move(state));
}

// ---------------------------------------------------------------------------------------------------------------
// Files
// ---------------------------------------------------------------------------------------------------------------

bool StoreCore::EnterWriter(ObjectState& state) {
  MutexLock lock(state.mu);
  if (state.detached) return false;
  ++state.writers;
  return true;
}

void StoreCore::LeaveWriter(ObjectState& state) {
  MutexLock lock(state.mu);
  STOKER_CHECK(state.writers > 0);
  if (--state.writers == 0) state.cv.NotifyAll();
}

Result<std::shared_ptr<const Fd>> StoreCore::OpenFile(ObjectState& state) {
  std::shared_ptr<const Fd> file;
  {
    MutexLock lock(state.mu);
    while (state.opening) state.cv.Wait(state.mu);
    if (state.lost)
      return Status(Code::kCorruption, "the object's file was removed or replaced by somebody else");
    if (!state.parts->complete()) state.written = true;
    if ((file = state.file.lock()) != nullptr) return file;
    state.opening = true;
  }
  const Status status = OpenSlow(state, &file);
  {
    MutexLock lock(state.mu);
    state.opening = false;
    if (status.ok()) {
      state.file = file;
      if (state.detached) state.kept_file = file;
    }
    state.cv.NotifyAll();
  }
  if (status.ok()) return file;
  if (status.code() == Code::kCorruption) {
    damage_log_.Log(LogLevel::kWarn, "store", status.message() + "; the object is dropped");
    metrics_.cache_errors.Add();
    Remove(state.id, {.only = &state, .lost = true, .damaged = std::nullopt});
    return status;
  }
  return Failed(status);
}

Status StoreCore::OpenSlow(ObjectState& state, std::shared_ptr<const Fd>* file) {
  // While this object is being removed its name stays until the remover has opened the file itself, by way of
  // this function and one thread at a time: a recorded file can be opened by name here, attached or not.
  const bool writer = EnterWriter(state);
  bool recorded = false;
  ObjectPhase phase{};
  uint64_t inode = 0;
  uint64_t charged = 0;
  {
    MutexLock lock(state.mu);
    recorded = state.recorded;
    phase = state.phase;
    inode = state.inode;
    charged = state.charged;
  }
  Status status;
  if (!recorded && writer) {
    status = CreateFile(state, file);
  } else if (!recorded) {
    Result<Fd> made = disk_->CreateNameless(state.parts->size());
    status = made.status();
    if (made.ok()) *file = std::make_shared<const Fd>(std::move(made).value());
  } else {
    *file = files_.Find(state.id);
    if (*file == nullptr) {
      Result<Fd> opened = disk_->OpenObject(state.id);
      status = opened.status();
      if (opened.ok()) {
        *file = std::make_shared<const Fd>(std::move(opened).value());
      } else if (status.code() == Code::kNotFound || status.os_errno() == ELOOP ||
                 status.os_errno() == ENXIO || status.os_errno() == EISDIR || status.os_errno() == ENOTDIR) {
        status = Status(Code::kCorruption, status.message(), status.os_errno());
      }
    }
    if (status.ok()) {
      struct stat info = {};
      if (::fstat((*file)->get(), &info) != 0) {
        status = Status::FromErrno(errno, "cache disk: looking at an object file");
      } else if (!LooksLikeOurs(info, state.parts->size(), phase, inode, charged)) {
        status = Status(Code::kCorruption, "cache disk: " + disk_->dir() + "/objects/" +
                                               Disk::RelativePath(state.id) +
                                               " was cut or replaced by somebody else");
      }
    }
    if (status.ok() && writer) files_.Put(state.id, *file);
  }
  if (writer) LeaveWriter(state);
  return status;
}

Status StoreCore::CreateFile(ObjectState& state, std::shared_ptr<const Fd>* file) {
  // The row first: after a crash in between there is a row without parts, which recovery drops, and never a
  // file that nothing knows of.
  ObjectRecord record;
  {
    MutexLock lock(state.mu);
    if (state.parts->count() == 0) state.phase = ObjectPhase::kComplete;
    record = RecordOf(state);
  }
  RETURN_IF_ERROR(index_->PutObject(state.id, record));
  Result<Fd> made = disk_->CreateObject(state.id, state.parts->size());
  if (!made.ok() && made.status().code() == Code::kAlreadyExists) {
    // Nobody's file: a removal whose unlink failed, or something put there by hand.
    RETURN_IF_ERROR(disk_->UnlinkObject(state.id));
    made = disk_->CreateObject(state.id, state.parts->size());
  }
  if (!made.ok()) {
    // Left behind, the row is one without parts or file: harmless, and dropped at the next start.
    if (index_->RemoveObjects({state.id}, Index::Durability::kProcess).ok()) {
      IgnoreStatus(index_->ForgetRemovals({state.id}));
    }
    return made.status();
  }
  SYNC_POINT("store.file.created");
  *file = std::make_shared<const Fd>(std::move(made).value());
  files_.Put(state.id, *file);
  {
    MutexLock lock(mu_);
    const auto it = table_.find(state.id);
    STOKER_CHECK(it != table_.end() && it->second.active == &state);  // writers hold the entry in the table
    SetRecordedLocked(it->second);
    if (state.parts->count() == 0) {
      SetCompleteLocked(it->second);
      to_seal_.push_back(state.id);
      wake_.NotifyOne();
    }
    MutexLock state_lock(state.mu);
    state.recorded = true;
  }
  return Status::Ok();
}

ObjectRecord StoreCore::RecordOf(const ObjectState& state) const {
  ObjectRecord record;
  record.phase = state.phase;
  record.suspect = state.suspect;
  record.size = state.parts->size();
  record.part_length = state.parts->part_length();
  record.charged_bytes = state.charged;
  record.inode = state.inode;
  record.token = state.token;
  record.name_hint = state.name_hint;
  return record;
}

Result<uint64_t> StoreCore::ReadChecksum(ObjectState& state, PartIndex part) {
  std::shared_ptr<const Fd> file;
  ASSIGN_OR_RETURN(file, OpenFile(state));
  const ByteRange range = state.parts->Range(part);
  std::vector<std::byte> chunk(std::min<uint64_t>(kVerifyChunkBytes, range.size()));
  Checksum64Stream sum;
  for (uint64_t at = range.begin; at < range.end;) {
    const size_t want = std::min<uint64_t>(chunk.size(), range.end - at);
    const ssize_t got = ::pread(file->get(), chunk.data(), want, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed(Status::FromErrno(errno, "cache disk: reading an object file"));
    if (got == 0) return Failed(Status(Code::kIo, "cache disk: an object file ends too early"));
    sum.Update(std::span(chunk.data(), static_cast<size_t>(got)));
    at += static_cast<uint64_t>(got);
  }
  return sum.Digest();
}

// ---------------------------------------------------------------------------------------------------------------
// Parts
// ---------------------------------------------------------------------------------------------------------------

Status StoreCore::Commit(const ObjectRef& object, PartIndex part, uint64_t checksum,
                         SpaceReservation reservation) {
  ObjectState& state = *object.state_;
  STOKER_CHECK(reservation.state_ == nullptr || reservation.state_ == object.state_);
  if (ToInt(part) >= state.parts->count()) {
    return {Code::kInvalidArgument, "part " + std::to_string(ToInt(part)) + ": the file has only " +
                                        std::to_string(state.parts->count())};
  }
  if (state.parts->Has(part)) return Status::Ok();
  std::shared_ptr<const Fd> file;
  ASSIGN_OR_RETURN(file, OpenFile(state));
  SYNC_POINT("store.part.before_index");
  const bool writer = EnterWriter(state);
  if (writer) {
    const PartRecord record{static_cast<uint32_t>(state.parts->Range(part).size()), checksum};
    if (const Status put = index_->PutPart({state.id, part}, record); !put.ok()) {
      LeaveWriter(state);
      return Failed(put);
    }
  }
  struct stat info = {};
  const bool measured = ::fstat(file->get(), &info) == 0;
  bool completed = false;
  {
    MutexLock lock(state.mu);
    if (state.lost) {
      lock.Unlock();
      if (writer) LeaveWriter(state);
      return {Code::kCorruption, "the object's file was removed or replaced by somebody else"};
    }
    if (state.parts->Set(part)) {
      metrics_.cache_committed_parts.Add();
      completed = state.parts->complete();
    }
    // Blocks of other parts that are being written are paid for by their own reservations.
    const uint64_t reserved = std::exchange(reservation.bytes_, 0);
    if (reservation.state_ != nullptr) {
      --state.reservations;
      reservation.state_.reset();  // not the last owner: `object` is one
    }
    uint64_t grown = 0;
    if (measured && AllocatedBytes(info) > state.charged) grown = AllocatedBytes(info) - state.charged;
    if (state.reservations > 0) grown = std::min(grown, reserved);
    state.charged += grown;
    space_.Convert(reserved, static_cast<int64_t>(grown));
  }
  SYNC_POINT("store.part.committed");
  if (writer) {
    if (completed) MarkComplete(state);
    LeaveWriter(state);
  }
  return Status::Ok();
}

void StoreCore::MarkComplete(ObjectState& state) {
  ObjectRecord record;
  {
    MutexLock lock(state.mu);
    state.phase = ObjectPhase::kComplete;
    record = RecordOf(state);
  }
  // Without this row the parts' rows still say the same.
  if (const Status put = index_->PutObject(state.id, record); !put.ok()) IgnoreStatus(Failed(put));
  bool loading = false;
  {
    MutexLock lock(state.mu);
    loading = state.load == ObjectState::Load::kLoading;
  }
  {
    MutexLock lock(mu_);
    const auto it = table_.find(state.id);
    STOKER_CHECK(it != table_.end() && it->second.active == &state);  // writers hold the entry in the table
    SetCompleteLocked(it->second);
    to_seal_.push_back(state.id);
    wake_.NotifyOne();
  }
  if (loading) return;  // complete since an earlier run, which told
  if (StoreListener* listener = listener_.load(std::memory_order_acquire)) listener->OnComplete(state.id);
}

Status StoreCore::Verify(const ObjectRef& object, PartIndex part) {
  ObjectState& state = *object.state_;
  if (!state.parts->Has(part)) {
    return {Code::kNotFound, "part " + std::to_string(ToInt(part)) + " is not in the cache"};
  }
  const Result<std::optional<PartRecord>> row = index_->GetPart({state.id, part});
  if (!row.ok()) return Failed(row.status());
  {
    // Asked after the row was read: a removal would have deleted it.
    MutexLock lock(state.mu);
    if (state.detached) return {Code::kStale, "the object was invalidated"};
  }
  const Result<uint64_t> checksum = ReadChecksum(state, part);
  if (checksum.ok() && row.value() && *checksum == row.value()->checksum) return Status::Ok();
  DropDamaged(object, part);
  if (!checksum.ok()) return checksum.status();
  return {Code::kCorruption, "part " + std::to_string(ToInt(part)) + " of " + state.name_hint +
                                 ": bytes on the cache disk do not match their checksum"};
}

void StoreCore::DropDamaged(const ObjectRef& object, PartIndex part) {
  ObjectState& state = *object.state_;
  bool whole = false;
  bool writer = false;
  {
    MutexLock lock(state.mu);
    if (!state.parts->Has(part)) return;
    whole = state.parts->complete() && !state.detached;
    if (!whole) {
      state.parts->Clear(part);
      writer = !state.detached;
      if (writer) ++state.writers;
    }
  }
  metrics_.cache_damaged_parts.Add();
  damage_log_.Log(LogLevel::kWarn, "store",
                  "part " + std::to_string(ToInt(part)) + " of " + state.name_hint + " (" +
                      Disk::RelativePath(state.id) + ") is damaged and dropped");
  if (whole) {
    Remove(state.id, {.only = &state, .lost = false, .damaged = part});
    return;
  }
  if (!writer) return;
  if (const Status deleted = index_->DeletePart({state.id, part}); !deleted.ok())
    IgnoreStatus(Failed(deleted));
  LeaveWriter(state);
}

void StoreCore::Invalidate(const ObjectId& id) {
  Remove(id, {});
}

}  // namespace stoker
