#include "workload/run/self_test.h"

#include <algorithm>
#include <cmath>

namespace stoker::bench {
namespace {

constexpr double kSeconds = 3;
constexpr double kLeastSteps = 10;
constexpr double kMostSteps = 1e5;

}  // namespace

StepShares SelfTest(const TrainingPlan& plan, const CancelToken& cancel) {
  TrainerOptions options = plan.options;
  options.null_storage = true;
  options.others = nullptr;  // each process by itself
  options.epochs = 1;
  options.steps = 1 + static_cast<uint64_t>(std::clamp(std::ceil(kSeconds / options.computation_time),
                                                       kLeastSteps, kMostSteps));
  const TrainingLog log = Train(options, cancel, nullptr);
  if (log.epochs.empty()) return {};
  // The first step has the threads' start in it.
  return SharesOf(log.epochs.front(), 1, options.steps);
}

}  // namespace stoker::bench
