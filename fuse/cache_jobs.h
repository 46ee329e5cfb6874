#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/result.h"
#include "cache/store/object_store.h"

namespace stoker {

using CacheJobId = uint64_t;

/// What to do with the objects whose names are, or lie below, one of `paths` (UFS paths, "" = everything).
struct CacheJobRequest {
  enum class Kind : uint8_t { kEvict, kVerify } kind = Kind::kEvict;
  std::vector<std::string> paths;
  uint64_t bytes_per_second = 0;  // of kVerify; 0: as fast as the disk
};

/// One job at one moment.
struct CacheJobProgress {
  CacheJobId id = 0;
  CacheJobRequest::Kind kind = CacheJobRequest::Kind::kEvict;
  enum class State : uint8_t { kRunning, kDone, kFailed, kCancelled } state = State::kRunning;
  uint64_t objects_seen = 0;   // looked at by name, of objects_total
  uint64_t objects_total = 0;  // in the cache when the job began
  uint64_t objects = 0;        // evicted, or read whole
  uint64_t bytes = 0;          // freed, or read
  uint64_t kept_open = 0;      // not evicted: somebody has them open
  uint64_t kept_warming = 0;   // not evicted: a running warm job has brought them in
  uint64_t damaged_parts = 0;
  std::string error;  // of kFailed
  /// The first ones that were kept or damaged (bounded by kMaxNotes): UFS path and what is the matter.
  std::vector<std::pair<std::string, std::string>> notes;
  static constexpr size_t kMaxNotes = 1000;
};

/// Evicts and verifies on request, each job on a thread of its own, of low I/O priority. What belongs to a
/// path is found by the name that an object was first read under: no question goes to the UFS, so it works
/// for paths that are gone there. Memory does not grow with the cache. Any thread.
class CacheJobs {
 public:
  /// The store must outlive this.
  explicit CacheJobs(ObjectStore& store);
  /// Cancels what is running and waits for it: for one part's reading, or one batch's eviction.
  ~CacheJobs();

  /// kBusy: too many jobs. kCancelled: after Stop().
  Result<CacheJobId> Start(CacheJobRequest request);
  /// kNotFound: no such job (of those that ended, the last 64 are kept).
  Result<CacheJobProgress> Progress(CacheJobId id) const;
  Status Cancel(CacheJobId id);
  /// Cancels everything and waits, as the destructor; no job is started any more.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
