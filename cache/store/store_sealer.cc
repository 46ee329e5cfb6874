// StoreCore: the thread that makes complete objects durable and does what can wait.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cache/base/log.h"
#include "cache/base/sync_point.h"
#include "cache/store/store_core.h"

namespace stoker {
namespace {

/// Objects sealed with one synced index write; they are pinned meanwhile, so their bytes are bounded too.
constexpr size_t kSealBatch = 64;
constexpr uint64_t kSealBatchBytes = 256 * kMiB;
/// Last uses are written this often; what is lost in a crash only makes eviction a little less fair.
constexpr auto kUseInterval = std::chrono::seconds(30);
/// The disk is looked at this often while there is nothing else to do.
constexpr auto kWatchInterval = std::chrono::seconds(1);
constexpr size_t kUseBatch = 1024;
/// For sealing and syncing when the store closes; what is left is verified after a machine crash.
constexpr auto kCloseTimeout = std::chrono::seconds(10);

Status SyncFile(int fd) {
  while (::fdatasync(fd) != 0) {
    if (errno != EINTR) return Status::FromErrno(errno, "cache disk: syncing an object file");
  }
  return Status::Ok();
}

}  // namespace

void StoreCore::Background() {
  ::pthread_setname_np(::pthread_self(), "store");
  auto watch_at = std::chrono::steady_clock::now() + kWatchInterval;
  auto write_uses_at = std::chrono::steady_clock::now() + kUseInterval;
  MutexLock lock(mu_);
  while (true) {
    const bool out_of_time = stopping_ && std::chrono::steady_clock::now() >= stop_at_;
    if (!to_seal_.empty() && !out_of_time) {
      const size_t count = std::min(kSealBatch, to_seal_.size());
      const std::vector<ObjectId> ids(to_seal_.begin(), to_seal_.begin() + static_cast<ptrdiff_t>(count));
      to_seal_.erase(to_seal_.begin(), to_seal_.begin() + static_cast<ptrdiff_t>(count));
      sealing_ = true;
      sealing_ids_ = ids;
      lock.Unlock();
      SealBatch(ids);
      lock.Lock();
      sealing_ = false;
      sealing_ids_.clear();
      changed_.NotifyAll();
    } else if (stopping_) {
      return;
    } else if (std::exchange(over_limit_, false)) {
      lock.Unlock();
      RefreshDiskRoom();
      if (space_.Shortage(0, 1.0) > 0) EvictSome(0, RoomFor::kOverLimit);
      lock.Lock();
    } else {
      working_ = false;
      idle_.NotifyAll();
      wake_.WaitFor(mu_, kWatchInterval);
      working_ = true;
      const auto now = std::chrono::steady_clock::now();
      if (stopping_ || now < watch_at) continue;
      watch_at = now + kWatchInterval;
      lock.Unlock();
      Watch();
      if (now >= write_uses_at) {
        write_uses_at = now + kUseInterval;
        WriteUses();
      }
      lock.Lock();
    }
  }
}

void StoreCore::SealBatch(const std::vector<ObjectId>& ids) {
  std::vector<Synced> synced;
  uint64_t bytes = 0;
  for (const ObjectId& id : ids) {
    // Gone or made anew in the meantime: whoever completes it next queues it again.
    Result<std::shared_ptr<ObjectState>> held = Hold(id, nullptr, "", 0, /*create=*/false);
    if (!held.ok()) continue;
    ObjectState& state = *held.value();
    {
      MutexLock lock(state.mu);
      if (state.detached || state.phase != ObjectPhase::kComplete) continue;
    }
    const Result<std::shared_ptr<const Fd>> file = OpenFile(state);
    if (!file.ok()) continue;
    struct stat info = {};
    Status status = SyncFile(file.value()->get());
    if (status.ok() && ::fstat(file.value()->get(), &info) != 0) {
      status = Status::FromErrno(errno, "cache disk: looking at an object file");
    }
    if (!status.ok()) {
      // The kernel tells of a failed write once and forgets the pages: what the file holds now is unknown.
      IgnoreStatus(Failed(status));
      Remove(id, {.only = &state, .lost = false, .damaged = std::nullopt});
      continue;
    }
    synced.push_back({std::move(held).value(), info.st_ino, AllocatedBytes(info)});
    bytes += AllocatedBytes(info);
    if (bytes < kSealBatchBytes) continue;
    WriteSealed(synced);
    synced.clear();
    bytes = 0;
  }
  WriteSealed(synced);
}

void StoreCore::WriteSealed(const std::vector<Synced>& synced) {
  SYNC_POINT("store.object.before_seal");
  // Writers only here: Hold() may wait for a removal, and a removal waits for writers.
  std::vector<std::shared_ptr<ObjectState>> sealing;
  std::vector<std::pair<ObjectId, ObjectRecord>> rows;
  for (const Synced& one : synced) {
    ObjectState& state = *one.state;
    MutexLock lock(state.mu);
    if (state.detached || state.phase != ObjectPhase::kComplete) continue;
    ++state.writers;
    space_.Charge(static_cast<int64_t>(one.allocated) - static_cast<int64_t>(state.charged));
    state.charged = one.allocated;
    ObjectRecord record = RecordOf(state);
    record.phase = ObjectPhase::kSealed;
    record.inode = one.inode;
    rows.emplace_back(state.id, std::move(record));
    sealing.push_back(one.state);
  }
  if (rows.empty()) return;
  const Status put = index_->PutObjects(rows, Index::Durability::kMachine);
  if (put.ok()) {
    SYNC_POINT("store.object.sealed");
    MutexLock lock(mu_);
    for (size_t i = 0; i < rows.size(); ++i) {
      ObjectState& state = *sealing[i];
      Entry& entry = table_.find(state.id)->second;  // writers hold the entry in the table
      entry.sealed = true;
      MutexLock state_lock(state.mu);
      state.phase = ObjectPhase::kSealed;
      state.inode = rows[i].second.inode;
    }
  } else {
    IgnoreStatus(Failed(put));  // they stay complete: used as before, verified should the machine go down
  }
  for (const std::shared_ptr<ObjectState>& state : sealing) LeaveWriter(*state);
}

void StoreCore::WriteUses() {
  std::vector<std::pair<ObjectId, uint64_t>> uses;
  {
    MutexLock lock(mu_);
    for (const ObjectId& id : std::exchange(used_, {})) {
      const auto it = table_.find(id);
      if (it == table_.end()) continue;
      it->second.use_noted = false;
      if (it->second.recorded) uses.emplace_back(id, it->second.used_at_us);
    }
  }
  for (size_t begin = 0; begin < uses.size(); begin += kUseBatch) {
    const size_t end = std::min(uses.size(), begin + kUseBatch);
    const Status put = index_->PutUses(
        {uses.begin() + static_cast<ptrdiff_t>(begin), uses.begin() + static_cast<ptrdiff_t>(end)});
    if (!put.ok()) {
      IgnoreStatus(Failed(put));
      return;
    }
  }
}

Status StoreCore::Flush(std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  {
    MutexLock lock(mu_);
    over_limit_ = true;
    wake_.NotifyOne();
    while (working_ || over_limit_ || !to_seal_.empty()) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline) {
        return {Code::kDeadlineExceeded, std::to_string(to_seal_.size()) + " objects are not durable yet"};
      }
      idle_.WaitFor(mu_, deadline - now);
    }
  }
  const Status synced = index_->Sync();
  return synced.ok() ? synced : Failed(synced);
}

bool StoreCore::SyncIncomplete(std::chrono::steady_clock::time_point deadline) {
  std::vector<ObjectId> ids;
  {
    MutexLock lock(mu_);
    if (!to_seal_.empty()) return false;
    for (const auto& [id, entry] : table_) {
      // A suspect one stays marked so in its row, and is compared with its checksums before it is used.
      if (entry.written && !entry.sealed && !entry.suspect) ids.push_back(id);
      if (entry.complete && !entry.sealed && !entry.suspect) return false;  // sealing it failed
    }
  }
  bool all = true;
  for (const ObjectId& id : ids) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    const Result<Fd> file = disk_->OpenObject(id);
    const Status status = file.ok() ? SyncFile(file.value().get()) : file.status();
    if (status.ok()) continue;
    // As in SealBatch(): what a file holds whose sync failed is unknown, and the next run of this boot would
    // believe its rows.
    IgnoreStatus(Failed(status));
    Remove(id, {});
    all = false;
  }
  return all;
}

StoreCore::~StoreCore() {
  const auto deadline = std::chrono::steady_clock::now() + kCloseTimeout;
  {
    MutexLock lock(mu_);
    stopping_ = true;
    stop_at_ = deadline;
    wake_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
  WriteUses();
  const bool clean = SyncIncomplete(deadline);
  if (const Status put = index_->PutRun({boot_id_, clean}, Index::Durability::kMachine); !put.ok()) {
    IgnoreStatus(Failed(put));  // the next start takes it for a crash, which is safe
  }
  // Other stores of this daemon count in the same metrics.
  metrics_.cache_limit_bytes.Sub(static_cast<int64_t>(options_.limit_bytes));
  metrics_.cache_used_bytes.Sub(static_cast<int64_t>(space_.used()));
  MutexLock lock(mu_);
  metrics_.cache_objects.Sub(static_cast<int64_t>(recorded_));
  metrics_.cache_complete_objects.Sub(static_cast<int64_t>(complete_));
  metrics_.cache_ghosts.Sub(static_cast<int64_t>(shown_.ghosts));
}

}  // namespace stoker
