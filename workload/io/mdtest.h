#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/result.h"
#include "workload/io/item_tree.h"
#include "workload/io/mdtest_options.h"
#include "workload/io/team.h"

namespace stoker::bench {

/// Phases in the order of mdtest's table.
enum class MdPhase : uint8_t {
  kDirCreate,
  kDirStat,
  kDirRename,
  kDirRemove,
  kFileCreate,
  kFileStat,
  kFileRead,
  kFileRemove,
  kTreeCreate,
  kTreeRemove,
};
constexpr size_t kMdPhases = 10;
/// "Directory creation", …
const char* MdPhaseName(MdPhase phase);

struct MdPhaseResult {
  MdPhase phase = MdPhase::kDirCreate;
  uint64_t iteration = 0;
  uint64_t items = 0;  // of all tasks
  double seconds = 0;  // from the first task's begin to the last one's end
  // Creation with -W: when the last task passed the time, and what all had made by then.
  double stonewall_s = 0;
  uint64_t stonewall_items = 0;
  double rate() const { return seconds > 0 ? static_cast<double>(items) / seconds : 0; }
};

struct MdOutcome {
  std::vector<MdPhaseResult> phases;  // in the order they ran, complete ones only
  uint64_t wrong_files = 0;           // -X
  std::string first_wrong;
  bool interrupted = false;
  std::string not_removed;  // what an ended run left behind, and why
  Status failure;           // not ok: why the test ended before its time
};

/// A metadata test in the manner of mdtest: threads stand in for its tasks, those of other processes take
/// part. One thread calls; Prepare and Run are collective, and what they return is the same in every process.
class Mdtest {
 public:
  /// `options.tasks` is that of `team`, which must outlive this.
  Mdtest(const MdtestOptions& options, Team& team);

  /// Looks at the folder before any work. kInvalidArgument, kAlreadyExists (items of an earlier run where new
  /// ones are to be made), kNotFound (none where they are to be used), kNoSpace (bytes or inodes).
  Status Prepare();
  /// Runs all iterations. On errors and on `cancel` it ends soon and removes all that this run has made.
  MdOutcome Run(const CancelToken& cancel, const std::function<void(const MdPhaseResult&)>& ended);

 private:
  struct Task;
  struct Shared;

  Status LookAtFolder();
  std::vector<std::string> Roots(uint64_t iteration) const;
  std::string TreeBase(uint64_t task) const;
  Status MakeFolders(uint64_t iteration);
  Status RemoveFolders(uint64_t iteration);
  Status CheckItemsExist(uint64_t iteration) const;
  Status RunIteration(uint64_t iteration, const CancelToken& cancel, MdOutcome& outcome,
                      const std::function<void(const MdPhaseResult&)>& ended);
  Status RunPhase(MdPhase phase, uint64_t iteration, const CancelToken& cancel, MdOutcome& outcome,
                  const std::function<void(const MdPhaseResult&)>& ended);
  void RunTask(Shared& shared, Task& task, Rendezvous& meeting, const CancelToken& cancel);
  Status DoItem(const Shared& shared, Task& task, const char* path, uint64_t owner, const ItemPlace& place);
  Status DoTree(const Shared& shared, Task& task, const CancelToken& cancel);
  Status RenameAll(const Shared& shared, Task& task, uint64_t owner, const CancelToken& cancel);
  void RemoveMade(MdOutcome& outcome);

  const MdtestOptions options_;
  Team& team_;
  uint64_t dir_items_ = 0;  // of each task; less than asked for after -W
  uint64_t file_items_ = 0;
  uint64_t shuffle_seed_ = 0;
  bool made_folder_ = false;       // -d itself is of this run
  std::vector<std::string> made_;  // test folders that this run made and has not removed
};

}  // namespace stoker::bench
