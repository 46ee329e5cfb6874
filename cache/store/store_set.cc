#include "cache/store/store_set.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cache/base/log.h"
#include "cache/store/store_core.h"

namespace stoker {
namespace {

/// Going on without the directory would hide a mistake, or take from somebody what is his.
bool MustRefuse(const Status& status) {
  switch (status.code()) {
    case Code::kBusy:
    case Code::kUnsupported:
    case Code::kInvalidArgument:
      return true;
    case Code::kPermissionDenied:
      return status.os_errno() == 0;
    default:
      return false;
  }
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> StoreSet::OpenAll(const std::vector<ObjectStoreOptions>& directories,
                                                       const std::vector<DirectoryReport>& down,
                                                       Metrics& metrics, Clock& clock) {
  if (directories.size() == 1 && down.empty()) return ObjectStore::Open(directories.front(), metrics, clock);
  std::vector<std::unique_ptr<StoreCore>> stores;
  std::vector<Placement::Place> places;
  std::vector<DirectoryReport> failed = down;
  Status first;
  for (const ObjectStoreOptions& options : directories) {
    Result<std::unique_ptr<StoreCore>> opened = StoreCore::Open(options, metrics, clock);
    if (!opened.ok()) {
      if (MustRefuse(opened.status())) return opened.status();
      failed.push_back({options.dir, false, opened.status().message(), {}});
      if (first.ok()) first = opened.status();
      continue;
    }
    places.push_back({options.dir, options.limit_bytes});
    stores.push_back(std::move(opened).value());
  }
  for (const DirectoryReport& one : failed) {
    LogError("store",
             "cache directory " + one.dir + " is down and is left alone until the next mount: " + one.reason);
  }
  if (stores.empty()) {
    if (!first.ok()) return first;
    return Status(Code::kIo, failed.empty() ? "there is no cache directory" : failed.front().reason);
  }
  return std::unique_ptr<ObjectStore>(new StoreSet(std::move(stores), places, std::move(failed)));
}

StoreSet::StoreSet(std::vector<std::unique_ptr<StoreCore>> stores,
                   const std::vector<Placement::Place>& places, std::vector<DirectoryReport> down)
    : stores_(std::move(stores)), placement_(places), down_(std::move(down)) {
  tidy_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "store-tidy");
    for (size_t i = 0; i < stores_.size() && !stop_; ++i) {
      stores_[i]->DropMisplaced([this, i](const ObjectId& id) { return placement_.Of(id) == i; }, stop_);
    }
  });
}

StoreSet::~StoreSet() {
  stop_ = true;
  tidy_.join();
}

void StoreSet::SetListener(StoreListener* listener) {
  for (const auto& store : stores_) store->SetListener(listener);
}

Result<ObjectRef> StoreSet::Acquire(const FileVersion& version, const std::string& name_hint,
                                    ProtectGroup group) {
  const size_t place = placement_.Of(MakeObjectId(version));
  if (group != 0) {
    MutexLock lock(mu_);
    const auto it = groups_.find(group);
    group = it == groups_.end() ? 0 : it->second[place];
  }
  return stores_[place]->Acquire(version, name_hint, group);
}

Result<ObjectRef> StoreSet::Find(const FileVersion& version) {
  return At(MakeObjectId(version)).Find(version);
}

Result<SpaceReservation> StoreSet::Reserve(const ObjectRef& object, uint64_t bytes) {
  return At(object.id()).Reserve(object, bytes);
}

Status StoreSet::Commit(const ObjectRef& object, PartIndex part, uint64_t checksum,
                        SpaceReservation reservation) {
  return At(object.id()).Commit(object, part, checksum, std::move(reservation));
}

Status StoreSet::Verify(const ObjectRef& object, PartIndex part) {
  return At(object.id()).Verify(object, part);
}

void StoreSet::DropDamaged(const ObjectRef& object, PartIndex part) {
  At(object.id()).DropDamaged(object, part);
}

void StoreSet::Invalidate(const ObjectId& id) {
  At(id).Invalidate(id);
}

Result<std::vector<StoredObject>> StoreSet::List(const ObjectId* after, size_t limit) {
  std::vector<StoredObject> all;
  for (size_t i = 0; i < stores_.size(); ++i) {
    ASSIGN_OR_RETURN(std::vector<StoredObject> page, stores_[i]->List(after, limit));
    std::move(page.begin(), page.end(), std::back_inserter(all));
  }
  // Each page holds the first of its store: the first of all are among them.
  std::sort(all.begin(), all.end(), [](const StoredObject& a, const StoredObject& b) { return a.id < b.id; });
  // Misplaced, one may be on two for a moment.
  all.erase(std::unique(all.begin(), all.end(),
                        [](const StoredObject& a, const StoredObject& b) { return a.id == b.id; }),
            all.end());
  if (all.size() > limit) all.resize(limit);
  return all;
}

Result<ObjectRef> StoreSet::Peek(const ObjectId& id) {
  return At(id).Peek(id);
}

Result<EvictReport> StoreSet::Evict(const std::vector<ObjectId>& ids) {
  std::vector<std::vector<ObjectId>> shares(stores_.size());
  for (const ObjectId& id : ids) shares[placement_.Of(id)].push_back(id);
  EvictReport sum;
  for (size_t i = 0; i < shares.size(); ++i) {
    ASSIGN_OR_RETURN(EvictReport one, stores_[i]->Evict(shares[i]));
    sum.objects += one.objects;
    sum.bytes += one.bytes;
    std::move(one.kept.begin(), one.kept.end(), std::back_inserter(sum.kept));
  }
  return sum;
}

ProtectGroup StoreSet::BeginProtect() {
  std::vector<ProtectGroup> members;
  members.reserve(stores_.size());
  for (const auto& store : stores_) members.push_back(store->BeginProtect());
  MutexLock lock(mu_);
  groups_[++last_group_] = std::move(members);
  return last_group_;
}

void StoreSet::EndProtect(ProtectGroup group) {
  std::vector<ProtectGroup> members;
  {
    MutexLock lock(mu_);
    const auto it = groups_.find(group);
    if (it == groups_.end()) return;
    members = std::move(it->second);
    groups_.erase(it);
  }
  for (size_t i = 0; i < members.size(); ++i) stores_[i]->EndProtect(members[i]);
}

StoreUsage StoreSet::Usage() const {
  StoreUsage sum;
  for (const auto& store : stores_) {
    const StoreUsage one = store->Usage();
    sum.used_bytes += one.used_bytes;
    sum.reserved_bytes += one.reserved_bytes;
    sum.limit_bytes += one.limit_bytes;
    sum.objects += one.objects;
    sum.complete_objects += one.complete_objects;
  }
  return sum;
}

PolicyReport StoreSet::Policy() const {
  PolicyReport report = stores_.front()->Policy();
  for (size_t i = 1; i < stores_.size(); ++i) report.switches += stores_[i]->Policy().switches;
  return report;
}

std::vector<DirectoryReport> StoreSet::Directories() const {
  std::vector<DirectoryReport> all;
  for (const auto& store : stores_) {
    for (DirectoryReport& one : store->Directories()) all.push_back(std::move(one));
  }
  all.insert(all.end(), down_.begin(), down_.end());
  return all;
}

Status StoreSet::Flush(std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  Status first;
  for (const auto& store : stores_) {
    const auto left =
        std::max(deadline - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration::zero());
    const Status flushed = store->Flush(left);
    if (!flushed.ok() && first.ok()) first = flushed;
  }
  return first;
}

}  // namespace stoker
