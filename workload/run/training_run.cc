#include "workload/run/training_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/run/series_recorder.h"

namespace stoker::bench {
namespace {

constexpr double kMiBDouble = static_cast<double>(kMiB);
constexpr size_t kResidencySample = 16;  // files looked at for the page cache's share
constexpr double kHotShare = 0.5;        // from this share of resident bytes on a run is said to start hot

/// As a shell takes it for one word.
std::string Quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                          "-_./=:,+@%") == std::string::npos;
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// What the user would type to make the dataset of this command.
std::string DatagenCommand(const Command& command) {
  const Profile& profile = command.profile;
  std::string out = "stoker-bench datagen --mlperf " + std::string(Name(profile.edition)) + " --workload " +
                    profile.workload;
  if (profile.data_folder.empty()) out += " --data-dir " + Quoted(command.data_dir);
  if (command.rules.file_layout != profile.edition) {
    out += " --file-layout " + std::string(Name(command.rules.file_layout));
  }
  bool counted = false;
  for (const std::string& assignment : profile.overridden) {
    if (assignment.compare(0, 8, "dataset.") != 0) continue;
    out += " --param " + Quoted(assignment);
    counted = counted || assignment.compare(0, 24, "dataset.num_files_train=") == 0;
  }
  if (!counted) out += " --param dataset.num_files_train=" + std::to_string(profile.num_files_train);
  return out;
}

/// Files spread over the dataset, for the page cache's share.
std::vector<std::string> ResidencySample(const Dataset& dataset, uint64_t files) {
  std::vector<std::string> paths;
  const uint64_t count = std::min<uint64_t>(kResidencySample, files);
  for (uint64_t i = 0; i < count; ++i) paths.push_back(dataset.Path(i * files / count));
  return paths;
}

MetricOptions MetricOf(const Command& command) {
  MetricOptions metric;
  metric.metric = command.rules.metric;
  metric.batch_size = command.profile.batch_size;
  metric.computation_time = command.profile.computation_time;
  metric.exclude_start_steps = command.profile.exclude_start_steps;
  metric.exclude_end_steps = command.profile.exclude_end_steps;
  metric.record_bytes = command.profile.record_bytes;
  metric.au_threshold = command.profile.au;
  return metric;
}

/// A job that shuffles nothing reads in order, whatever the round; --order has the last word.
AccessOrder OrderOf(const Command& command) {
  const std::vector<std::string>& flags = command.rule_overrides;
  const bool asked = std::find(flags.begin(), flags.end(), "--order") != flags.end();
  const Profile& profile = command.profile;
  const bool shuffles = profile.file_shuffle != Shuffle::kOff || profile.sample_shuffle != Shuffle::kOff;
  // The list of a TensorFlow pipeline is shuffled by the pipeline itself.
  if (asked || shuffles || profile.framework == Framework::kTensorFlow) return command.rules.order;
  return AccessOrder::kV2;
}

/// Of one read call, and of each thread's buffer.
uint64_t PieceBytes(const Command& command) {
  const Profile& profile = command.profile;
  const Format format = *profile.format;
  if (format == Format::kTfRecord && profile.transfer_size != 0) return profile.transfer_size;
  const bool fixed =
      format == Format::kTfRecord || (format == Format::kNpz && command.rules.read_shape == ReadShape::kNpz);
  if (command.read_piece_bytes != 0 && !fixed) return command.read_piece_bytes;
  return DefaultPieceBytes(format, command.rules.read_shape, command.accelerators * profile.read_threads);
}

/// What cannot be read the way it is asked for.
Status CheckReading(const Command& command) {
  const Profile& profile = command.profile;
  const bool tfrecord = profile.format == Format::kTfRecord;
  if (tfrecord != (profile.framework == Framework::kTensorFlow)) {
    return {Code::kInvalidArgument,
            "framework: " + std::string(Name(profile.framework)) + " does not read " +
                std::string(Name(*profile.format)) + " files here; " +
                (tfrecord ? "use --param framework=tensorflow" : "use --param framework=pytorch") +
                ", or another dataset.format"};
  }
  if (command.rules.read_shape == ReadShape::kODirect && (tfrecord || profile.format == Format::kParquet)) {
    return {Code::kInvalidArgument, "--read-shape: odirect reads whole files, which " +
                                        std::string(Name(*profile.format)) +
                                        " files are not; leave it out (and reader.odirect)"};
  }
  return Status::Ok();
}

/// A run that cannot have its memory would be killed on the way, or at its first step.
Status CheckMemory(const ReadingMemory& memory, uint64_t host_bytes) {
  if (host_bytes == 0 || memory.total() <= host_bytes) return Status::Ok();
  return {Code::kInvalidArgument,
          "the run may need " + FormatBytes(memory.total()) + " of memory (time stamps " +
              FormatBytes(memory.stamp_bytes) + ", the order " + FormatBytes(memory.order_bytes) +
              ", reading threads " + FormatBytes(memory.total() - memory.stamp_bytes - memory.order_bytes) +
              "), this host has " + FormatBytes(host_bytes) +
              "; use fewer steps (--param train.total_training_steps, train.epochs), files, threads or "
              "accelerators"};
}

TrainerOptions TrainerOptionsOf(const Command& command, const Dataset& dataset, uint64_t samples,
                                uint64_t steps) {
  const Profile& profile = command.profile;
  TrainerOptions options;
  options.ranks = command.accelerators;
  options.epochs = profile.epochs;
  options.steps = steps;
  options.batch_size = profile.batch_size;
  options.read_threads = profile.read_threads;
  options.prefetch = profile.prefetch_size;
  options.computation_time = profile.computation_time;
  options.framework = profile.framework;
  options.loop = command.rules.loop;
  options.max_steps = profile.total_training_steps;
  options.computation_threads = profile.computation_threads;
  options.shuffle_size = profile.sample_shuffle == Shuffle::kOff ? 0 : profile.shuffle_size;
  options.file_shuffle = profile.file_shuffle != Shuffle::kOff;
  options.files = profile.num_files_train;
  options.order.order = OrderOf(command);
  options.order.whole_files =
      profile.file_shuffle != Shuffle::kOff && profile.sample_shuffle == Shuffle::kOff;
  options.order.seed = command.seed;
  options.order.samples = samples;
  options.order.ranks = command.accelerators;
  options.order.samples_per_file = profile.num_samples_per_file;
  options.dataset = dataset;
  options.reader.format = dataset.format;
  options.reader.shape = command.rules.read_shape;
  for (const Column& column : dataset.columns) {
    if (column.read) options.reader.columns.push_back(column.name);
  }
  options.reader.read_labels = command.rules.read_labels;
  options.reader.cache_control = command.rules.cache_control;
  options.reader.piece_bytes = PieceBytes(command);
  options.null_storage = command.null_storage;
  options.step_timeout = command.step_timeout;
  return options;
}

/// The daemon's counters when the data lies in a Stoker mount; a note when it cannot be asked.
std::optional<DaemonCounters> LookAtDaemon(CacheState& cache) {
  if (!cache.mount || !cache.mount->is_stoker()) return std::nullopt;
  Result<DaemonCounters> now = AskDaemon(cache.mount->mountpoint);
  if (now.ok()) return *now;
  cache.daemon_note = now.status().message();
  return std::nullopt;
}

/// What it counted during the run.
void CompareDaemon(const std::optional<DaemonCounters>& before, CacheState& cache) {
  if (!before) return;
  const std::optional<DaemonCounters> after = LookAtDaemon(cache);
  if (!after) return;
  const Result<DaemonCounters> between = CountersBetween(*before, *after);
  if (between.ok()) {
    cache.daemon = *between;
  } else {
    cache.daemon_note = between.status().message();
  }
}

SeriesRecorder::Options RecorderOptions(const RunRecord& record, std::shared_ptr<ReadMeter> meter) {
  SeriesRecorder::Options options;
  options.meter = std::move(meter);
  options.hostname = record.host.hostname;
  if (record.cache.mount && record.cache.mount->is_stoker()) {
    options.ask_daemon = [mountpoint = record.cache.mount->mountpoint] { return AskDaemon(mountpoint); };
  }
  return options;
}

}  // namespace

Result<TrainingPlan> PlanTraining(const Command& command) {
  TrainingPlan plan;
  RunRecord& record = plan.record;
  record.command = command;
  record.host = ReadHostInfo();
  const Profile& profile = command.profile;
  const uint64_t samples = profile.num_files_train * profile.num_samples_per_file;
  RETURN_IF_ERROR(CheckReading(command));
  if (command.accelerators > samples) {
    return Status(Code::kInvalidArgument,
                  "--num-accelerators: " + std::to_string(command.accelerators) + " accelerators, but only " +
                      std::to_string(samples) + " samples; use at most " + std::to_string(samples) +
                      " accelerators, or a larger dataset (--param dataset.num_files_train)");
  }
  Dataset dataset = MakeDataset(profile, command.data_dir, command.rules.file_layout);
  if (!command.null_storage) {
    RETURN_IF_ERROR(FindDataset(dataset, DatagenCommand(command)));
    plan.residency_sample = ResidencySample(dataset, profile.num_files_train);
    record.cache.mount = MountOf(dataset.folder);
    record.cache.sampled_files = plan.residency_sample.size();
  }
  record.steps = StepsFor(samples, profile.batch_size, command.accelerators);
  if (profile.total_training_steps != 0) record.steps = std::min(record.steps, profile.total_training_steps);
  record.metric = MetricOf(command);
  plan.options = TrainerOptionsOf(command, dataset, samples, record.steps);
  if (!command.null_storage && plan.options.framework == Framework::kPyTorch &&
      plan.options.order.order != AccessOrder::kV2 && !plan.options.order.whole_files &&
      samples > UINT32_MAX) {
    return Status(Code::kInvalidArgument,
                  "reader.sample_shuffle: " + std::to_string(samples) +
                      " samples are more than 2^32 - 1; shuffle whole files instead (--param "
                      "reader.sample_shuffle=off) or use --order v2");
  }
  plan.piece_bytes = plan.options.reader.piece_bytes;
  record.demand = ComputeDemand(profile.record_bytes, profile.batch_size, profile.computation_time,
                                command.accelerators, record.steps, PlannedEpochs(plan.options), samples,
                                profile.read_threads, plan.piece_bytes);
  record.demand.buffer_bytes = MemoryOf(plan.options).total();
  RETURN_IF_ERROR(CheckMemory(MemoryOf(plan.options), record.host.memory_bytes));
  record.note = FewStepsNote(record.metric, record.steps, samples, command.accelerators);
  return plan;
}

namespace {

std::string ReadingName(const Command& command) {
  const Format format = *command.profile.format;
  if (format == Format::kTfRecord)
    return "tfrecord streams (loop " + std::string(Name(command.rules.loop)) + ")";
  if (format == Format::kParquet) return "parquet byte ranges";
  const bool npz_calls = command.rules.read_shape == ReadShape::kNpz;
  return "read shape " + std::string(npz_calls && format != Format::kNpz ? Name(ReadShape::kWhole)
                                                                         : Name(command.rules.read_shape));
}

std::string MemoryLine(const TrainingPlan& plan) {
  const ReadingMemory memory = MemoryOf(plan.options);
  std::string line = "Memory: at most " + FormatBytes(memory.total());
  if (memory.threads > 0) {
    line += " (" + std::to_string(memory.threads) + " reading threads x " +
            FormatBytesExact(memory.buffer_bytes) + " of buffer and " + FormatBytes(memory.other_bytes) +
            " of stack and counts";
    if (memory.order_bytes > 0) line += ", the order " + FormatBytes(memory.order_bytes);
    line += ", time stamps " + FormatBytes(memory.stamp_bytes) + ")";
  } else {
    line += " of time stamps";
  }
  return line;
}

}  // namespace

std::vector<std::string> PlanLines(const TrainingPlan& plan) {
  const Command& command = plan.record.command;
  const Profile& profile = command.profile;
  const Demand& demand = plan.record.demand;
  return {profile.workload + " " + std::string(Name(profile.edition)) + ", " +
              std::to_string(command.accelerators) + " x " + profile.accelerator + ": " +
              std::to_string(profile.num_files_train) + " files, " + std::to_string(plan.record.steps) +
              " steps x " + std::to_string(PlannedEpochs(plan.options)) + " epochs, order " +
              std::string(Name(plan.options.order.order)) + ", " +
              (command.null_storage ? "no reading" : ReadingName(command)) + ", metric " +
              std::string(Name(command.rules.metric)),
          "Demand at 100 % AU: " + Text("%.1f", demand.bytes_per_s_per_accelerator / kMiBDouble) +
              " MiB/s per accelerator, " + Text("%.1f", demand.bytes_per_s / kMiBDouble) + " MiB/s (" +
              Text("%.1f", demand.bytes_per_s / 1e6) + " MB/s) in all",
          MemoryLine(plan),
          "Expected duration: at least " + Text("%.1f", demand.run_s) + " s (" +
              Text("%.1f", demand.epoch_s) + " s an epoch)"};
}

std::vector<std::string> PlanWarnings(const TrainingPlan& plan) {
  std::vector<std::string> out;
  const RunRecord& record = plan.record;
  // Of several hosts each reads its part of every epoch, and the rules add their memories up.
  const bool part = plan.host_ranks > 0 && plan.host_ranks < record.command.accelerators;
  const uint64_t dataset_bytes =
      part ? record.demand.dataset_bytes / record.command.accelerators * plan.host_ranks
           : record.demand.dataset_bytes;
  const std::string what = part ? "this host's part of the dataset (" : "the dataset (";
  const uint64_t memory = record.host.memory_bytes;
  if (!record.command.null_storage && memory > 0) {
    if (dataset_bytes <= memory) {
      out.push_back(what + FormatBytes(dataset_bytes) + ") fits in this host's memory (" +
                    FormatBytes(memory) +
                    "): from the second epoch on it may be read from memory and not from the storage; the "
                    "rules ask for 5 times the memory (stoker-bench datasize)");
    } else if (dataset_bytes < 5 * memory) {
      out.push_back(what + FormatBytes(dataset_bytes) + ") is less than 5 times this host's memory (" +
                    FormatBytes(memory) + "), which the rules ask for (stoker-bench datasize)");
    }
  }
  if (!record.note.empty()) out.push_back(record.note);
  return out;
}

RunRecord RunOnce(const TrainingPlan& plan, const CancelToken& cancel, const RunListener& listener) {
  RunRecord record = plan.record;
  const Command& command = record.command;
  if (!plan.residency_sample.empty()) {
    record.cache.page_cache_before = PageCacheShare(plan.residency_sample);
    if (listener.warn && record.cache.page_cache_before && *record.cache.page_cache_before >= kHotShare &&
        command.rules.cache_control == CacheControl::kFadvise) {
      listener.warn(Text("%.0f", 100 * *record.cache.page_cache_before) +
                    " % of the dataset (by a sample) is in the page cache: the first epoch starts hot");
    }
  }
  const std::optional<DaemonCounters> daemon_before = LookAtDaemon(record.cache);
  const double cores = UsableCores();
  const CpuSample cpu_before = SampleCpu();
  TrainerOptions options = plan.options;
  std::unique_ptr<SeriesRecorder> recorder;
  if (!command.null_storage) {
    options.reader.meter = std::make_shared<ReadMeter>();
    recorder = std::make_unique<SeriesRecorder>(RecorderOptions(record, options.reader.meter));
  }
  record.log = Train(options, cancel, [&](uint64_t epoch, const EpochLog& log) {
    if (!listener.say) return;
    const RunFigures figures = ComputeRun(record.metric, {log});
    listener.say("epoch " + std::to_string(epoch + 1) + " of " + std::to_string(command.profile.epochs) +
                 ": AU " + Text("%.2f", figures.au_mean_percent) + " %, " +
                 Text("%.2f", figures.samples_mean) + " samples/s, " + Text("%.1f", figures.mib_mean) +
                 " MiB/s nominal, " + Text("%.1f", log.unix_end - log.unix_start) + " s" +
                 (log.complete ? "" : " (not finished)"));
  });
  if (recorder != nullptr) record.series = recorder->Finish();
  record.cpu = CpuUseBetween(cpu_before, SampleCpu(), cores);
  CompareDaemon(daemon_before, record.cache);
  // Looking at files whose storage hangs would hang as well.
  if (!plan.residency_sample.empty() && !record.log.stuck) {
    record.cache.page_cache_after = PageCacheShare(plan.residency_sample);
  }
  record.figures = ComputeRun(record.metric, record.log.epochs);
  record.harness = ComputeHarness(record.log);
  return record;
}

std::string Verdict(const RunRecord& record) {
  const std::string au = "AU " + Text("%.1f", record.figures.au_mean_percent) + " % (threshold " +
                         Text("%g", 100 * record.metric.au_threshold) + " %): ";
  if (record.log.reads.errors > 0 || !record.log.failure.ok()) return au + "INVALID";
  if (!record.complete()) return au + "PARTIAL";
  return au + (record.figures.meets_threshold ? "PASS" : "FAIL") +
         (record.command.null_storage ? " (--null: nothing was read)" : "");
}

}  // namespace stoker::bench
