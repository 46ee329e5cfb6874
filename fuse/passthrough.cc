#include "fuse/passthrough.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cache/base/fd.h"
#include "cache/base/log.h"

namespace stoker {

namespace {

// linux/fuse.h has these from 6.9 on; the distribution's headers may be older than its kernel.
struct BackingMap {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};
static_assert(sizeof(BackingMap) == 16);
constexpr unsigned long kBackingOpen = _IOW(229, 1, BackingMap);
constexpr unsigned long kBackingClose = _IOW(229, 2, uint32_t);

Result<Fd> MakeScratchFile(const std::string& dir) {
  Fd fd(::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid()) return fd;
  std::string path = dir + "/.passthrough-probe-XXXXXX";  // file systems without O_TMPFILE
  fd = Fd(::mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) return Status::FromErrno(errno, "making a scratch file in " + dir);
  ::unlink(path.c_str());
  return fd;
}

}  // namespace

std::shared_ptr<BackingId> BackingTable::Remove(const ObjectId& object) {
  MutexLock lock(mu_);
  const auto it = by_object_.find(object);
  if (it == by_object_.end()) return nullptr;
  std::shared_ptr<BackingId> removed = std::move(it->second->second);
  lru_.erase(it->second);
  by_object_.erase(it);
  return removed;
}

void BackingTable::Clear() {
  Lru dropped;
  MutexLock lock(mu_);
  dropped.swap(lru_);
  by_object_.clear();
  lock.Unlock();
}

size_t BackingTable::size() const {
  MutexLock lock(mu_);
  return by_object_.size();
}

std::shared_ptr<BackingId> BackingTable::Find(const ObjectId& object) {
  MutexLock lock(mu_);
  const auto it = by_object_.find(object);
  if (it == by_object_.end()) return nullptr;
  lru_.splice(lru_.begin(), lru_, it->second);
  return it->second->second;
}

std::shared_ptr<BackingId> BackingTable::Insert(const ObjectId& object, std::shared_ptr<BackingId> id) {
  std::shared_ptr<BackingId> dropped;
  MutexLock lock(mu_);
  const auto it = by_object_.find(object);
  if (it != by_object_.end()) {
    std::shared_ptr<BackingId> first = it->second->second;
    lock.Unlock();  // `id` closes with this scope
    return first;
  }
  lru_.emplace_front(object, id);
  by_object_.emplace(object, lru_.begin());
  if (by_object_.size() > max_kept_) {
    dropped = std::move(lru_.back().second);
    by_object_.erase(lru_.back().first);
    lru_.pop_back();
  }
  lock.Unlock();
  return id;
}

Result<int32_t> FuseBackingDevice::Register(int fd) {
  MutexLock lock(mu_);
  if (fuse_fd_ < 0) return Status(Code::kUnavailable, "the mount has ended", ENOTCONN);
  BackingMap map{fd, 0, 0};
  const int id = ::ioctl(fuse_fd_, kBackingOpen, &map);
  if (id > 0) return static_cast<int32_t>(id);
  return Status::FromErrno(id == 0 ? EIO : errno, "registering a file for passthrough");
}

void FuseBackingDevice::Unregister(int32_t id) {
  MutexLock lock(mu_);
  if (fuse_fd_ < 0) return;
  const auto value = static_cast<uint32_t>(id);
  // Fails when the mount has just ended: the kernel has closed the id by itself then.
  if (::ioctl(fuse_fd_, kBackingClose, &value) != 0) {
    LogDebug("fuse", Status::FromErrno(errno, "closing backing id " + std::to_string(id)).message());
  }
}

void FuseBackingDevice::Disconnect() {
  MutexLock lock(mu_);
  fuse_fd_ = -1;
}

Status ProbePassthrough(BackingDevice& device, const std::string& dir) {
  Result<Fd> scratch = MakeScratchFile(dir);
  if (!scratch.ok()) return scratch.status();
  Result<int32_t> id = device.Register(scratch->get());
  if (id.ok()) {
    device.Unregister(*id);
    return Status::Ok();
  }
  const int err = id.status().os_errno();
  switch (err) {
    case EPERM:
      return {Code::kPermissionDenied,
              "EPERM: registering files needs CAP_SYS_ADMIN in the initial user namespace; run as root, or "
              "give a "
              "container that capability",
              err};
    case ELOOP:
      return {Code::kUnsupported,
              "ELOOP: the cache directory " + dir +
                  " is on a stacked file system (overlayfs); put it on a plain disk file system",
              err};
    case EOPNOTSUPP:
      return {Code::kUnsupported,
              "EOPNOTSUPP: the file system of the cache directory " + dir +
                  " cannot be read by the kernel directly",
              err};
    default:
      return id.status();
  }
}

}  // namespace stoker
