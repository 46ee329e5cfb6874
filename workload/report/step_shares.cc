#include "workload/report/step_shares.h"

#include <algorithm>

namespace stoker::bench {

StepShares SharesOf(const EpochLog& epoch, size_t first, size_t last) {
  StepShares out;
  for (const RankEpoch& rank : epoch.ranks) last = std::min(last, rank.steps.size());
  if (epoch.ranks.empty() || first >= last) return out;
  for (size_t i = first; i < last; ++i) {
    double last_compute = 0;
    for (const RankEpoch& rank : epoch.ranks) {
      last_compute = std::max(last_compute, rank.steps[i].compute_end);
    }
    for (const RankEpoch& rank : epoch.ranks) {
      const StepTimes& step = rank.steps[i];
      const double start = i == 0 ? rank.iter_start : rank.steps[i - 1].barrier_end;
      out.load_wait += step.load_end - start;
      out.compute += step.compute_end - step.load_end;
      out.barrier_wait += last_compute - step.compute_end;
      out.overhead += step.barrier_end - last_compute;
      out.seconds += step.barrier_end - start;
    }
  }
  if (out.seconds <= 0) return {};
  for (double* share : {&out.compute, &out.load_wait, &out.barrier_wait, &out.overhead}) {
    *share /= out.seconds;
  }
  out.steps = last - first;
  out.seconds /= static_cast<double>(epoch.ranks.size());
  return out;
}

}  // namespace stoker::bench
