#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/metrics.h"
#include "cache/base/result.h"
#include "cache/store/object_store.h"
#include "cache/ufs/ufs.h"
#include "prefetch/fetch_engine.h"
#include "prefetch/read_ahead.h"

namespace stoker {

struct FilesystemOptions {
  std::chrono::nanoseconds metadata_ttl = std::chrono::seconds(60);  // metadata.ttl
  std::chrono::nanoseconds negative_ttl = std::chrono::seconds(5);   // metadata.negative_ttl
  size_t metadata_threads = 16;                                      // metadata.threads
  uint64_t open_fetch_bytes =
      4 * kMiB;  // files up to this are fetched inside OPEN, so that they open as passthrough
  ReadAheadOptions read_ahead;
};

using NodeId = uint64_t;  // what the kernel calls nodeid; 1 is the root
using HandleId = uint64_t;

/// POSIX meaning without FUSE: paths, versions, nodeids, handles. Tests drive it directly; fuse_ops translates requests
/// into calls of it. The UFS, store and engine must outlive it.
class Filesystem {
 public:
  Filesystem(const FilesystemOptions& options, Ufs& ufs, ObjectStore& store, FetchEngine& engine, Metrics& metrics,
             Clock& clock);
  ~Filesystem();
  /// Answers everything that waits with kCancelled and refuses what comes after. Idempotent, bounded.
  void Shutdown();
};

}  // namespace stoker
