// StoreCore: the books against the disk. Other programs fill it, file systems change their minds about
// blocks, people delete files.

#include <algorithm>

#include "cache/base/check.h"
#include "cache/base/log.h"
#include "cache/store/full_disk.h"
#include "cache/store/store_core.h"

namespace stoker {
namespace {

/// Objects looked at in one turn, of those that may have changed and of all the others in rotation.
constexpr size_t kUnsettledBatch = 256;
constexpr size_t kRotationBatch = 64;
/// A file system that allocates late needs more blocks for its own records when it writes a file back: up to
/// so long after the last write (ext4 and XFS write back within half a minute).
constexpr auto kSettleTime = std::chrono::seconds(60);
/// More objects than this are not followed; the rotation comes by them later.
constexpr size_t kMaxUnsettled = 4096;

}  // namespace

void StoreCore::MeasureDiskRoom() {
  const uint64_t used = space_.used();
  const Result<uint64_t> free_bytes = disk_->FreeBytes();
  if (!free_bytes.ok()) {
    IgnoreStatus(Failed(free_bytes.status()));  // the last answer stays
    return;
  }
  space_.SetDiskRoom(used, *free_bytes, options_.min_free_bytes);
}

bool MakeRoomOnFullDisk(const SpaceReservation& reservation) {
  return StoreCore::Of(reservation).MakeRoomOnFullDisk();
}

bool StoreCore::MakeRoomOnFullDisk() {
  MeasureDiskRoom();
  // Room by now, or objects that could go: with a disk that is full the limit is what they occupy, and what
  // is promised to parts under way is more than that.
  return space_.Shortage(0, 1.0) == 0 || EvictSome(0, RoomFor::kOverLimit) == Evicted::kSome;
}

void StoreCore::UnsettledLocked(const ObjectId& id) {
  if (unsettled_.size() < kMaxUnsettled) {
    unsettled_.push_back({id, std::chrono::steady_clock::now() + kSettleTime});
  }
}

void StoreCore::Watch() {
  MeasureDiskRoom();
  if (space_.Shortage(0, 1.0) > 0) EvictSome(0, RoomFor::kOverLimit);
  std::vector<std::pair<ObjectId, uint64_t>> idle;
  const auto add = [&](const ObjectId& id, const Entry& entry) {
    if (entry.candidate) idle.emplace_back(id, entry.charged);
  };
  {
    const auto now = std::chrono::steady_clock::now();
    MutexLock lock(mu_);
    for (size_t left = std::min(kUnsettledBatch, unsettled_.size()); left > 0; --left) {
      Unsettled one = unsettled_.front();
      unsettled_.pop_front();
      const auto it = table_.find(one.id);
      if (it == table_.end()) continue;
      add(it->first, it->second);
      if (now < one.until) unsettled_.push_back(one);
    }
    const size_t followed = idle.size();
    const size_t buckets = table_.bucket_count();
    for (size_t seen = 0; seen < std::min(kRotationBatch, buckets) && idle.size() < followed + kRotationBatch;
         ++seen) {
      const size_t bucket = rotation_++ % buckets;
      for (auto it = table_.begin(bucket); it != table_.end(bucket); ++it) add(it->first, it->second);
    }
  }
  for (const auto& [id, charged] : idle) Remeasure(id, charged);
}

void StoreCore::Remeasure(const ObjectId& id, uint64_t charged) {
  const Result<struct stat> info = disk_->StatObject(id);
  if (!info.ok()) {
    // Somebody deleted it. Anything else is for whoever reads it to find out.
    if (info.status().code() == Code::kNotFound) {
      {
        // Unless it went the usual way since it was noted.
        MutexLock lock(mu_);
        const auto it = table_.find(id);
        if (it == table_.end() || !it->second.candidate || it->second.charged != charged) return;
      }
      damage_log_.Log(LogLevel::kInfo, "store",
                      Disk::RelativePath(id) + " was deleted by somebody else; the object is dropped");
      Remove(id, {});
    }
    return;
  }
  const uint64_t allocated = AllocatedBytes(*info);
  if (allocated == charged) return;
  MutexLock lock(mu_);
  const auto it = table_.find(id);
  // Used in between: it was measured then.
  if (it == table_.end() || !it->second.candidate || it->second.charged != charged) return;
  const int64_t grown = static_cast<int64_t>(allocated) - static_cast<int64_t>(charged);
  space_.Charge(grown);
  candidate_bytes_ += static_cast<uint64_t>(grown);
  it->second.charged = allocated;
}

}  // namespace stoker
