#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/result.h"
#include "workload/io/io_options.h"
#include "workload/io/task_record.h"
#include "workload/io/team.h"

namespace stoker::bench {

enum class Access : uint8_t { kWrite, kRead, kCheck };
/// "write", "read", "check".
const char* AccessName(Access access);

/// One phase of one repetition, over all tasks. Seconds on the steady clock; "all" spans reach from the first
/// task's begin to the last task's end.
struct PhaseResult {
  Access access = Access::kWrite;
  uint64_t repetition = 0;
  double open_s = 0;      // of all opens
  double transfer_s = 0;  // of all transfers (with -e: and the final fsync)
  double close_s = 0;     // of all closes
  double total_s = 0;     // first open's begin to last close's end: what bandwidth is computed with
  double latency_s = 0;   // a task's transfer time / its transfers; the smallest over tasks, as IOR has it
  uint64_t bytes = 0;     // moved by all tasks
  uint64_t transfers = 0;
  uint64_t expected_bytes = 0;
  uint64_t wrong_words = 0;      // -W, -R: 8-byte words that differ
  double cpu_s = 0;              // user + system, of this process
  double stonewall_s = 0;        // with -O stoneWallingWearOut=1: when the last task passed -D …
  uint64_t stonewall_bytes = 0;  // … and what all had moved by then
  std::vector<double> task_s;    // [tasks], open to close of each

  double bandwidth() const { return total_s > 0 ? static_cast<double>(bytes) / total_s : 0; }
  double transfers_per_s() const { return transfer_s > 0 ? static_cast<double>(transfers) / transfer_s : 0; }
};

/// One phase's spans and sums from what its tasks recorded. Pure.
PhaseResult SumUp(const std::vector<TaskRecord>& tasks, uint64_t transfer_bytes);

struct IoOutcome {
  std::vector<PhaseResult> phases;  // in the order they ran; the last may be incomplete
  std::vector<double> remove_s;     // of each repetition that removed its files
  bool interrupted = false;
  bool out_of_time = false;  // -T ended the test before all repetitions
  uint64_t wrong_words = 0;
  std::string first_wrong;  // where, what was expected and what was found
  std::string not_removed;  // a file that could not be removed, and why; empty: none
  /// Not ok: why the test ended before its time. The phase that failed is not among `phases`.
  Status failure;
};

/// What the run tells while it goes on. Any may be empty. Called from the thread that runs the test.
struct IoListener {
  std::function<void(Access, uint64_t repetition)> begins;
  std::function<void(const PhaseResult&)> ended;
  std::function<void(double seconds, uint64_t repetition)> removed;
};

/// What was found before the work, worth telling the user.
using IoNotes = std::vector<std::string>;

/// A bandwidth test in the manner of IOR: threads stand in for its tasks, those of other processes take part.
/// One thread calls; Prepare and Run are collective, and what they return is the same in every process.
class IoTest {
 public:
  /// `options.tasks` is that of `team`, which must outlive this.
  IoTest(const IoOptions& options, Team& team);
  ~IoTest();

  /// Looks at the storage before any work: folder, files that exist, free space, memory. kInvalidArgument,
  /// kNotFound, kNoSpace, …: found wrong, nothing was done.
  Result<IoNotes> Prepare();
  /// Runs all repetitions. On errors and on `cancel` it ends soon, and removes what it wrote unless -k.
  IoOutcome Run(const CancelToken& cancel, const IoListener& listener);

 private:
  struct Task;
  struct Phase;

  Result<IoNotes> LookAtStorage();
  Status RunPhase(Phase& phase, const CancelToken& cancel, IoOutcome& outcome, const IoListener& listener);
  void RunTask(Phase& phase, Task& task, Rendezvous& meeting, const CancelToken& cancel);
  Status AllocateBuffers();
  Status MakeRoom();
  Status GiveBackPages();
  /// Removes the test's files; returns what could not be removed and why, or nothing.
  std::string Remove();

  const IoOptions options_;
  Team& team_;
  const JobLayout layout_;
  std::unique_ptr<class Pattern> pattern_;
  std::vector<Task> tasks_;        // of this process
  std::vector<uint64_t> written_;  // [tasks]: transfers of each that the last write phase did, in its order
  bool wrote_ = false;             // this repetition's files are of this run
  bool stripe_ = false;
};

}  // namespace stoker::bench
