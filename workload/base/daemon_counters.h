#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cache/base/clock.h"
#include "cache/base/result.h"

namespace stoker::bench {

/// What a Stoker daemon has counted since it started. Reads that the kernel passes through to the cache file
/// never reach the daemon: it sees their opens, not their bytes.
struct DaemonCounters {
  int64_t pid = 0;
  std::string version;
  bool passthrough = false;        // the mount can pass reads through
  uint64_t read_hits = 0;          // READ requests whose bytes were all resident
  uint64_t read_misses = 0;        // READ requests of which some byte was not
  uint64_t bytes_cache = 0;        // handed to the kernel by the daemon, from the cache
  uint64_t bytes_delivered = 0;    // handed to the kernel by the daemon, from anywhere
  uint64_t bytes_ufs = 0;          // read from the UFS, read-ahead and warm jobs included
  uint64_t opens = 0;              // files opened
  uint64_t passthrough_opens = 0;  // of these: passed through, their reads unseen
  uint64_t read_errors = 0;
  uint64_t ufs_errors = 0;
};

/// What `stoker status --json MOUNT` printed. kCorruption: not such a text. Pure.
Result<DaemonCounters> ParseDaemonStatus(std::string_view json);

/// What was counted between two looks. kStale: another daemon answered the second time. Pure.
Result<DaemonCounters> CountersBetween(const DaemonCounters& before, const DaemonCounters& after);

/// Share (0..1) of the bytes the daemon handed out itself that came from the cache; 0 when there were none.
double HitShare(const DaemonCounters& counters);
/// Share (0..1) of `bytes_read` (what the application read in the same time) for which the UFS was not asked:
/// the only figure that counts passthrough reads as well. Read-ahead that nobody used lowers it.
double ShareWithoutUfs(const DaemonCounters& counters, uint64_t bytes_read);

/// The `stoker` program: beside the running program, else in PATH. kNotFound: neither.
Result<std::string> FindStokerProgram();

inline constexpr Nanos kDaemonTimeout = std::chrono::seconds(2);

/// Asks the daemon behind `mountpoint` by running `PROGRAM status --json MOUNTPOINT`: no shell, at most
/// `timeout`. Errors (no daemon, not allowed, too slow, another version's text) are for a note beside the
/// results and no reason to stop. Costs a few ms. Any thread.
Result<DaemonCounters> AskDaemon(const std::string& program, const std::string& mountpoint,
                                 Nanos timeout = kDaemonTimeout);
/// The same with FindStokerProgram().
Result<DaemonCounters> AskDaemon(const std::string& mountpoint);

}  // namespace stoker::bench
