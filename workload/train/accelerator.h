#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"
#include "cache/base/result.h"
#include "workload/train/batch_source.h"
#include "workload/train/doorbell.h"
#include "workload/train/training_log.h"

namespace stoker::bench {

/// Where the ranks of this process meet those of others after a step, as gradients would be summed. Called
/// from the thread that drives the accelerators, when all of this process have come. Returns when all others
/// have come too; an error ends the run, its message names the ranks that are missing. kCancelled: somebody
/// else ended it.
using MeetOthers = std::function<Status(Nanos timeout)>;

struct AcceleratorOptions {
  uint64_t first_rank = 0;  // number of the first, for messages
  Nanos compute{0};         // busy per step
  Nanos step_timeout = std::chrono::minutes(10);
  Nanos run_start{0};             // what stamps are relative to, on the steady clock
  MeetOthers meet_others;         // none: there are no others
  CancelToken cancel;             // looked at ten times a second
  std::function<Status()> check;  // a reason of somebody else's to stop, looked at whenever the thread wakes
};

/// Simulated accelerators, all driven by the thread that calls Run(). An accelerator needs no thread: it
/// either waits for its batch, or is busy until a moment that is known, or waits for the others. One thread
/// that sleeps to the next such moment, or until a batch comes, keeps any number of them, and the barrier
/// that ends a step is a count. That costs about a microsecond per step where threads of their own would need
/// a wake-up each, which with a step of 375 us and eight accelerators on two cores is a tenth of the step.
///
/// Nothing is assumed that did not happen: a batch is loaded when it was found ready, compute begins then and
/// ends when the clock was seen to have passed its end, the step ends when the last accelerator has come.
class Accelerators {
 public:
  /// `sources`: one per accelerator, started; outlives this object. `bell` is what they ring.
  Accelerators(AcceleratorOptions options, std::vector<BatchSource*> sources, Doorbell& bell);

  /// One epoch's steps on all. `ranks` ([sources]) receives their stamps step by step: whatever ends the run
  /// early, finished steps are there. kDeadlineExceeded: names the rank and the batch that was not read;
  /// kCancelled.
  Status Run(uint64_t steps, std::vector<RankEpoch>& ranks);

 private:
  struct Accelerator {
    BatchSource* source;
    Nanos busy_until{0};
    StepTimes times;
  };

  Status Step();
  void TakeBatches();
  Status LoadTimeout() const;
  double Seconds(Nanos time) const;

  const AcceleratorOptions options_;
  Doorbell& bell_;
  PreciseWaiter waiter_;
  std::vector<Accelerator> all_;
  std::vector<size_t> loading_;    // those that wait for their batch
  std::vector<size_t> computing_;  // in the order in which they end
};

}  // namespace stoker::bench
