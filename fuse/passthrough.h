#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "cache/base/ids.h"
#include "cache/base/metrics.h"
#include "cache/base/mutex.h"
#include "cache/base/result.h"

namespace stoker {

/// Registers files with the kernel so that it reads them itself. Any thread.
class BackingDevice {
 public:
  virtual ~BackingDevice() = default;
  /// An id (> 0) for what `fd` refers to; `fd` may be closed afterwards.
  virtual Result<int32_t> Register(int fd) = 0;
  virtual void Unregister(int32_t id) = 0;
};

/// One registration with the kernel, closed when nobody holds it any more.
class BackingId {
 public:
  BackingId(std::shared_ptr<BackingDevice> device, int32_t id, Metrics& metrics)
      : device_(std::move(device)), id_(id), metrics_(metrics) {
    metrics_.backing_ids.Add();
  }
  ~BackingId() {
    device_->Unregister(id_);
    metrics_.backing_ids.Sub();
  }
  BackingId(const BackingId&) = delete;
  BackingId& operator=(const BackingId&) = delete;
  int32_t id() const { return id_; }

 private:
  const std::shared_ptr<BackingDevice> device_;  // shared: ids of open files may outlive the mount
  const int32_t id_;
  Metrics& metrics_;
};

/// Backing ids by object. An id that a node uses is shared with that node (it must not be closed while the
/// kernel has opens of it); unused ones are kept, because the next open is then cheaper, in an LRU that is
/// bounded because each kept id pins a file, an inode and a dentry in the kernel. Any thread; no lock is held
/// over ioctls.
class BackingTable {
 public:
  /// `max_kept`: ids remembered, used or not.
  BackingTable(size_t max_kept, Metrics& metrics) : max_kept_(max_kept), metrics_(metrics) {}
  BackingTable(const BackingTable&) = delete;
  BackingTable& operator=(const BackingTable&) = delete;

  /// The object's id; `open_file` is asked for a descriptor when there is none yet. Shared, since the node
  /// that uses it and the table both keep it alive.
  template <typename OpenFile>
  Result<std::shared_ptr<BackingId>> Get(const ObjectId& object, const std::shared_ptr<BackingDevice>& device,
                                         const OpenFile& open_file) EXCLUDES(mu_) {
    if (std::shared_ptr<BackingId> known = Find(object)) return known;
    ASSIGN_OR_RETURN(const auto fd, open_file());
    ASSIGN_OR_RETURN(const int32_t id, device->Register(fd->get()));
    return Insert(object, std::make_shared<BackingId>(device, id, metrics_));
  }
  /// The object is gone from the cache: gives its id away (null when there is none). It closes when its last
  /// user lets go, the caller included.
  std::shared_ptr<BackingId> Remove(const ObjectId& object) EXCLUDES(mu_);
  void Clear() EXCLUDES(mu_);
  size_t size() const EXCLUDES(mu_);

 private:
  using Lru = std::list<std::pair<ObjectId, std::shared_ptr<BackingId>>>;
  std::shared_ptr<BackingId> Find(const ObjectId& object) EXCLUDES(mu_);
  /// Two may have registered at once: the first one's id stays, the other's is closed unused.
  std::shared_ptr<BackingId> Insert(const ObjectId& object, std::shared_ptr<BackingId> id) EXCLUDES(mu_);

  const size_t max_kept_;
  Metrics& metrics_;
  mutable Mutex mu_;
  Lru lru_ GUARDED_BY(mu_);  // most recently used first
  std::unordered_map<ObjectId, Lru::iterator> by_object_ GUARDED_BY(mu_);
};

/// The kernel's own registration calls on the descriptor of a mounted /dev/fuse.
class FuseBackingDevice final : public BackingDevice {
 public:
  /// `fuse_fd` stays the caller's, who calls Disconnect() before closing it.
  explicit FuseBackingDevice(int fuse_fd) : fuse_fd_(fuse_fd) {}
  Result<int32_t> Register(int fd) override EXCLUDES(mu_);
  void Unregister(int32_t id) override EXCLUDES(mu_);
  /// The mount has ended and the kernel has closed all ids; what is still held means nothing any more.
  void Disconnect() EXCLUDES(mu_);

 private:
  // Held over the ioctls (a few microseconds, they wait on nothing), so that none of them meets a closed
  // descriptor.
  Mutex mu_;
  int fuse_fd_ GUARDED_BY(mu_);
};

/// Tries a registration on a scratch file in `dir`. Ok, or why the kernel reads nothing from there by itself:
/// in words for people, with the remedy.
Status ProbePassthrough(BackingDevice& device, const std::string& dir);

}  // namespace stoker
