// StoreCore: room for new parts, removal, protection.

#include <algorithm>

#include "cache/base/check.h"
#include "cache/base/log.h"
#include "cache/base/sync_point.h"
#include "cache/store/store_core.h"

namespace stoker {
namespace {

/// Objects evicted in one index write: one sync pays for all of them.
constexpr size_t kEvictBatch = 64;
/// The disk is asked for its free space no more often than this.
constexpr auto kRoomCheckInterval = std::chrono::milliseconds(100);
/// How long a reservation waits for evictions of others: rounds of at most kEvictionWait.
constexpr int kMaxRoomRounds = 200;
constexpr int kMaxSealRounds = 4;
constexpr auto kEvictionWait = std::chrono::milliseconds(50);
/// Objects that one hold of the lock lets go when a protect group ends.
constexpr size_t kUnprotectBatch = 1024;

Counter& EvictedBy(Metrics& metrics, CachePolicy deciding) {
  if (deciding == CachePolicy::kRetain) return metrics.cache_evicted_retain;
  return deciding == CachePolicy::kLru ? metrics.cache_evicted_lru : metrics.cache_evicted_s3fifo;
}

}  // namespace

void StoreCore::RefreshDiskRoom() {
  const int64_t now = clock_.Now().count();
  int64_t last = room_checked_at_.load(std::memory_order_relaxed);
  if (now - last < std::chrono::nanoseconds(kRoomCheckInterval).count()) return;
  if (!room_checked_at_.compare_exchange_strong(last, now, std::memory_order_relaxed))
    return;  // another thread asks
  MeasureDiskRoom();
}

Result<SpaceReservation> StoreCore::Reserve(const ObjectRef& object, uint64_t bytes) {
  const uint64_t needed = AlignUp(bytes, kPageBytes) + kPageBytes;
  RETURN_IF_ERROR(MakeRoom(object.state_->id, needed));
  MutexLock lock(object.state_->mu);
  ++object.state_->reservations;
  return SpaceReservation(object.state_, needed);
}

void StoreCore::Unreserve(ObjectState& state, uint64_t bytes) {
  space_.Unreserve(bytes);
  MutexLock lock(state.mu);
  STOKER_CHECK(state.reservations > 0);
  --state.reservations;
}

RoomFor StoreCore::RoomForLocked(const ObjectId& id) const {
  const auto it = table_.find(id);
  return it != table_.end() && it->second.protectors > 0 ? RoomFor::kWarm : RoomFor::kRead;
}

Status StoreCore::MakeRoom(const ObjectId& id, uint64_t bytes) {
  if (bytes > options_.limit_bytes) {
    metrics_.cache_no_space.Add();
    return {Code::kNoSpace,
            FormatBytes(bytes) + " do not fit in a cache of " + FormatBytes(options_.limit_bytes)};
  }
  for (int round = 0; round < kMaxRoomRounds; ++round) {
    RefreshDiskRoom();
    if (space_.TryReserve(bytes)) return Status::Ok();
    RoomFor what;
    {
      MutexLock lock(mu_);
      what = RoomForLocked(id);
    }
    const Evicted evicted = EvictSome(bytes, what);
    if (evicted == Evicted::kSome) continue;
    if (evicted == Evicted::kRefused) {
      metrics_.cache_refused.Add();
      return {Code::kNoSpace, "the cache is full and keeps what it has (cache.policy " +
                                  std::string(PolicyName(options_.policy)) + ")"};
    }
    MutexLock lock(mu_);
    // What is being sealed can be evicted a moment later; what users hold cannot.
    if (space_.evicting() == 0 && !(sealing_ && round < kMaxSealRounds)) break;
    changed_.WaitFor(mu_, kEvictionWait);
  }
  if (space_.TryReserve(bytes)) return Status::Ok();  // what others evicted since
  metrics_.cache_no_space.Add();
  return {Code::kNoSpace, "the cache is full of objects in use (" + FormatBytes(space_.used()) + " used, " +
                              FormatBytes(space_.reserved()) + " promised, limit " +
                              FormatBytes(options_.limit_bytes) + " or less where the disk has less)"};
}

StoreCore::Evicted StoreCore::EvictSome(uint64_t bytes, RoomFor what) {
  auto evicted = Evicted::kNobody;
  while (true) {
    Going victims;
    bool refused = false;
    {
      MutexLock lock(mu_);
      // Hopeless: keep what is there rather than empty the cache for nothing.
      if (bytes > 0 && space_.Shortage(bytes, 1.0) > candidate_bytes_) return evicted;
      while (victims.objects.size() < kEvictBatch) {
        // What is over the limit must go, whatever the policy would keep.
        const bool over = space_.Shortage(0, 1.0) > 0;
        if (!over && space_.Shortage(bytes, options_.low_watermark) == 0) break;
        EvictionNode* const node = policy_->Victim(over ? RoomFor::kOverLimit : what);
        if (node == nullptr) {
          refused = candidate_bytes_ > 0;
          break;
        }
        auto& entry = static_cast<Entry&>(*node);
        LetGoLocked(entry, victims);
        policy_->Forgotten(entry);
        EvictedBy(metrics_, policy_->State().deciding).Add();
      }
    }
    if (victims.objects.empty()) return evicted == Evicted::kNobody && refused ? Evicted::kRefused : evicted;
    if (!RemoveGoing(victims).ok()) return evicted;
    evicted = Evicted::kSome;
  }
}

void StoreCore::LetGoLocked(Entry& entry, Going& going) {
  StopCandidateLocked(entry);
  entry.going = true;
  going.sync |= entry.sealed;
  space_.BeginEviction(entry.charged);
  going.objects.push_back({*entry.id, entry.charged});
}

Status StoreCore::RemoveGoing(const Going& going) {
  std::vector<ObjectId> ids;
  uint64_t bytes = 0;
  for (const Removed& one : going.objects) {
    ids.push_back(one.id);
    bytes += one.charged;
  }
  SYNC_POINT("store.evict.before_index");
  // The rows of sealed objects must be gone for good before their files are: a new file of the same name,
  // half written when the machine goes down, would pass for the sealed one.
  const Status deleted =
      index_->RemoveObjects(ids, going.sync ? Index::Durability::kMachine : Index::Durability::kProcess);
  if (!deleted.ok()) {
    MutexLock lock(mu_);
    for (const ObjectId& id : ids) {
      Entry& entry = table_.find(id)->second;
      entry.going = false;
      BecomeCandidateLocked(entry);
    }
    changed_.NotifyAll();
    lock.Unlock();
    space_.EndEviction(bytes);
    return Failed(deleted);
  }
  SYNC_POINT("store.evict.before_unlink");
  std::vector<ObjectId> unlinked;
  uint64_t freed = 0;
  for (const Removed& one : going.objects) {
    files_.Erase(one.id);
    if (const Status gone = disk_->UnlinkObject(one.id); !gone.ok()) {
      IgnoreStatus(Failed(gone));  // stays booked, and noted for the next start
      continue;
    }
    unlinked.push_back(one.id);
    freed += one.charged;
  }
  // Were this to fail, the next start would unlink what is not there.
  if (const Status forgotten = index_->ForgetRemovals(unlinked); !forgotten.ok())
    IgnoreStatus(Failed(forgotten));
  SYNC_POINT("store.evict.done");
  space_.Charge(-static_cast<int64_t>(freed));
  space_.EndEviction(bytes);
  metrics_.cache_evicted_objects.Add(going.objects.size());
  metrics_.cache_evicted_bytes.Add(freed);
  {
    MutexLock lock(mu_);
    for (const ObjectId& id : ids) EraseEntryLocked(table_.find(id));
    changed_.NotifyAll();
  }
  for (const ObjectId& id : ids) TellGone(id);
  return Status::Ok();
}

void StoreCore::Remove(const ObjectId& id, const Removal& removal) {
  std::shared_ptr<ObjectState> state;
  bool sealed = false;
  uint64_t charged = 0;
  {
    MutexLock lock(mu_);
    auto it = table_.find(id);
    while (it != table_.end()) {
      if (it->second.going || it->second.broken) return;  // somebody else is at it, or has failed
      if (removal.only != nullptr && it->second.active != removal.only) return;
      if (it->second.active == nullptr) break;
      state = it->second.active->weak_from_this().lock();
      if (state != nullptr) break;
      changed_.Wait(mu_);  // its last holder is just letting go
      it = table_.find(id);
    }
    if (it == table_.end()) return;
    Entry& entry = it->second;
    entry.going = true;
    StopCandidateLocked(entry);
    sealed = entry.sealed;
    charged = entry.charged;
    if (state != nullptr) {
      MutexLock state_lock(state->mu);
      state->detached = true;
      state->lost |= removal.lost;
      if (removal.lost && state->parts != nullptr) state->parts->ClearAll();
      if (removal.damaged) state->parts->Clear(*removal.damaged);
    }
  }
  if (state != nullptr) {
    bool keep = false;
    {
      MutexLock lock(state->mu);
      // The loader itself removes what it finds lost; anybody else lets it finish first.
      while (state->writers > 0 || (!removal.lost && state->load == ObjectState::Load::kLoading)) {
        state->cv.Wait(state->mu);
      }
      keep = state->recorded && !state->lost && state->load == ObjectState::Load::kReady;
    }
    if (keep) {
      // Holders go on reading: the file must be open before its name goes. OpenFile() keeps it in the state.
      if (const Result<std::shared_ptr<const Fd>> file = OpenFile(*state); file.ok()) {
        MutexLock lock(state->mu);
        state->kept_file = *file;
      } else {
        MutexLock lock(state->mu);
        state->lost = true;
        state->parts->ClearAll();
      }
    }
  }
  files_.Erase(id);
  bool recorded = false;
  {
    MutexLock lock(mu_);
    recorded = table_.find(id)->second.recorded;  // perhaps only since a writer made it
  }
  Status deleted;
  bool unlinked = true;
  if (recorded) {
    deleted = index_->RemoveObjects({id}, sealed ? Index::Durability::kMachine : Index::Durability::kProcess);
    if (deleted.ok()) {
      if (const Status gone = disk_->UnlinkObject(id); !gone.ok()) {
        IgnoreStatus(Failed(gone));  // noted for the next start
        unlinked = false;
      } else if (const Status forgotten = index_->ForgetRemovals({id}); !forgotten.ok()) {
        IgnoreStatus(Failed(forgotten));  // the next start will find nothing to unlink
      }
    } else {
      IgnoreStatus(Failed(deleted));
    }
  }
  {
    MutexLock lock(mu_);
    const auto it = table_.find(id);
    if (deleted.ok()) {
      EraseEntryLocked(it);
      if (state == nullptr && unlinked) space_.Charge(-static_cast<int64_t>(charged));
    } else {
      // The rows are still there: a new object of this id would inherit them.
      it->second.going = false;
      it->second.active = nullptr;
      it->second.broken = true;
      it->second.charged = 0;  // the state, if any, books it out
      if (state == nullptr) space_.Charge(-static_cast<int64_t>(charged));
    }
    changed_.NotifyAll();
  }
  TellGone(id);
}

void StoreCore::TellGone(const ObjectId& id) {
  if (StoreListener* listener = listener_.load(std::memory_order_acquire)) listener->OnGone(id);
}

void StoreCore::JoinGroupLocked(Entry& entry, ProtectGroup group) {
  if (group == 0 || ending_.contains(group)) return;
  const auto it = groups_.find(group);
  if (it != groups_.end() && it->second.insert(*entry.id).second) ++entry.protectors;
}

ProtectGroup StoreCore::BeginProtect() {
  MutexLock lock(mu_);
  const ProtectGroup group = ++last_group_;
  groups_.try_emplace(group);
  return group;
}

void StoreCore::EndProtect(ProtectGroup group) {
  MutexLock lock(mu_);
  auto it = groups_.find(group);
  if (it == groups_.end() || !ending_.insert(group).second) return;
  while (!it->second.empty()) {
    for (size_t done = 0; done < kUnprotectBatch && !it->second.empty(); ++done) {
      const auto member = it->second.begin();
      const auto entry = table_.find(*member);
      it->second.erase(member);
      STOKER_CHECK(entry != table_.end() &&
                   entry->second.protectors > 0);  // who leaves the table leaves the groups
      if (--entry->second.protectors == 0) BecomeCandidateLocked(entry->second);
    }
    lock.Unlock();
    lock.Lock();
    it = groups_.find(group);
  }
  groups_.erase(it);
  ending_.erase(group);
}

PolicyReport StoreCore::Policy() const {
  PolicyReport report;
  report.configured = options_.policy;
  MutexLock lock(mu_);
  const PolicyState state = policy_->State();
  report.deciding = state.deciding;
  report.switches = state.switches;
  report.reason = policy_->Reason();
  return report;
}

void StoreCore::ShowPolicyLocked() {
  const PolicyState state = policy_->State();
  metrics_.cache_policy.Set(static_cast<int64_t>(state.deciding));
  metrics_.cache_policy_switches.Add(state.switches - shown_.switches);
  metrics_.cache_ghost_hits.Add(state.ghost_hits - shown_.ghost_hits);
  metrics_.cache_ghosts.Add(static_cast<int64_t>(state.ghosts) - static_cast<int64_t>(shown_.ghosts));
  shown_ = state;
}

void StoreCore::DropMisplaced(const std::function<bool(const ObjectId&)>& here,
                              const std::atomic<bool>& stop) {
  std::vector<ObjectId> misplaced;
  {
    MutexLock lock(mu_);
    for (const auto& [id, entry] : table_) {
      if (!here(id)) misplaced.push_back(id);
    }
  }
  for (size_t begin = 0; begin < misplaced.size() && !stop.load(); begin += kEvictBatch) {
    Going idle;
    std::vector<ObjectId> held;
    {
      MutexLock lock(mu_);
      const size_t end = std::min(misplaced.size(), begin + kEvictBatch);
      for (size_t i = begin; i < end; ++i) {
        const auto it = table_.find(misplaced[i]);
        if (it == table_.end() || it->second.going) continue;
        Entry& entry = it->second;
        if (!entry.candidate) {
          held.push_back(misplaced[i]);
          continue;
        }
        LetGoLocked(entry, idle);
      }
    }
    // The thread that seals may hold one for a moment; and a failure is counted and logged where it happened.
    for (const ObjectId& id : held) Remove(id, {});
    if (!idle.objects.empty()) IgnoreStatus(RemoveGoing(idle));
  }
  if (!misplaced.empty()) {
    LogInfo("store", std::to_string(misplaced.size()) + " objects of " + disk_->dir() +
                         " belong to other cache directories now and were dropped");
  }
}

std::vector<DirectoryReport> StoreCore::Directories() const {
  return {{disk_->dir(), true, "", Usage()}};
}

StoreUsage StoreCore::Usage() const {
  StoreUsage usage;
  usage.used_bytes = space_.used();
  usage.reserved_bytes = space_.reserved();
  usage.limit_bytes = space_.limit_bytes();
  MutexLock lock(mu_);
  usage.objects = recorded_;
  usage.complete_objects = complete_;
  return usage;
}

}  // namespace stoker
