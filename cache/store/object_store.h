#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/fd.h"
#include "cache/base/ids.h"
#include "cache/base/metrics.h"
#include "cache/base/result.h"
#include "cache/base/units.h"
#include "cache/store/cache_policy.h"

namespace stoker {

class StoreCore;     // private to the store
struct ObjectState;  // private to the store

struct ObjectStoreOptions {
  std::string dir;  // the cache directory; made with mode 0700 when missing
  uint64_t limit_bytes =
      0;  // allocated blocks of all objects stay at or under this; at least a part and a page
  uint64_t min_free_bytes = 0;  // of the disk (f_bavail); caching stops before it gets less
  /// For new objects; each object keeps the one it was made with. A multiple of 4 KiB, at most 1 GiB.
  uint64_t part_length = 4 * kMiB;
  double low_watermark = 0.95;  // of limit_bytes: eviction, once started, goes down to this
  CachePolicy policy = CachePolicy::kAuto;
  size_t max_open_files = 1024;  // descriptors kept for objects that nobody is using at the moment
};

/// A pin on one object: while any ObjectRef to it lives, the object is not evicted. Copy it to pin twice. Any
/// thread. The store must outlive its refs. An empty ref is false; nothing else may be called on it.
class ObjectRef {
 public:
  ObjectRef() = default;
  explicit operator bool() const { return state_ != nullptr; }

  const ObjectId& id() const;
  uint64_t size() const;
  uint64_t part_length() const;
  /// 0 for an empty file.
  uint32_t part_count() const;
  /// Bytes of one part, cut at the end of the file.
  ByteRange PartRange(PartIndex part) const;
  PartIndex PartAt(uint64_t offset) const;

  /// Lock-free, and never goes back to false while this ref lives unless the part was dropped as damaged.
  bool IsResident(PartIndex part) const;
  /// All parts that the range (cut at the end of the file) touches.
  bool IsResident(ByteRange range) const;
  /// Every part is resident: the file may be read by the kernel itself. True for an empty file.
  bool complete() const;
  uint64_t resident_bytes() const;

  /// The sparse file, open for reading and writing; bytes at the UFS's offsets, holes where nothing is
  /// resident. Opened when needed and kept while somebody holds the pointer. Works after the object was
  /// invalidated (the name is gone, the bytes are not). kIo: the cache disk failed. kCorruption: somebody
  /// removed, cut or replaced the file; the object is dropped, nothing of this ref is resident any more and
  /// nothing can be stored through it (acquire anew). May wait on the cache disk.
  Result<std::shared_ptr<const Fd>> File() const;

 private:
  friend class StoreCore;
  friend class SpaceReservation;
  explicit ObjectRef(std::shared_ptr<ObjectState> state) : state_(std::move(state)) {}
  std::shared_ptr<ObjectState> state_;  // shared: its last owner's going is what unpins the object
};

/// Room promised to a part that is about to be written; given back when destroyed unless committed. Pins its
/// object. Move-only.
class SpaceReservation {
 public:
  SpaceReservation() = default;
  ~SpaceReservation();
  SpaceReservation(SpaceReservation&& other) noexcept;
  SpaceReservation& operator=(SpaceReservation&& other) noexcept;

 private:
  friend class StoreCore;
  SpaceReservation(std::shared_ptr<ObjectState> state, uint64_t bytes)
      : state_(std::move(state)), bytes_(bytes) {}
  std::shared_ptr<ObjectState> state_;
  uint64_t bytes_ = 0;
};

/// Told after the fact, from whatever thread did it, with no lock held. Must be quick and must not call the
/// store.
class StoreListener {
 public:
  virtual ~StoreListener() = default;
  virtual void OnComplete(const ObjectId& id) = 0;
  /// Evicted or invalidated: the name is gone. Refs and kernel users of the file keep their bytes.
  virtual void OnGone(const ObjectId& id) = 0;
};

struct StoreUsage {
  uint64_t used_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t limit_bytes = 0;
  uint64_t objects = 0;
  uint64_t complete_objects = 0;
};

/// One cache directory of a store.
struct DirectoryReport {
  std::string dir;
  bool up = true;      // false: it could not be used when the store was opened, and is left alone
  std::string reason;  // why it is down, for people
  StoreUsage usage;    // of this directory; zeros when down
};

/// An object as the index lists it.
struct StoredObject {
  ObjectId id;
  std::string name;  // UFS path that it was first read under; "" when the row cannot be read
};

/// What became of a request to evict.
struct EvictReport {
  enum class Kept : uint8_t {
    kOpen,     // somebody reads it, or it is being fetched
    kWarming,  // a warm job that runs has brought it in
    kDamaged,  // its rows could not be deleted: refused until the next start
  };
  uint64_t objects = 0;                         // evicted
  uint64_t bytes = 0;                           // allocated bytes of these
  std::vector<std::pair<ObjectId, Kept>> kept;  // an object that is not there any more is in neither
};

/// Objects are spared by eviction while their protect group is active (a warm job does not throw out what it
/// has just brought in). 0 = no group.
using ProtectGroup = uint64_t;

/// What is resident, where, and for how long; never asks where bytes come from. One cache directory, owned by
/// this process alone (lock file). Layout and commit order: docs/on_disk_format.md. Any thread, unless said
/// otherwise; calls may wait on the cache disk or RocksDB, never on the UFS. No lock is held meanwhile.
class ObjectStore {
 public:
  /// Takes the lock, opens or makes the directory, and trusts or marks for verification what an earlier run
  /// left. kBusy: another process holds it (its pid is in the message). kUnsupported: a format newer than
  /// ours. kPermissionDenied / kIo / kCorruption: the directory cannot be used; the message says why and what
  /// to do. kInvalidArgument: an option is impossible, or the directory holds something else.
  static Result<std::unique_ptr<ObjectStore>> Open(const ObjectStoreOptions& options, Metrics& metrics,
                                                   Clock& clock);
  /// Seals what is complete, then marks a clean shutdown if all that was written could be made durable within
  /// ten seconds. REQUIRES: no refs, no reservations, no call under way.
  virtual ~ObjectStore() = default;

  /// At most one, set before the first Acquire; must outlive the store's last call.
  virtual void SetListener(StoreListener* listener) = 0;

  /// The object for this version, made (with nothing resident, and no file yet) when it does not exist.
  /// Counts as a use. `name_hint` (the UFS path) is kept for people and for later tools, it identifies
  /// nothing. What a machine crash left in doubt is compared with its checksums here. kUnsupported: a file of
  /// more than 2^26 parts, or a version token above 64 KiB; it cannot be cached.
  virtual Result<ObjectRef> Acquire(const FileVersion& version, const std::string& name_hint,
                                    ProtectGroup group = 0) = 0;
  /// The object if something of it is resident, else kNotFound. Counts as a use.
  virtual Result<ObjectRef> Find(const FileVersion& version) = 0;

  /// Makes room for `bytes` more, evicting as needed. kNoSpace when neither eviction nor the disk gives it,
  /// or when the policy would rather keep what is there (never for an object that is in a protect group,
  /// unless the policy is kRetain): the caller serves the bytes without storing them. What is counted is
  /// whole pages and one page more (the file system's own record of where they lie).
  virtual Result<SpaceReservation> Reserve(const ObjectRef& object, uint64_t bytes) = 0;
  /// Declares a part resident. REQUIRES: all its bytes are in File() (a part that is all zeros may be left a
  /// hole). `checksum` is Checksum64 of the part's bytes. A part that is resident already is left as it is
  /// (ok). After kNoSpace or kIo the part is not resident. Into an invalidated object a part is committed for
  /// the holders of the snapshot only. kCorruption: as File().
  virtual Status Commit(const ObjectRef& object, PartIndex part, uint64_t checksum,
                        SpaceReservation reservation) = 0;
  /// Reads a resident part and compares it with its checksum; on a difference drops it and returns
  /// kCorruption (kIo when it cannot be read: dropped as well). kNotFound: the part is not resident. kStale:
  /// the object was invalidated and its checksums with it.
  virtual Status Verify(const ObjectRef& object, PartIndex part) = 0;
  /// Forgets one part whose bytes cannot be trusted. A complete object becomes incomplete: it is invalidated
  /// as a whole when kernel users may be reading it (the ref then belongs to a nameless snapshot).
  virtual void DropDamaged(const ObjectRef& object, PartIndex part) = 0;
  /// Forgets the object because its content is no longer what the UFS has. Holders keep their snapshot.
  virtual void Invalidate(const ObjectId& id) = 0;

  /// At most `limit` objects whose id is greater than `after` (null: from the first), in order of their ids.
  /// Empty at the end. What comes or goes meanwhile may be in it or not.
  virtual Result<std::vector<StoredObject>> List(const ObjectId* after, size_t limit) = 0;
  /// The object of this id if there is one, else kNotFound. Not a use: the time of its last use stays. (While
  /// it is held it is no candidate, and some policies take it back as if it were among the newer ones.)
  virtual Result<ObjectRef> Peek(const ObjectId& id) = 0;
  /// Evicts these, in one index write (at most some hundred ids at once), except those in use. What the store
  /// itself holds to make it durable is waited for. kIo: the index could not be written; nothing was evicted.
  virtual Result<EvictReport> Evict(const std::vector<ObjectId>& ids) = 0;

  virtual ProtectGroup BeginProtect() = 0;
  virtual void EndProtect(ProtectGroup group) = 0;

  virtual StoreUsage Usage() const = 0;
  virtual PolicyReport Policy() const = 0;
  /// Those that are up in the order of the configuration, then those that are down.
  virtual std::vector<DirectoryReport> Directories() const = 0;
  /// Waits until what is complete is durable (fdatasync and index) and usage is under the limit as far as
  /// eviction can bring it, at most `timeout` (kDeadlineExceeded).
  virtual Status Flush(std::chrono::nanoseconds timeout) = 0;
};

}  // namespace stoker
