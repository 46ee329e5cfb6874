#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"
#include "cache/base/result.h"
#include "workload/report/comparison.h"
#include "workload/run/training_run.h"

namespace stoker::bench {

/// One of the directories that are compared.
struct Contender {
  std::string name;
  std::string dir;
  std::string before;  // a shell command run before each of its turns; "" for none
};

struct CompareOptions {
  Command command;  // its data_dir is replaced by each contender's; results_dir: "" writes no runs
  std::vector<Contender> contenders;
  uint64_t rounds = 3;
  Nanos before_timeout = std::chrono::minutes(10);
};

/// Where a turn's run is kept; `round` counts from 0. REQUIRES command.results_dir.
std::string RoundFolder(const CompareOptions& options, const Contender& contender, uint64_t round);

/// Who goes when: in round r the order begins with contender r mod n, so that everybody is first, second, …
/// equally often when the rounds are a multiple of the contenders. Pure.
std::vector<size_t> TurnOrder(size_t contenders, uint64_t round);

struct Comparison {
  std::vector<ContenderPlace> places;
  std::vector<TurnFigures> turns;  // in the order they were run
  /// Not ok: a hook failed, or results could not be written; the turns before are there.
  Status failure;
  bool interrupted = false;
  bool stuck = false;  // see TrainingLog::stuck
};

/// Looks for every contender's dataset; the plans are what RunComparison() needs. kInvalidArgument names the
/// contender.
Result<std::vector<TrainingPlan>> PlanComparison(const CompareOptions& options);

/// Runs `rounds` rounds. Each hook gets STOKER_BENCH_NAME, STOKER_BENCH_DIR and STOKER_BENCH_ROUND (from 1)
/// in its environment; one that fails ends the comparison. With a results folder, each turn's run is kept in
/// RESULTS/NAME/round-K. `say` hears a line per turn.
Comparison RunComparison(const CompareOptions& options, const std::vector<TrainingPlan>& plans,
                         const CancelToken& cancel, const std::function<void(const std::string&)>& say);

}  // namespace stoker::bench
