#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/metrics.h"
#include "cache/base/result.h"
#include "cache/base/worker_pool.h"
#include "cache/store/object_store.h"
#include "cache/ufs/ufs.h"
#include "fuse/file_handle.h"
#include "fuse/inode_table.h"
#include "fuse/passthrough.h"
#include "fuse/path_rules.h"
#include "fuse/read_path.h"
#include "fuse/wait_list.h"
#include "prefetch/fetch_engine.h"
#include "prefetch/read_ahead.h"

namespace stoker {

struct FilesystemOptions {
  std::chrono::nanoseconds metadata_ttl = std::chrono::seconds(60);  // metadata.ttl
  std::chrono::nanoseconds negative_ttl = std::chrono::seconds(5);   // metadata.negative_ttl
  std::vector<PathRule> rules;                                       // metadata.rules
  size_t metadata_threads = 16;                                      // metadata.threads
  size_t metadata_queue = 65536;  // requests that may wait for such a thread; more are answered kBusy
  uint64_t open_fetch_bytes =
      4 * kMiB;  // files up to this are fetched inside OPEN, so that they open as passthrough
  size_t max_backing_ids = 32768;  // kept registered; each pins about 3.4 KiB of kernel memory (measured)
  ReadAheadOptions read_ahead;
};

/// The kernel, as far as the filesystem must reach it outside of replies.
class KernelSide {
 public:
  virtual ~KernelSide() = default;
  /// Makes the kernel look the name up again. May wait for requests under way in that directory. Called from
  /// one thread that serves no request, with no lock held.
  virtual void InvalidateEntry(const NodeName& name) = 0;
};

/// Who asks, and how to reach them while they wait.
struct Caller {
  uid_t uid = 0;
  /// Told that the answer will come later and under which id Interrupt() ends the wait; no answer is given
  /// before it has returned. Not called when the request is answered inside the call.
  std::function<void(WaitId)> on_wait;
};

struct OpenedFile {
  HandleId handle = 0;
  int32_t backing_id = 0;  // > 0: the kernel reads this registered file itself
};

struct OpenedDir {
  HandleId handle = 0;
  bool keep_listing = false;  // the listing that the kernel has kept is still good
};

/// One entry of a listing, valid during the call that hands it over.
struct ListedEntry {
  std::string_view name;
  uint64_t ino = 0;
  mode_t type = 0;                 // S_IFMT bits, 0: unknown
  uint64_t next = 0;               // cookie behind it
  const NodeAttr* attr = nullptr;  // with attributes: the entry's node, counted as looked up once
};

enum class SeekTarget { kData, kHole };

/// POSIX meaning without FUSE: paths, versions, nodeids, handles. Tests drive it directly; fuse_ops
/// translates requests into calls of it. What is known and fresh is answered inside the call, everything that
/// needs the UFS later from another thread; each reply runs exactly once. A reply that could not be delivered
/// is undone by its receiver: Forget() for nodes, Release() for handles. Any thread. The UFS, store, engine
/// and metrics must outlive it; stop the engine before destroying it.
class Filesystem {
 public:
  template <typename T>
  using Reply = std::function<void(Result<T>)>;

  Filesystem(const FilesystemOptions& options, Ufs& ufs, ObjectStore& store, FetchEngine& engine,
             Metrics& metrics, Clock& clock);
  ~Filesystem();
  Filesystem(const Filesystem&) = delete;
  Filesystem& operator=(const Filesystem&) = delete;

  /// Before the first request. `passthrough` null: every file is served by the daemon. `kernel` must stay
  /// until Shutdown() has returned.
  void AttachKernel(KernelSide* kernel, std::shared_ptr<BackingDevice> passthrough);
  /// Answers everything that waits with kUnavailable and refuses what comes after. Idempotent, bounded.
  void Shutdown();
  /// After Shutdown(): a thread is stuck in storage that does not answer. It was left behind, so neither this
  /// nor the UFS and the store must be destroyed: end the process with _exit.
  bool stuck() const;
  /// The session's word that a thread of its own is stuck in a call of this.
  void MarkStuck();

  /// A node, or node 0 with the time for which the name may be taken as missing.
  void Lookup(NodeId parent, const std::string& name, Caller caller, Reply<NodeAttr> reply);
  void Forget(NodeId node, uint64_t lookups);
  /// kStale: the node's path holds something else now; looking the path up again helps.
  void GetAttr(NodeId node, Caller caller, Reply<NodeAttr> reply);
  void ReadLink(NodeId node, Caller caller, Reply<std::string> reply);
  void GetXattr(NodeId node, const std::string& name, Caller caller, Reply<std::string> reply);
  /// Names, each ended by a NUL.
  void ListXattr(NodeId node, Caller caller, Reply<std::string> reply);
  void StatFs(Caller caller, Reply<struct statvfs> reply);

  /// `flags` as for open(2). kPermissionDenied with EROFS for writing.
  void Open(NodeId node, int flags, Caller caller, Reply<OpenedFile> reply);
  void Release(HandleId handle);
  void Read(HandleId handle, uint64_t offset, size_t size, Caller caller, Reply<ReadReply> reply);
  /// Again, after the cache file of a reply did not hold its bytes.
  void ReadSalvage(HandleId handle, ByteRange range, Caller caller, Reply<ReadReply> reply);
  /// What a reply has brought to the application; for the counters.
  void CountDelivered(const ReadReply& reply);
  /// kNotFound with ENXIO: nothing more there.
  void Seek(HandleId handle, uint64_t offset, SeekTarget target, Caller caller, Reply<uint64_t> reply);

  void OpenDir(NodeId node, Caller caller, Reply<OpenedDir> reply);
  void ReleaseDir(HandleId handle);
  /// Hands entries from `cookie` on to `take`, on another thread, until it says false or the end is reached;
  /// then replies with the nodes that were counted as looked up (`with_attr` only).
  void ReadDir(HandleId handle, uint64_t cookie, bool with_attr, std::function<bool(const ListedEntry&)> take,
               Caller caller, Reply<std::vector<NodeId>> reply);

  /// The asker gave up: answers with kCancelled, inside the call, if the answer has not come.
  void Interrupt(WaitId id);
  bool Waiting(WaitId id) const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the work under way, which may outlive a bounded stop
};

}  // namespace stoker
