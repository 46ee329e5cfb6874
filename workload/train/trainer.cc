#include "workload/train/trainer.h"

#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "cache/base/mutex.h"
#include "workload/base/steady.h"
#include "workload/train/accelerator.h"
#include "workload/train/loader.h"

namespace stoker::bench {
namespace {

constexpr Nanos kPoll = std::chrono::milliseconds(100);  // how often the waiting side looks at `cancel`

double UnixNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// All that the threads of one epoch touch. Threads that hang in a dead read keep it alive after Train() gave
/// them up; hence shared_ptr.
class EpochRun {
 public:
  EpochRun(const TrainerOptions& options, Nanos run_start, std::shared_ptr<const EpochOrder> order,
           std::shared_ptr<std::atomic<uint64_t>> errors)
      : options_(options),
        run_start_(run_start),
        order_(std::move(order)),
        errors_(std::move(errors)),
        barrier_(options.ranks, options.first_rank, MeetOthers(options)),
        slots_(options.ranks) {
    for (uint64_t rank = 0; rank < options.ranks; ++rank) {
      stats_.push_back(std::make_shared<SharedReadStats>());
      LoaderOptions loader;
      loader.rank = options.first_rank + rank;
      loader.steps = options.steps;
      loader.batch_size = options.batch_size;
      loader.threads = options.read_threads;
      loader.prefetch = options.prefetch;
      loader.null_storage = options.null_storage;
      loader.reader = options.reader;
      loader.order = order_;
      loader.path_of = [this](uint32_t sample) {
        return options_.dataset.Path(sample / options_.dataset.samples_per_file);
      };
      loader.stats = stats_.back();
      loader.on_error = [this] {
        if (errors_->fetch_add(1, std::memory_order_relaxed) + 1 < options_.max_read_errors) return;
        Fail(Status(Code::kIo, "stopped after " + std::to_string(options_.max_read_errors) +
                                   " files that could not be read"));
      };
      loader_options_.push_back(std::move(loader));
    }
  }

  /// The body of one rank's thread.
  void RunRank(uint64_t rank) {
    UseFineTimers();
    const Status status = Steps(rank);
    if (!status.ok() && status.code() != Code::kCancelled) Fail(status);  // the first reason stays
    MutexLock lock(mu_);
    ++finished_;
    finished_cv_.NotifyAll();
  }

  /// Ends everything early; the first reason stays.
  void Fail(Status why) {
    {
      MutexLock lock(mu_);
      if (failure_.ok()) failure_ = std::move(why);
    }
    Stop();
  }
  void Stop() {
    cancel_.Cancel();
    barrier_.Break();
    for (Slot& slot : slots_) {
      MutexLock lock(slot.mu);
      if (slot.loader != nullptr) slot.loader->Break();
    }
  }
  bool stopped() const { return cancel_.cancelled(); }

  /// True when all ranks have ended, after at most `timeout`.
  bool WaitFinished(Nanos timeout) {
    MutexLock lock(mu_);
    if (finished_ < options_.ranks) finished_cv_.WaitFor(mu_, timeout);
    return finished_ == options_.ranks;
  }
  Status failure() {
    MutexLock lock(mu_);
    return failure_;
  }
  std::vector<RankEpoch> Ranks() {
    std::vector<RankEpoch> out;
    for (Slot& slot : slots_) {
      MutexLock lock(slot.mu);
      out.push_back(slot.epoch);
    }
    return out;
  }
  void CollectReads(ReadStats& into) {
    for (const auto& stats : stats_) into.Merge(stats->Snapshot());
  }

 private:
  /// What a rank has done so far; read by the waiting side when a run is cut short.
  struct Slot {
    Mutex mu;
    RankEpoch epoch GUARDED_BY(mu);
    BatchLoader* loader GUARDED_BY(mu) = nullptr;
  };

  static StepBarrier::MeetOthers MeetOthers(const TrainerOptions& options) {
    if (options.others == nullptr) return nullptr;
    return [others = options.others](Nanos timeout) { return others->Barrier(timeout); };
  }
  double Now() const { return std::chrono::duration<double>(SteadyNow() - run_start_).count(); }

  Status Steps(uint64_t rank) {
    Slot& slot = slots_[rank];
    RETURN_IF_ERROR(barrier_.Arrive(rank, options_.step_timeout));
    const double block_start = Now();
    BatchLoader loader(loader_options_[rank]);
    {
      MutexLock lock(slot.mu);
      slot.loader = &loader;
      slot.epoch.block_start = block_start;
      slot.epoch.iter_start = Now();
      slot.epoch.steps.reserve(options_.steps);
    }
    const Status status =
        stopped() ? Status(Code::kCancelled, "the run was stopped") : Epoch(rank, slot, loader);
    // Said before the loader is joined: a read that never returns would keep the news to itself.
    if (!status.ok() && status.code() != Code::kCancelled) Fail(status);
    loader.Finish();
    MutexLock lock(slot.mu);
    slot.loader = nullptr;
    slot.epoch.loader_end = Now();
    return status;
  }

  Status Epoch(uint64_t rank, Slot& slot, BatchLoader& loader) {
    RETURN_IF_ERROR(loader.Start());
    const Nanos compute(static_cast<int64_t>(options_.computation_time * 1e9));
    Status status;
    for (uint64_t step = 0; step < options_.steps && status.ok(); ++step) {
      StepTimes times;
      status = loader.Next(options_.step_timeout);
      if (!status.ok()) break;
      const Nanos loaded = SteadyNow();
      times.load_end = std::chrono::duration<double>(loaded - run_start_).count();
      SleepUntil(loaded + compute, cancel_);
      times.compute_end = Now();
      status = barrier_.Arrive(rank, options_.step_timeout);
      if (!status.ok()) break;
      times.barrier_end = Now();
      MutexLock lock(slot.mu);
      slot.epoch.steps.push_back(times);
      slot.epoch.block_end = times.barrier_end;
    }
    if (!status.ok()) loader.Break();
    return status;
  }

  const TrainerOptions options_;
  const Nanos run_start_;
  const std::shared_ptr<const EpochOrder> order_;
  const std::shared_ptr<std::atomic<uint64_t>> errors_;
  StepBarrier barrier_;
  CancelToken cancel_;
  std::vector<std::shared_ptr<SharedReadStats>> stats_;
  std::vector<LoaderOptions> loader_options_;
  std::vector<Slot> slots_;
  Mutex mu_;
  CondVar finished_cv_;
  uint64_t finished_ GUARDED_BY(mu_) = 0;
  Status failure_ GUARDED_BY(mu_);
};

struct CpuTime {
  double user = 0;
  double system = 0;
};
CpuTime CpuNow() {
  rusage usage{};
  static_cast<void>(::getrusage(RUSAGE_SELF, &usage));  // RUSAGE_SELF cannot fail
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}

}  // namespace

TrainingLog Train(const TrainerOptions& options, const CancelToken& cancel,
                  const std::function<void(uint64_t, const EpochLog&)>& epoch_done) {
  TrainingLog log;
  const Nanos run_start = SteadyNow();
  log.steady_start = run_start;
  bool told = false;
  const auto errors = std::make_shared<std::atomic<uint64_t>>(0);
  for (uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
    if (cancel.cancelled()) {
      log.interrupted = true;
      break;
    }
    const auto order = std::make_shared<const EpochOrder>(MakeEpochOrder(options.order, epoch));
    const auto run = std::make_shared<EpochRun>(options, run_start, order, errors);
    const CpuTime cpu_before = CpuNow();
    EpochLog epoch_log;
    epoch_log.unix_start = UnixNow();
    std::vector<std::thread> threads;
    for (uint64_t rank = 0; rank < options.ranks; ++rank) {
      threads.emplace_back([run, rank] {
        ::pthread_setname_np(::pthread_self(), "bench-rank");
        run->RunRank(rank);
      });
    }
    Nanos give_up = Nanos::max();
    bool finished = false;
    while (!finished && SteadyNow() < give_up) {
      finished = run->WaitFinished(kPoll);
      if (cancel.cancelled() && !log.interrupted) {
        log.interrupted = true;
        run->Stop();
      }
      if (options.others != nullptr) {
        const Status news = options.others->News();
        if (news.code() == Code::kCancelled) {
          log.interrupted = true;
          run->Stop();
        } else if (!news.ok() && !run->stopped()) {
          run->Fail(news);
        }
        if (run->stopped() && !told) {
          const Status why = run->failure();
          options.others->Stop(why.ok() ? Status(Code::kCancelled, "interrupted") : why);
          told = true;
        }
      }
      if (run->stopped() && give_up == Nanos::max()) give_up = SteadyNow() + options.stop_grace;
    }
    for (std::thread& thread : threads) {
      if (finished) {
        thread.join();
      } else {
        thread.detach();
      }
    }
    log.stuck = !finished;
    const CpuTime cpu_after = CpuNow();
    log.cpu_user_s += cpu_after.user - cpu_before.user;
    log.cpu_system_s += cpu_after.system - cpu_before.system;
    epoch_log.unix_end = UnixNow();
    epoch_log.ranks = run->Ranks();
    run->CollectReads(log.reads);
    epoch_log.complete = true;
    for (const RankEpoch& rank : epoch_log.ranks) {
      if (rank.steps.size() != options.steps) epoch_log.complete = false;
    }
    log.failure = run->failure();
    log.epochs.push_back(std::move(epoch_log));
    if (epoch_done) epoch_done(epoch, log.epochs.back());
    if (run->stopped() || log.stuck) break;
  }
  return log;
}

}  // namespace stoker::bench
