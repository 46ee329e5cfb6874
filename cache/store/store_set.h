#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cache/base/mutex.h"
#include "cache/store/object_store.h"
#include "cache/store/placement.h"

namespace stoker {

/// Several cache directories as one store. An object lives on exactly one of those that are up, chosen by
/// Placement with the directories' limits as weights. A directory that could not be opened is down: no part
/// of the placement until the set is opened anew, and its objects have their place on the others meanwhile. A
/// thread of its own drops what lies on a directory that is not its place any more (after a directory was
/// added, or came back).
class StoreSet final : public ObjectStore {
 public:
  /// Opens each of the directories; a disk that fails makes only its own directory down. `down` lists further
  /// ones that could not even be looked at. With a single directory in all this is ObjectStore::Open, without
  /// anything between. Errors as there, when no directory is left, or when one must not be passed over: it is
  /// in use (kBusy), of a newer format (kUnsupported), holds something else or has an impossible option
  /// (kInvalidArgument), or is not ours (kPermissionDenied without an errno).
  static Result<std::unique_ptr<ObjectStore>> OpenAll(const std::vector<ObjectStoreOptions>& directories,
                                                      const std::vector<DirectoryReport>& down,
                                                      Metrics& metrics, Clock& clock);
  ~StoreSet() override;

  void SetListener(StoreListener* listener) override;
  Result<ObjectRef> Acquire(const FileVersion& version, const std::string& name_hint,
                            ProtectGroup group) override EXCLUDES(mu_);
  Result<ObjectRef> Find(const FileVersion& version) override;
  Result<SpaceReservation> Reserve(const ObjectRef& object, uint64_t bytes) override;
  Status Commit(const ObjectRef& object, PartIndex part, uint64_t checksum,
                SpaceReservation reservation) override;
  Status Verify(const ObjectRef& object, PartIndex part) override;
  void DropDamaged(const ObjectRef& object, PartIndex part) override;
  void Invalidate(const ObjectId& id) override;
  Result<std::vector<StoredObject>> List(const ObjectId* after, size_t limit) override;
  Result<ObjectRef> Peek(const ObjectId& id) override;
  Result<EvictReport> Evict(const std::vector<ObjectId>& ids) override;
  ProtectGroup BeginProtect() override EXCLUDES(mu_);
  void EndProtect(ProtectGroup group) override EXCLUDES(mu_);
  /// Sums.
  StoreUsage Usage() const override;
  /// Each directory decides for itself: the first one's decision and reason, everybody's switches.
  PolicyReport Policy() const override;
  std::vector<DirectoryReport> Directories() const override;
  Status Flush(std::chrono::nanoseconds timeout) override;

 private:
  StoreSet(std::vector<std::unique_ptr<StoreCore>> stores, const std::vector<Placement::Place>& places,
           std::vector<DirectoryReport> down);
  StoreCore& At(const ObjectId& id) const { return *stores_[placement_.Of(id)]; }

  const std::vector<std::unique_ptr<StoreCore>> stores_;  // those that are up
  const Placement placement_;                             // indices into stores_
  const std::vector<DirectoryReport> down_;
  Mutex mu_;
  std::map<ProtectGroup, std::vector<ProtectGroup>> groups_ GUARDED_BY(mu_);  // ours → each store's
  ProtectGroup last_group_ GUARDED_BY(mu_) = 0;
  std::atomic<bool> stop_{false};
  std::thread tidy_;
};

}  // namespace stoker
