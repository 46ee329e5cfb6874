#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cache/base/fd.h"
#include "cache/base/metrics.h"
#include "cache/base/mutex.h"
#include "cache/ufs/ufs.h"

struct statx;

namespace stoker {

/// What stays the same about a file system when its st_dev does not (network and stacked file systems get a
/// new number at every mount): statfs's f_fsid, or st_dev where there is none. Asked once per st_dev and then
/// remembered. Any thread.
class DeviceIdentities {
 public:
  /// `fd` (O_PATH is enough) lies on device `dev`; used only when the device is new. Falls back to `dev`.
  uint64_t Of(dev_t dev, int fd) EXCLUDES(mu_);
  /// False when the device was not seen yet.
  bool Find(dev_t dev, uint64_t* identity) const EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  std::unordered_map<uint64_t, uint64_t> known_ GUARDED_BY(mu_);
};

/// A directory tree of this machine as UFS: local disk, NFS, Lustre, another FUSE mount. Every path is
/// resolved below one root descriptor, so the tree may be renamed or mounted over while it is in use. Mounts
/// inside the tree belong to it. Any thread.
///
/// Versions are (device identity, inode, size, mtime, ctime). On kernels whose time stamps move in ticks a
/// second write within one tick would go unseen; OpenFile waits that tick out for a file changed just now.
class PosixUfs final : public Ufs {
 public:
  /// `root`: absolute path of an existing directory. kNotFound, kNotADirectory, kPermissionDenied name it.
  /// kUnsupported: the kernel (or a seccomp filter) refuses openat2.
  static Result<std::unique_ptr<PosixUfs>> Open(const std::string& root, Metrics& metrics);

  std::string uri() const override { return root_path_; }
  Result<UfsAttr> Stat(const std::string& path) override;
  Result<std::string> ReadLink(const std::string& path) override;
  Result<std::unique_ptr<UfsDir>> OpenDir(const std::string& path) override;
  Result<std::unique_ptr<UfsFile>> OpenFile(const std::string& path) override;
  Result<struct statvfs> StatFs() override;
  Result<std::string> GetXattr(const std::string& path, const std::string& name) override;
  Result<std::vector<std::string>> ListXattr(const std::string& path) override;

 private:
  friend class PosixDir;
  friend class PosixFile;

  PosixUfs(std::string root_path, Fd root, Metrics& metrics);

  /// Opens `path` below the root; the last component is not followed. Longer than PATH_MAX is fine. Flags as
  /// for open(2), without O_CLOEXEC (always on).
  Result<Fd> OpenBeneath(const std::string& path, uint64_t flags);
  /// Attributes from what statx said. `dirfd`/`name` lead to it when its device is new ("" = dirfd itself).
  UfsAttr MakeAttr(const struct statx& stx, int dirfd, const std::string& name);
  Result<UfsAttr> StatAt(int dirfd, const std::string& name, const std::string& shown);
  /// Counts what is an error of the storage and not an answer, and passes it on.
  Status Failed(Status status);
  Status Failed(int err, std::string_view what, const std::string& path);

  const std::string root_path_;
  const Fd root_;
  Metrics& metrics_;
  DeviceIdentities devices_;
  dev_t root_dev_ = 0;
};

}  // namespace stoker
