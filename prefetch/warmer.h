#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/metrics.h"
#include "prefetch/fetch_engine.h"

namespace stoker {

using WarmJobId = uint64_t;

/// One warm job at one moment. Bytes are file sizes; files that were resident already count as done at once.
struct WarmProgress {
  WarmJobId id = 0;
  enum class State {
    kRunning,
    kDone,
    kFailed,
    kCancelled
  } state = State::kRunning;   // kFailed: something is not cached
  bool walk_finished = false;  // files_total and bytes_total are final
  uint64_t files_total = 0;
  uint64_t files_done = 0;  // whole in the cache now
  uint64_t files_failed = 0;
  uint64_t files_skipped = 0;  // not regular files, or never cached by a rule
  uint64_t bytes_total = 0;
  uint64_t bytes_done = 0;      // resident, of files that have not failed
  uint64_t bytes_fetched = 0;   // of these: brought in by this job, not by a reader or job that was first
  double seconds = 0;           // since the start; stands still at the end
  double bytes_per_second = 0;  // landed over the last seconds; at the end, fetched over all of them
  double eta_seconds = -1;      // -1: not known yet
  /// The first failures (bounded by kMaxFailuresKept): UFS path and reason.
  std::vector<std::pair<std::string, std::string>> failures;
  static constexpr size_t kMaxFailuresKept = 1000;
};

/// Brings whole trees in, on request. Jobs run side by side at FetchPriority::kWarm through the one engine,
/// with a bounded number of files and parts under way each, so memory does not grow with the tree; each asks
/// the UFS several things at once (TreeWalk::kWalkers). A job never evicts what it has just brought in: when
/// the dataset does not fit, the rest fails with kNoSpace and the job says so. Any thread.
class Warmer {
 public:
  /// `skip`: files of these paths are not to be cached (files_skipped). Called from any thread.
  Warmer(Ufs& ufs, ObjectStore& store, FetchEngine& engine, Metrics& metrics, Clock& clock,
         std::function<bool(const std::string& path)> skip = {});
  /// Cancels what is running and waits for it (bounded by the default deadline of a fetch).
  ~Warmer();

  /// The same within `timeout`, and no job is started any more. False: a job hangs in the UFS and its thread
  /// is left behind; it still uses what this was made from, which must therefore stay until the process ends.
  bool Stop(Nanos timeout);

  /// Starts a job over UFS paths ("" = everything): files, or directories taken with all below them. Symlinks
  /// are not followed. Returns at once; a path that does not exist is one of the job's failures. kBusy: too
  /// many jobs.
  Result<WarmJobId> Start(std::vector<std::string> paths);
  /// kNotFound: no such job (finished ones are kept, the last 64).
  Result<WarmProgress> Progress(WarmJobId id) const;
  Status Cancel(WarmJobId id);
  std::vector<WarmProgress> List() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
