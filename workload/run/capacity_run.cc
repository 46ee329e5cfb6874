#include "workload/run/capacity_run.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/base/steady.h"
#include "workload/run/training_run.h"
#include "workload/train/loader.h"

namespace stoker::bench {
namespace {

constexpr double kMeasureSeconds = 5;              // of computing that count in one measurement
constexpr uint64_t kMinSteps = 20;                 // a measurement's default is never shorter
constexpr uint64_t kLeastSteps = 10;               // what a small dataset may cut it down to
constexpr double kHopeless = 3;                    // times the duration of a fed measurement, then it is cut
constexpr Nanos kGrace = std::chrono::seconds(5);  // on top, for the first batches
constexpr Nanos kPoll = std::chrono::milliseconds(50);

/// Cancels `inner` when `outer` is cancelled or the time has come. RAII: ends its thread.
class CutOff {
 public:
  CutOff(const CancelToken& outer, CancelToken inner, Nanos deadline)
      : thread_([this, outer, inner, deadline]() mutable {
          MutexLock lock(mu_);
          while (!done_ && !outer.cancelled() && SteadyNow() < deadline) wake_.WaitFor(mu_, kPoll);
          if (!done_) inner.Cancel();
        }) {}
  ~CutOff() {
    {
      MutexLock lock(mu_);
      done_ = true;
      wake_.NotifyOne();
    }
    thread_.join();
  }
  CutOff(const CutOff&) = delete;
  CutOff& operator=(const CutOff&) = delete;

 private:
  Mutex mu_;
  CondVar wake_;
  bool done_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

bool Overridden(const Command& command, const std::string& flag) {
  return std::find(command.rule_overrides.begin(), command.rule_overrides.end(), flag) !=
         command.rule_overrides.end();
}

/// Each measurement must meet the storage and not what an earlier one left in this host's memory.
void ReadAnewEachTime(Command& command) {
  if (!Overridden(command, "--order") && command.rules.order == AccessOrder::kV2) {
    command.rules.order = AccessOrder::kV3;
  }
  if (!Overridden(command, "--cache-control")) command.rules.cache_control = CacheControl::kFadvise;
}

class Search {
 public:
  Search(const CapacityPlan& plan, CapacityRecord& record, const CancelToken& cancel,
         const std::function<void(const std::string&)>& say)
      : base_(plan.training),
        record_(record),
        cancel_(cancel),
        say_(say),
        search_(record.options),
        start_(SteadyNow()),
        end_(start_ + plan.time_limit),
        late_("time limit of " + FormatDuration(plan.time_limit)) {}

  void Run() {
    while (const std::optional<CapacityProbe> probe = search_.Next()) {
      const std::optional<CapacityMeasurement> one = Measure(*probe, record_.command.null_storage);
      if (!one) break;
      record_.measurements.push_back(*one);
      search_.Add(*probe, one->au_percent);
      Tell(*one);
    }
    record_.result = search_.Result();
    if (!record_.stuck) FindLimit();
    record_.seconds = std::chrono::duration<double>(SteadyNow() - start_).count();
  }

 private:
  uint64_t StepsOf(uint64_t accelerators) const {
    const uint64_t margins = 2 * record_.margin_steps;
    const uint64_t there = StepsFor(base_.options.order.samples, base_.options.batch_size, accelerators);
    return std::min(there - std::min(there, margins), record_.counted_steps);
  }

  /// The base plan for another number. Planned as if nothing were read: looking for the dataset's files again
  /// would take longer than a measurement on a slow mount, and looking at the page cache opens files, which
  /// makes a caching file system fetch them.
  Result<TrainingPlan> PlanFor(uint64_t accelerators, bool null_storage) const {
    Command command = base_.record.command;
    command.accelerators = accelerators;
    command.null_storage = true;
    command.seed += record_.measurements.size();
    command.profile.epochs = 1;
    command.profile.total_training_steps = 0;
    ASSIGN_OR_RETURN(TrainingPlan plan, PlanTraining(command));
    plan.record.command.null_storage = plan.options.null_storage = null_storage;
    plan.options.dataset = base_.options.dataset;
    plan.record.cache = base_.record.cache;
    return plan;
  }

  /// Nothing: the search must end; the record says why.
  std::optional<CapacityMeasurement> Measure(const CapacityProbe& probe, bool null_storage) {
    const uint64_t counted = StepsOf(probe.accelerators);
    const uint64_t margin = record_.margin_steps;
    Result<TrainingPlan> planned = PlanFor(probe.accelerators, null_storage);
    if (!planned.ok()) {
      record_.failure = planned.status();
      record_.ended_early = "a measurement could not be planned";
      return std::nullopt;
    }
    TrainingPlan& plan = *planned;
    plan.options.steps = plan.record.steps = counted + 2 * margin;

    const double fed_s = static_cast<double>(plan.options.steps) * plan.options.computation_time /
                         (record_.options.threshold_percent / 100);
    const Nanos before = SteadyNow();
    const Nanos cut_at = before + kGrace + Nanos(static_cast<int64_t>(kHopeless * fed_s * 1e9));
    CancelToken stop;
    RunRecord run = [&] {
      const CutOff cut_off(cancel_, stop, std::min(cut_at, end_));
      return RunOnce(plan, stop);
    }();
    record_.stuck = run.log.stuck;
    if (!Usable(run)) return std::nullopt;
    CapacityMeasurement out;
    out.probe = probe;
    out.cut = run.log.interrupted;
    out.seconds = std::chrono::duration<double>(SteadyNow() - before).count();
    out.cpu = run.cpu;
    out.bytes_per_s = run.harness.bytes_per_s;
    const EpochLog& epoch = run.log.epochs.at(0);
    out.shares = SharesOf(epoch, margin, margin + counted);
    // Cut before a step counted: all there is, start included.
    if (out.shares.steps == 0) out.shares = SharesOf(epoch, 0, plan.options.steps);
    out.steps = out.shares.steps;
    out.au_percent = 100 * out.shares.compute;
    return out;
  }

  /// A run that says something about the storage's capacity; else the record gets the reason.
  bool Usable(const RunRecord& run) {
    if (run.log.reads.errors > 0) {
      record_.failure = Status(Code::kIo, std::to_string(run.log.reads.errors) +
                                              (run.log.reads.errors == 1 ? " file" : " files") +
                                              " could not be read; the first: " + run.log.reads.first_error);
    } else if (!run.log.failure.ok()) {
      record_.failure = run.log.failure;
    }
    if (!record_.failure.ok()) {
      record_.ended_early = "the storage failed";
      return false;
    }
    if (cancel_.cancelled()) {
      record_.interrupted = true;
      record_.ended_early = "interrupted";
      return false;
    }
    if (run.log.interrupted && SteadyNow() >= end_) {
      record_.ended_early = late_;
      return false;
    }
    return !run.log.epochs.empty();
  }

  void Tell(const CapacityMeasurement& one) const {
    if (!say_) return;
    const uint64_t n = one.probe.accelerators;
    say_(record_.command.profile.workload + ": " + std::to_string(n) +
         (n == 1 ? " accelerator" : " accelerators") + ", AU " + Text("%.2f", one.au_percent) + " % " +
         (one.au_percent >= record_.options.threshold_percent ? "(fed)" : "(starved)") + ", " +
         Text("%.1f", one.bytes_per_s / static_cast<double>(kMiB)) + " MiB/s, CPU " +
         Text("%.0f", 100 * one.cpu.process) + " %, " + Text("%.1f", one.seconds) + " s" +
         (one.probe.confirming ? ", confirming" : "") + (one.cut ? ", cut short" : ""));
  }

  /// Looks at the smallest number that was too many, once more without reading.
  void FindLimit() {
    const uint64_t too_many = record_.result.starved.value_or(record_.result.likely + 1);
    LimitEvidence evidence;
    evidence.accelerators = too_many;
    evidence.threshold_percent = record_.options.threshold_percent;
    for (const CapacityMeasurement& one : record_.measurements) {
      // The last one: by then the search knew where to look.
      if (one.probe.accelerators == too_many) {
        evidence.shares = one.shares;
        evidence.cpu = one.cpu;
      }
    }
    if (evidence.shares.steps == 0) return;  // all that was tried was fed
    if (record_.ended_early.empty()) {
      const std::optional<CapacityMeasurement> null = Measure({too_many, false}, true);
      if (null) record_.null_shares = null->shares;
      record_.ended_early.clear();  // the search itself was finished
    }
    evidence.null_shares = record_.null_shares;
    record_.limit = LimitOf(evidence);
  }

  const TrainingPlan& base_;
  CapacityRecord& record_;
  const CancelToken& cancel_;
  const std::function<void(const std::string&)>& say_;
  CapacitySearch search_;
  const Nanos start_;
  const Nanos end_;
  const std::string late_;
};

/// The most accelerators for which the dataset has enough steps.
Status BoundByDataset(const TrainingPlan& plan, CapacityRecord& record) {
  const uint64_t least = kLeastSteps + 2 * record.margin_steps;
  const uint64_t batches = plan.options.order.samples / plan.options.batch_size;
  const uint64_t most = batches / least;
  if (most == 0) {
    const uint64_t per_file = std::max<uint64_t>(1, record.command.profile.num_samples_per_file);
    return Status(
        Code::kInvalidArgument,
        "the dataset is too small to measure one accelerator: " + std::to_string(plan.options.order.samples) +
            " samples, " + std::to_string(least * plan.options.batch_size) + " are needed (" +
            std::to_string(least) + " steps); use --param dataset.num_files_train=" +
            std::to_string(CeilDiv(least * plan.options.batch_size, per_file)) + " or more");
  }
  if (most < record.options.max) {
    record.options.max = most;
    record.max_reason = "a measurement needs " + std::to_string(least) +
                        " steps, and the dataset has them for so many only; a larger one "
                        "(dataset.num_files_train) allows more";
  }
  return Status::Ok();
}

}  // namespace

uint64_t MarginSteps(const Profile& profile) {
  if (profile.framework == Framework::kPyTorch) {
    return BatchesInFlight(profile.read_threads, profile.prefetch_size);
  }
  const uint64_t shuffled = profile.sample_shuffle == Shuffle::kOff ? 0 : profile.shuffle_size;
  return profile.prefetch_size + profile.computation_threads + CeilDiv(shuffled, profile.batch_size) + 1;
}

Result<CapacityPlan> PlanCapacity(const CapacityRequest& request) {
  CapacityPlan plan;
  plan.time_limit = request.time_limit;
  CapacityRecord& record = plan.record;
  record.command = request.command;
  record.command.accelerators = 1;
  ReadAnewEachTime(record.command);
  ASSIGN_OR_RETURN(plan.training, PlanTraining(record.command));
  const Profile& profile = record.command.profile;
  record.options = request.search;
  record.options.threshold_percent = 100 * profile.au;
  record.max_reason = "--max " + std::to_string(request.search.max);
  record.margin_steps = MarginSteps(profile);
  record.counted_steps = request.steps;
  if (record.counted_steps == 0) {
    const double steps = std::ceil(kMeasureSeconds / profile.computation_time);
    record.counted_steps = std::max(kMinSteps, static_cast<uint64_t>(std::min(steps, 1e9)));
  }
  record.bytes_per_s_each = plan.training.record.demand.bytes_per_s_per_accelerator;
  RETURN_IF_ERROR(BoundByDataset(plan.training, record));
  return plan;
}

CapacityRecord FindCapacity(const CapacityPlan& plan, const CancelToken& cancel,
                            const std::function<void(const std::string&)>& say) {
  CapacityRecord record = plan.record;
  Search(plan, record, cancel, say).Run();
  return record;
}

}  // namespace stoker::bench
