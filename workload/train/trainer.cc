#include "workload/train/trainer.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "workload/base/steady.h"
#include "workload/train/loader.h"
#include "workload/train/parquet_reader.h"
#include "workload/train/stream_loader.h"
#include "workload/train/stream_plan.h"
#include "workload/train/thread_group.h"

namespace stoker::bench {
namespace {

constexpr Nanos kListenEvery = std::chrono::milliseconds(50);  // to the other processes

double UnixNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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

/// What reading threads touch besides their own loader. Shared: threads that hang in a dead read outlive
/// Train().
struct Common {
  explicit Common(const TrainerOptions& options) : dataset(options.dataset) {
    for (uint64_t i = 0; i < options.ranks; ++i) stats.push_back(std::make_shared<SharedReadStats>());
  }
  const Dataset dataset;
  std::vector<std::shared_ptr<SharedReadStats>> stats;  // [ranks]
  const std::shared_ptr<Doorbell> bell = std::make_shared<Doorbell>();
  const std::shared_ptr<ParquetFooters> footers = std::make_shared<ParquetFooters>();
  std::atomic<uint64_t> errors{0};
};

StreamJob JobOf(const TrainerOptions& options) {
  StreamJob job;
  job.loop = options.loop;
  job.files = options.files != 0 ? options.files : options.dataset.files;
  job.samples_per_file = options.dataset.samples_per_file;
  job.ranks = options.order.ranks;
  job.epochs = options.epochs;
  job.batch_size = options.batch_size;
  job.read_threads = options.read_threads;
  job.prefetch = options.prefetch;
  job.computation_threads = options.computation_threads;
  job.shuffle = options.shuffle_size;
  job.file_shuffle = options.file_shuffle;
  job.order = options.order.order;
  job.seed = options.order.seed;
  return job;
}

/// Speaks with the other processes while the driving thread works, sleeps or waits for them: hears of their
/// end and tells them of ours. Does nothing when there are none.
class Watcher {
 public:
  Watcher(Communicator* others, CancelToken cancel, std::shared_ptr<Doorbell> bell)
      : others_(others), cancel_(std::move(cancel)), bell_(std::move(bell)) {
    if (others_ == nullptr) return;
    thread_ = std::thread([this] {
      ::pthread_setname_np(::pthread_self(), "bench-watch");
      Watch();
    });
  }
  ~Watcher() {
    if (others_ == nullptr) return;
    {
      MutexLock lock(mu_);
      ended_ = true;
      wake_.NotifyAll();
    }
    thread_.join();
    if (cancel_.cancelled()) Tell(Status(Code::kCancelled, "interrupted"));  // it may just have looked away
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Ok, or why the run ends because of another process.
  Status News() {
    if (!has_news_.load(std::memory_order_acquire)) return Status::Ok();
    MutexLock lock(mu_);
    return news_;
  }
  /// Ends the others' run; the first reason stays.
  void Tell(const Status& why) {
    if (others_ == nullptr) return;
    {
      MutexLock lock(mu_);
      if (std::exchange(told_, true)) return;
    }
    others_->Stop(why);
  }

 private:
  void Watch() {
    while (true) {
      if (cancel_.cancelled()) Tell(Status(Code::kCancelled, "interrupted"));
      const Status heard = others_->News();
      MutexLock lock(mu_);
      if (!heard.ok() && news_.ok()) {
        news_ = heard;
        has_news_.store(true, std::memory_order_release);
        bell_->Ring();
      }
      if (ended_) return;
      wake_.WaitFor(mu_, kListenEvery);
    }
  }

  Communicator* const others_;
  const CancelToken cancel_;
  const std::shared_ptr<Doorbell> bell_;
  std::atomic<bool> has_news_{false};
  Mutex mu_;
  CondVar wake_;
  bool ended_ GUARDED_BY(mu_) = false;
  bool told_ GUARDED_BY(mu_) = false;
  Status news_ GUARDED_BY(mu_);
  std::thread thread_;
};

class Trainer {
 public:
  Trainer(const TrainerOptions& options, const CancelToken& cancel)
      : options_(options),
        cancel_(cancel),
        run_start_(SteadyNow()),
        common_(std::make_shared<Common>(options)),
        watcher_(options.others, cancel, common_->bell) {}

  TrainingLog Run(const std::function<void(uint64_t, const EpochLog&)>& epoch_done);

 private:
  uint64_t StepsOf(uint64_t epoch) const;
  std::unique_ptr<BatchSource> MakeSource(uint64_t local, uint64_t steps,
                                          const std::shared_ptr<const EpochOrder>& order) const;
  std::unique_ptr<BatchSource> MakeStream(uint64_t local) const;
  /// Ends the sources; false when threads hang and were let go.
  bool FinishSources(std::vector<RankEpoch>* ranks);
  /// The epoch's loaders, steps and stamps; `log.stuck` when threads could not be joined.
  Status Epoch(uint64_t steps, const std::shared_ptr<const EpochOrder>& order, EpochLog& out,
               TrainingLog& log);
  Status TooManyErrors() const;
  /// The loaders live from the first epoch to the last.
  bool StreamGoesOn() const {
    return options_.framework == Framework::kTensorFlow && OutlivesEpoch(options_.loop) &&
           !options_.null_storage;
  }
  double Now() const { return std::chrono::duration<double>(SteadyNow() - run_start_).count(); }

  const TrainerOptions& options_;
  const CancelToken cancel_;
  const Nanos run_start_;
  const std::shared_ptr<Common> common_;
  Watcher watcher_;
  std::vector<std::unique_ptr<BatchSource>> sources_;  // [ranks] of this epoch, or of all
};

uint64_t Trainer::StepsOf(uint64_t epoch) const {
  if (options_.max_steps == 0) return options_.steps;
  return std::min(options_.steps, options_.max_steps - std::min(options_.max_steps, epoch * options_.steps));
}

Status Trainer::TooManyErrors() const {
  if (common_->errors.load(std::memory_order_relaxed) < options_.max_read_errors) return Status::Ok();
  return {Code::kIo,
          "stopped after " + std::to_string(options_.max_read_errors) + " files that could not be read"};
}

std::unique_ptr<BatchSource> Trainer::MakeSource(uint64_t local, uint64_t steps,
                                                 const std::shared_ptr<const EpochOrder>& order) const {
  if (options_.null_storage) return std::make_unique<NullSource>();
  if (options_.framework == Framework::kTensorFlow) return MakeStream(local);
  LoaderOptions loader;
  loader.rank = options_.first_rank + local;
  loader.steps = steps;
  loader.batch_size = options_.batch_size;
  loader.threads = options_.read_threads;
  loader.prefetch = options_.prefetch;
  loader.reader = options_.reader;
  loader.reader.footers = common_->footers;
  loader.order = order;
  loader.path_of = [common = common_](uint64_t file) { return common->dataset.Path(file); };
  loader.stats = common_->stats[local];
  loader.bell = common_->bell;
  loader.on_error = [common = common_] {
    common->errors.fetch_add(1, std::memory_order_relaxed);
    common->bell->Ring();
  };
  return std::make_unique<BatchLoader>(std::move(loader));
}

std::unique_ptr<BatchSource> Trainer::MakeStream(uint64_t local) const {
  const StreamJob job = JobOf(options_);
  StreamLoaderOptions loader;
  loader.pipeline = PipelineOf(job, options_.first_rank + local);
  loader.files_of_pass = FilesOf(job, options_.first_rank + local);
  if (options_.reader.piece_bytes != 0) loader.buffer_bytes = options_.reader.piece_bytes;
  loader.cache_control = options_.reader.cache_control;
  loader.meter = options_.reader.meter;
  loader.path_of = [common = common_](uint64_t file) { return common->dataset.Path(file); };
  loader.stats = common_->stats[local];
  loader.bell = common_->bell;
  loader.on_error = [common = common_] {
    common->errors.fetch_add(1, std::memory_order_relaxed);
    common->bell->Ring();
  };
  return std::make_unique<StreamLoader>(std::move(loader));
}

bool Trainer::FinishSources(std::vector<RankEpoch>* ranks) {
  const Nanos give_up = SteadyNow() + options_.stop_grace;
  bool all = true;
  for (size_t i = 0; i < sources_.size(); ++i) {
    all = sources_[i]->Finish(give_up) && all;
    if (ranks != nullptr) (*ranks)[i].loader_end = Now();
  }
  sources_.clear();
  return all;
}

Status Trainer::Epoch(uint64_t steps, const std::shared_ptr<const EpochOrder>& order, EpochLog& out,
                      TrainingLog& log) {
  for (RankEpoch& rank : out.ranks) rank.steps.reserve(steps);
  MeetOthers meet_others;
  if (options_.others != nullptr) {
    meet_others = [others = options_.others](Nanos timeout) { return others->Barrier(timeout); };
    RETURN_IF_ERROR(meet_others(options_.step_timeout));
  }

  const double block_start = Now();
  const bool fresh = sources_.empty();
  std::vector<BatchSource*> driven;
  for (uint64_t local = 0; local < options_.ranks; ++local) {
    if (fresh) sources_.push_back(MakeSource(local, steps, order));
    driven.push_back(sources_[local].get());
  }
  const double iter_start = Now();
  for (RankEpoch& rank : out.ranks) {
    rank.block_start = block_start;
    rank.iter_start = rank.block_end = iter_start;
  }

  AcceleratorOptions accelerators;
  accelerators.first_rank = options_.first_rank;
  accelerators.compute = Nanos(static_cast<int64_t>(options_.computation_time * 1e9));
  accelerators.step_timeout = options_.step_timeout;
  accelerators.run_start = run_start_;
  accelerators.meet_others = meet_others;
  accelerators.cancel = cancel_;
  accelerators.check = [this] {
    const Status news = watcher_.News();
    return news.ok() ? TooManyErrors() : news;
  };
  Status status;
  for (size_t i = 0; fresh && i < driven.size() && status.ok(); ++i) status = driven[i]->Start();
  if (status.ok()) status = Accelerators(accelerators, driven, *common_->bell).Run(steps, out.ranks);
  if (!status.ok()) {
    for (BatchSource* source : driven) source->Break();
    watcher_.Tell(status);  // before threads are waited for: the others should not wait as well
  }
  if (StreamGoesOn()) {
    for (RankEpoch& rank : out.ranks) rank.loader_end = rank.block_end;
    if (!status.ok() && !FinishSources(nullptr)) log.stuck = true;
  } else {
    // A stream's threads do not end by themselves. Nothing is left to do for the others.
    if (options_.framework == Framework::kTensorFlow) {
      for (BatchSource* source : driven) source->Break();
    }
    if (!FinishSources(&out.ranks)) log.stuck = true;
  }
  if (status.ok()) {
    status = TooManyErrors();  // the last batch's
    if (!status.ok()) watcher_.Tell(status);
  }
  return status;
}

TrainingLog Trainer::Run(const std::function<void(uint64_t, const EpochLog&)>& epoch_done) {
  TrainingLog log;
  UseFineTimers();
  log.steady_start = run_start_;
  log.epochs_planned = PlannedEpochs(options_);
  for (uint64_t epoch = 0; epoch < log.epochs_planned; ++epoch) {
    if (cancel_.cancelled()) {
      log.interrupted = true;
      break;
    }
    std::shared_ptr<const EpochOrder> order;
    if (!options_.null_storage && options_.framework == Framework::kPyTorch) {
      order = std::make_shared<const EpochOrder>(MakeEpochOrder(options_.order, epoch));
    }
    const uint64_t steps = StepsOf(epoch);
    const CpuTime cpu_before = CpuNow();
    EpochLog epoch_log;
    epoch_log.ranks.resize(options_.ranks);
    epoch_log.unix_start = UnixNow();
    const Status status = Epoch(steps, order, epoch_log, log);
    epoch_log.unix_end = UnixNow();
    const CpuTime cpu_after = CpuNow();
    log.cpu_user_s += cpu_after.user - cpu_before.user;
    log.cpu_system_s += cpu_after.system - cpu_before.system;
    epoch_log.complete = std::all_of(epoch_log.ranks.begin(), epoch_log.ranks.end(),
                                     [&](const RankEpoch& rank) { return rank.steps.size() == steps; });
    // Where a barrier ended because somebody stopped the run, the reason is in the news.
    // The watcher may not have looked yet.
    const bool others = status.code() == Code::kCancelled && options_.others != nullptr;
    const Status reason = others ? options_.others->News() : status;
    if (status.code() == Code::kCancelled && (reason.ok() || reason.code() == Code::kCancelled)) {
      log.interrupted = true;
    } else {
      log.failure = reason;
    }
    log.epochs.push_back(std::move(epoch_log));
    if (epoch_done) epoch_done(epoch, log.epochs.back());
    if (!status.ok() || log.stuck) break;
  }
  for (const auto& source : sources_) source->Break();  // a stream is ahead of the last step
  if (!FinishSources(nullptr)) log.stuck = true;
  for (const auto& stats : common_->stats) log.reads.Merge(stats->Snapshot());
  return log;
}

}  // namespace

uint64_t PlannedEpochs(const TrainerOptions& options) {
  if (options.max_steps == 0 || options.steps == 0) return options.epochs;
  return std::min(options.epochs, CeilDiv(options.max_steps, options.steps));
}

ReadingMemory MemoryOf(const TrainerOptions& options) {
  ReadingMemory out;
  double steps = static_cast<double>(options.steps) * static_cast<double>(options.epochs);
  if (options.max_steps != 0) steps = std::min(steps, static_cast<double>(options.max_steps));
  constexpr double kMost = 4e18;  // more than any host has; whole numbers would overflow
  out.stamp_bytes =
      static_cast<uint64_t>(std::min(kMost, steps * static_cast<double>(options.ranks) * sizeof(StepTimes)));
  if (options.null_storage) return out;
  const bool stream = options.framework == Framework::kTensorFlow;
  out.threads = options.ranks * (stream ? StreamThreads(JobOf(options)) : options.read_threads);
  out.buffer_bytes = options.reader.piece_bytes != 0
                         ? options.reader.piece_bytes
                         : DefaultPieceBytes(options.reader.format, options.reader.shape, 1);
  out.other_bytes = ReadStackBytes() + sizeof(ReadStats);
  if (!stream && options.order.order != AccessOrder::kV2) {
    out.order_bytes = sizeof(uint32_t) * options.order.samples /
                      (options.order.whole_files ? options.order.samples_per_file : 1);
  }
  return out;
}

TrainingLog Train(const TrainerOptions& options, const CancelToken& cancel,
                  const std::function<void(uint64_t, const EpochLog&)>& epoch_done) {
  return Trainer(options, cancel).Run(epoch_done);
}

}  // namespace stoker::bench
