#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cache/base/log.h"
#include "cache/base/mutex.h"
#include "cache/store/disk.h"
#include "cache/store/eviction_policy.h"
#include "cache/store/file_cache.h"
#include "cache/store/index.h"
#include "cache/store/object_state.h"
#include "cache/store/object_store.h"
#include "cache/store/recovery.h"
#include "cache/store/space.h"

namespace stoker {

/// The store behind ObjectStore. Parts: Disk (files), Index (rows), Space (bytes), EvictionPolicy (whom to
/// forget), and one thread of its own that seals, writes last uses and brings usage back under the limit.
///
/// Locks: mu_ (which objects there are) before ObjectState::mu (one object); neither across the disk, RocksDB
/// or the listener. An object that is being removed stays in the table, marked `going`, until its file is
/// unlinked: whoever wants the same id waits for that, so a new file never meets the old one's rows or name.
class StoreCore final : public ObjectStore {
 public:
  StoreCore(const ObjectStoreOptions& options, std::unique_ptr<Disk> disk, std::unique_ptr<Index> index,
            std::unique_ptr<EvictionPolicy> policy, std::string boot_id, Metrics& metrics, Clock& clock);
  ~StoreCore() override;
  /// As ObjectStore::Open.
  static Result<std::unique_ptr<StoreCore>> Open(const ObjectStoreOptions& options, Metrics& metrics,
                                                 Clock& clock);
  /// Takes over what recovery found, then starts the thread. Once, first.
  void Start(const std::vector<RecoveredObject>& objects) EXCLUDES(mu_);

  void SetListener(StoreListener* listener) override { listener_.store(listener, std::memory_order_release); }
  Result<ObjectRef> Acquire(const FileVersion& version, const std::string& name_hint,
                            ProtectGroup group) override EXCLUDES(mu_);
  Result<ObjectRef> Find(const FileVersion& version) override EXCLUDES(mu_);
  Result<SpaceReservation> Reserve(const ObjectRef& object, uint64_t bytes) override EXCLUDES(mu_);
  Status Commit(const ObjectRef& object, PartIndex part, uint64_t checksum,
                SpaceReservation reservation) override EXCLUDES(mu_);
  Status Verify(const ObjectRef& object, PartIndex part) override EXCLUDES(mu_);
  void DropDamaged(const ObjectRef& object, PartIndex part) override EXCLUDES(mu_);
  void Invalidate(const ObjectId& id) override EXCLUDES(mu_);
  Result<std::vector<StoredObject>> List(const ObjectId* after, size_t limit) override;
  Result<ObjectRef> Peek(const ObjectId& id) override EXCLUDES(mu_);
  Result<EvictReport> Evict(const std::vector<ObjectId>& ids) override EXCLUDES(mu_);
  ProtectGroup BeginProtect() override EXCLUDES(mu_);
  void EndProtect(ProtectGroup group) override EXCLUDES(mu_);
  StoreUsage Usage() const override EXCLUDES(mu_);
  PolicyReport Policy() const override EXCLUDES(mu_);
  Status Flush(std::chrono::nanoseconds timeout) override EXCLUDES(mu_);

  std::vector<DirectoryReport> Directories() const override EXCLUDES(mu_);

  /// Forgets the objects that `here` is false for, which no caller asks this store for any more. Ends early
  /// once `stop` is true. May take long: for a thread of its own.
  void DropMisplaced(const std::function<bool(const ObjectId&)>& here, const std::atomic<bool>& stop)
      EXCLUDES(mu_);

  // For ObjectRef and SpaceReservation.
  Result<std::shared_ptr<const Fd>> OpenFile(ObjectState& state) EXCLUDES(mu_);
  void Unreserve(ObjectState& state, uint64_t bytes);
  // For full_disk.h.
  static StoreCore& Of(const SpaceReservation& reservation) { return reservation.state_->core; }
  bool MakeRoomOnFullDisk() EXCLUDES(mu_);

 private:
  /// One object while nobody holds it; a million of these must stay small (at most 200 bytes, with the
  /// table's own).
  /// `charged`: while active, ObjectState::charged is the one that counts. `id`: the table's key.
  struct Entry : EvictionNode {
    ObjectState* active = nullptr;  // alive until its Release() took mu_ and reset this
    uint64_t used_at_us = 0;
    uint32_t protectors = 0;  // active protect groups that it belongs to
    bool recorded = false;    // there is a row (and a file)
    bool complete = false;
    bool sealed = false;
    bool suspect = false;
    bool written = false;  // in this run or one that was killed, and not known to be durable
    bool going = false;
    bool broken = false;     // its rows could not be deleted: refused until the next start
    bool candidate = false;  // known to the policy
    bool use_noted = false;  // in used_
    bool used = false;       // somebody other than the store itself has held it since it was last a candidate
  };
  using Table = std::unordered_map<ObjectId, Entry>;
  // A node also has the key, a link and the allocator's head, and there may be two buckets for each.
  static_assert(sizeof(Entry) + sizeof(ObjectId) + 2 * sizeof(void*) + 2 * sizeof(void*) <= 200);
  struct Removed {
    ObjectId id;
    uint64_t charged;
  };
  /// Objects on their way out, for RemoveGoing().
  struct Going {
    std::vector<Removed> objects;
    bool sync = false;  // one of them is sealed: its row must be gone for good before its file is
  };

  // store_core.cc: objects
  /// The state of `id`, loaded. `version` null: whatever version the row says; then only an existing object.
  Result<std::shared_ptr<ObjectState>> Hold(const ObjectId& id, const FileVersion* version,
                                            const std::string& name_hint, ProtectGroup group, bool create)
      EXCLUDES(mu_);
  std::shared_ptr<ObjectState> NewStateLocked(Entry& entry) REQUIRES(mu_);
  /// kStale: rows or file are not what they should be; the object was removed, ask again.
  Status Load(ObjectState& state, const FileVersion* version) EXCLUDES(mu_);
  Status VerifySuspect(ObjectState& state, const std::vector<Index::StoredPart>& stored) EXCLUDES(mu_);
  void Release(ObjectState* state) EXCLUDES(mu_);
  void EraseEntryLocked(Table::iterator it) REQUIRES(mu_);
  void BecomeCandidateLocked(Entry& entry) REQUIRES(mu_);
  void StopCandidateLocked(Entry& entry) REQUIRES(mu_);
  void TouchLocked(Entry& entry) REQUIRES(mu_);
  void JoinGroupLocked(Entry& entry, ProtectGroup group) REQUIRES(mu_);

  /// Counts the caller in as a writer; false when the object is detached.
  bool EnterWriter(ObjectState& state);
  void LeaveWriter(ObjectState& state);
  Status OpenSlow(ObjectState& state, std::shared_ptr<const Fd>* file) EXCLUDES(mu_);
  Status CreateFile(ObjectState& state, std::shared_ptr<const Fd>* file) EXCLUDES(mu_);
  ObjectRecord RecordOf(const ObjectState& state) const REQUIRES(state.mu);
  /// The last part landed: row, gauges, listener, seal. REQUIRES: the caller is a writer.
  void MarkComplete(ObjectState& state) EXCLUDES(mu_);
  void SetCompleteLocked(Entry& entry) REQUIRES(mu_);
  void SetRecordedLocked(Entry& entry) REQUIRES(mu_);
  Result<uint64_t> ReadChecksum(ObjectState& state, PartIndex part);
  /// Counts a failure of disk or index, logs it (a few a second at most), and hands it on.
  Status Failed(const Status& status);

  // store_space.cc: room, removal, protection
  Status MakeRoom(const ObjectId& id, uint64_t bytes) EXCLUDES(mu_);
  enum class Evicted { kSome, kNobody, kRefused };
  /// Evicts until `bytes` more fit under the low watermark or nobody is left who may go for that. kNobody:
  /// there is no candidate, or not enough to make the bytes fit. kRefused: the policy keeps what is there.
  Evicted EvictSome(uint64_t bytes, RoomFor what) EXCLUDES(mu_);
  /// What a part of this object is to the policy.
  RoomFor RoomForLocked(const ObjectId& id) const REQUIRES(mu_);
  /// Brings the gauges and counters of the policy up to date.
  void ShowPolicyLocked() REQUIRES(mu_);
  void RefreshDiskRoom();
  /// Removes rows and names of entries that are marked going (none active), all in one index write.
  /// The object is on its way out: no candidate, and nobody gets it any more.
  void LetGoLocked(Entry& entry, Going& going) REQUIRES(mu_);
  Status RemoveGoing(const Going& going) EXCLUDES(mu_);
  struct Removal {
    ObjectState* only = nullptr;  // nothing is done unless this is the object's state now
    bool lost = false;            // the file is not there, or not ours
    std::optional<PartIndex> damaged;
  };
  void Remove(const ObjectId& id, const Removal& removal) EXCLUDES(mu_);
  void TellGone(const ObjectId& id);

  // store_watch.cc: the books against the disk
  void MeasureDiskRoom();
  struct Unsettled {
    ObjectId id;
    std::chrono::steady_clock::time_point until;
  };
  /// The object was written to and let go: its blocks may still change.
  void UnsettledLocked(const ObjectId& id) REQUIRES(mu_);
  /// One turn: gives way to other programs on the disk, and books what files occupy now.
  void Watch() EXCLUDES(mu_);
  void Remeasure(const ObjectId& id, uint64_t charged) EXCLUDES(mu_);

  // store_sealer.cc: the background thread
  void Background() EXCLUDES(mu_);
  struct Synced {
    std::shared_ptr<ObjectState> state;
    uint64_t inode;
    uint64_t allocated;
  };
  void SealBatch(const std::vector<ObjectId>& ids) EXCLUDES(mu_);
  void WriteSealed(const std::vector<Synced>& synced) EXCLUDES(mu_);
  void WriteUses() EXCLUDES(mu_);
  /// Makes what incomplete objects hold durable; false when that was not possible within the bound.
  bool SyncIncomplete(std::chrono::steady_clock::time_point deadline) EXCLUDES(mu_);

  const ObjectStoreOptions options_;
  const std::unique_ptr<Disk> disk_;
  const std::unique_ptr<Index> index_;
  const std::string boot_id_;
  Metrics& metrics_;
  Clock& clock_;
  // A cache directory that is gone fails every part. Limited apart: neither kind may hide the other.
  LogLimiter failures_log_{5, clock_};
  LogLimiter damage_log_{5, clock_};
  std::atomic<StoreListener*> listener_{nullptr};
  Space space_;
  FileCache files_;
  std::atomic<int64_t> room_checked_at_{INT64_MIN / 2};  // nanoseconds of clock_

  mutable Mutex mu_;
  CondVar changed_;  // an entry went, a Release() ended, an eviction ended
  Table table_ GUARDED_BY(mu_);
  const std::unique_ptr<EvictionPolicy> policy_ PT_GUARDED_BY(mu_);
  PolicyState shown_ GUARDED_BY(mu_);  // of policy_, as the metrics have it
  std::unordered_map<ProtectGroup, std::unordered_set<ObjectId>> groups_ GUARDED_BY(mu_);
  std::unordered_set<ProtectGroup> ending_ GUARDED_BY(mu_);  // of groups_: take no more members
  ProtectGroup last_group_ GUARDED_BY(mu_) = 0;
  uint64_t candidate_bytes_ GUARDED_BY(mu_) = 0;  // INVARIANT: charged bytes of all candidates
  uint64_t recorded_ GUARDED_BY(mu_) = 0;         // INVARIANT: entries with `recorded`
  uint64_t complete_ GUARDED_BY(mu_) = 0;         // INVARIANT: entries with `complete`
  std::vector<ObjectId> used_ GUARDED_BY(mu_);    // last uses that are not written yet
  std::deque<ObjectId> to_seal_ GUARDED_BY(mu_);
  std::deque<Unsettled> unsettled_ GUARDED_BY(mu_);
  size_t rotation_ GUARDED_BY(mu_) = 0;                // bucket of table_ that Watch() looks at next
  bool working_ GUARDED_BY(mu_) = true;                // the thread is between waits
  bool sealing_ GUARDED_BY(mu_) = false;               // the thread holds objects, for a short while
  std::vector<ObjectId> sealing_ids_ GUARDED_BY(mu_);  // which ones it may hold
  bool over_limit_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;
  std::chrono::steady_clock::time_point stop_at_
      GUARDED_BY(mu_);  // when stopping: seal nothing more after this
  CondVar wake_;        // for the thread
  CondVar idle_;        // for Flush
  std::thread thread_;
};

}  // namespace stoker
