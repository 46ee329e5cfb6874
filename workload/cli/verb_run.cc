#include "workload/cli/verb_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/base/host.h"
#include "workload/report/report.h"
#include "workload/report/results.h"
#include "workload/train/trainer.h"

namespace stoker::bench {
namespace {

constexpr double kMiBDouble = static_cast<double>(kMiB);
constexpr size_t kResidencySample = 16;  // files looked at for the page cache's share
constexpr double kHotShare = 0.5;        // from this share of resident bytes on a run is said to start hot

/// What the user would type to make the dataset of this command.
std::string DatagenCommand(const Command& command) {
  const Profile& profile = command.profile;
  std::string out = "stoker-bench datagen --mlperf " + std::string(Name(profile.edition)) + " --workload " +
                    profile.workload;
  if (profile.data_folder.empty()) out += " --data-dir " + command.data_dir;
  if (command.rules.file_layout != profile.edition) {
    out += " --file-layout " + std::string(Name(command.rules.file_layout));
  }
  bool counted = false;
  for (const std::string& assignment : profile.overridden) {
    if (assignment.compare(0, 8, "dataset.") != 0) continue;
    out += " --param " + assignment;
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

void PrintPlan(const Command& command, const Demand& demand, uint64_t steps, uint64_t piece_bytes,
               const HostInfo& host) {
  const Profile& profile = command.profile;
  Print(profile.workload + " " + std::string(Name(profile.edition)) + ", " +
        std::to_string(command.accelerators) + " x " + profile.accelerator + ": " +
        std::to_string(profile.num_files_train) + " files, " + std::to_string(steps) + " steps x " +
        std::to_string(profile.epochs) + " epochs, order " + std::string(Name(command.rules.order)) + ", " +
        (command.null_storage ? "no reading" : "read shape " + std::string(Name(command.rules.read_shape))) +
        ", metric " + std::string(Name(command.rules.metric)));
  Print("Demand at 100 % AU: " + Text("%.1f", demand.bytes_per_s_per_accelerator / kMiBDouble) +
        " MiB/s per accelerator, " + Text("%.1f", demand.bytes_per_s / kMiBDouble) + " MiB/s (" +
        Text("%.1f", demand.bytes_per_s / 1e6) + " MB/s) in all");
  Print("Read buffers: at most " + FormatBytes(demand.buffer_bytes) + " (" +
        std::to_string(command.accelerators) + " accelerators x " + std::to_string(profile.read_threads) +
        " threads x " + FormatBytesExact(piece_bytes) + ")");
  Print("Expected duration: at least " + Text("%.1f", demand.run_s) + " s (" + Text("%.1f", demand.epoch_s) +
        " s an epoch)");
  if (command.null_storage || host.memory_bytes == 0) return;
  const uint64_t dataset_bytes = demand.dataset_bytes;
  if (dataset_bytes <= host.memory_bytes) {
    Warn("the dataset (" + FormatBytes(dataset_bytes) + ") fits in this host's memory (" +
         FormatBytes(host.memory_bytes) +
         "): from the second epoch on it may be read from memory and not from the "
         "storage; the rules ask for 5 times the memory (stoker-bench datasize)");
  } else if (dataset_bytes < 5 * host.memory_bytes) {
    Warn("the dataset (" + FormatBytes(dataset_bytes) + ") is less than 5 times this host's memory (" +
         FormatBytes(host.memory_bytes) + "), which the rules ask for (stoker-bench datasize)");
  }
}

std::string Verdict(const RunRecord& record) {
  const std::string au = "AU " + Text("%.1f", record.figures.au_mean_percent) + " % (threshold " +
                         Text("%g", 100 * record.metric.au_threshold) + " %): ";
  if (record.log.reads.errors > 0 || !record.log.failure.ok()) return au + "INVALID";
  if (!record.complete()) return au + "PARTIAL";
  return au + (record.figures.meets_threshold ? "PASS" : "FAIL");
}

int RunTraining(const Command& command, const CancelToken& cancel) {
  RunRecord record;
  record.command = command;
  record.host = ReadHostInfo();
  Profile& profile = record.command.profile;
  const uint64_t samples = profile.num_files_train * profile.num_samples_per_file;
  if (samples > UINT32_MAX) {
    return Fail("dataset.num_files_train: " + std::to_string(samples) + " samples are more than 2^32 - 1",
                kExitUsage);
  }
  if (command.accelerators > samples) {
    return Fail("--num-accelerators: " + std::to_string(command.accelerators) + " accelerators, but only " +
                    std::to_string(samples) + " samples; use at most " + std::to_string(samples) +
                    " accelerators, or a larger dataset (--param dataset.num_files_train)",
                kExitUsage);
  }
  Dataset dataset = MakeDataset(profile, command.data_dir, command.rules.file_layout);
  if (!command.null_storage) {
    const Status found = FindDataset(dataset, DatagenCommand(command));
    if (!found.ok()) return Fail(found.message(), kExitUsage);
  }
  const std::string folder = ResultsFolder(command, record.host.hostname, std::time(nullptr));
  Result<std::unique_ptr<ResultsDir>> results = ResultsDir::Reserve(folder);
  if (!results.ok()) return Fail(results.status().message(), kExitUsage);

  record.steps = StepsFor(samples, profile.batch_size, command.accelerators);
  record.metric.metric = command.rules.metric;
  record.metric.batch_size = profile.batch_size;
  record.metric.computation_time = profile.computation_time;
  record.metric.exclude_start_steps = profile.exclude_start_steps;
  record.metric.exclude_end_steps = profile.exclude_end_steps;
  record.metric.record_bytes = profile.record_bytes;
  record.metric.au_threshold = profile.au;

  TrainerOptions options;
  options.ranks = command.accelerators;
  options.epochs = profile.epochs;
  options.steps = record.steps;
  options.batch_size = profile.batch_size;
  options.read_threads = profile.read_threads;
  options.prefetch = profile.prefetch_size;
  options.computation_time = profile.computation_time;
  options.order = {command.rules.order, command.seed, samples, command.accelerators};
  options.dataset = dataset;
  options.reader.shape = command.rules.read_shape;
  options.reader.read_labels = command.rules.read_labels;
  options.reader.cache_control = command.rules.cache_control;
  options.reader.piece_bytes = command.read_piece_bytes;
  options.null_storage = command.null_storage;
  options.step_timeout = command.step_timeout;
  const uint64_t piece_bytes = command.read_piece_bytes != 0 && command.rules.read_shape != ReadShape::kNpz
                                   ? command.read_piece_bytes
                                   : DefaultPieceBytes(command.rules.read_shape);
  record.demand =
      ComputeDemand(profile.record_bytes, profile.batch_size, profile.computation_time, command.accelerators,
                    record.steps, profile.epochs, samples, profile.read_threads, piece_bytes);
  PrintPlan(command, record.demand, record.steps, piece_bytes, record.host);
  record.note = FewStepsNote(record.metric, record.steps, samples, command.accelerators);
  if (!record.note.empty()) Warn(record.note);

  std::vector<std::string> sample;
  if (!command.null_storage) {
    record.cache.mount = MountOf(dataset.folder);
    sample = ResidencySample(dataset, profile.num_files_train);
    record.cache.sampled_files = sample.size();
    record.cache.page_cache_before = PageCacheShare(sample);
    if (record.cache.page_cache_before && *record.cache.page_cache_before >= kHotShare &&
        command.rules.cache_control == CacheControl::kFadvise) {
      Warn(Text("%.0f", 100 * *record.cache.page_cache_before) +
           " % of the dataset (by a sample) is in the page cache: the first epoch starts hot");
    }
  }

  record.log = Train(options, cancel, [&](uint64_t epoch, const EpochLog& log) {
    const RunFigures figures = ComputeRun(record.metric, {log});
    double seconds = log.unix_end - log.unix_start;
    Print("epoch " + std::to_string(epoch + 1) + " of " + std::to_string(profile.epochs) + ": AU " +
          Text("%.2f", figures.au_mean_percent) + " %, " + Text("%.2f", figures.samples_mean) +
          " samples/s, " + Text("%.1f", figures.mib_mean) + " MiB/s nominal, " + Text("%.1f", seconds) +
          " s" + (log.complete ? "" : " (not finished)"));
  });
  if (!command.null_storage && !record.log.stuck) record.cache.page_cache_after = PageCacheShare(sample);
  record.figures = ComputeRun(record.metric, record.log.epochs);
  record.harness = ComputeHarness(record.log);

  int exit_status = record.figures.meets_threshold ? kExitPass : kExitBelow;
  if (!record.complete()) exit_status = kExitInterrupted;
  if (!record.log.failure.ok()) {
    exit_status = Fail(record.log.failure.message() + "; the results are partial", kExitError);
  }
  if (record.log.reads.errors > 0) {
    exit_status = Fail("run invalid: " + std::to_string(record.log.reads.errors) +
                           (record.log.reads.errors == 1 ? " file" : " files") +
                           " could not be read; the first: " + record.log.reads.first_error,
                       kExitError);
  }
  const Result<std::string> written = WriteResults(**results, record);
  std::fputs(MetricBlock(record.metric, record.figures, command.accelerators).c_str(), stdout);
  if (!command.null_storage) {
    Print("True bytes: " + FormatBytes(record.log.reads.bytes) + ", " +
          Text("%.1f", record.harness.bytes_per_s / kMiBDouble) + " MiB/s (" +
          Text("%.1f", record.harness.bytes_per_s / 1e6) + " MB/s); generator CPU " +
          Text("%.3f", record.harness.cpu_s_per_gb) + " s per GB");
  }
  if (exit_status == kExitInterrupted) Print("Interrupted: the results are partial");
  Print(Verdict(record));
  if (!written.ok()) {
    exit_status = Fail("the results could not be written: " + written.status().message(), kExitError);
  } else {
    Print("summary: " + *written);
  }
  if (record.log.stuck) {
    // Threads wait in reads that may never return; destructors would wait for them.
    results->reset();
    std::fflush(nullptr);
    ::_exit(exit_status);
  }
  return exit_status;
}

}  // namespace

void RunVerb::AddFlags(CLI::App& app) {
  flags_.AddCommon(app);
  flags_.AddAccelerators(app);
  flags_.AddData(app);
  flags_.AddResults(app);
  flags_.AddReading(app);
}

Status RunVerb::Check() {
  ASSIGN_OR_RETURN(command_, flags_.Fill());
  if (!command_.null_storage) RETURN_IF_ERROR(NeedData(command_));
  if (!command_.results_dir.empty()) return Status::Ok();
  return {Code::kInvalidArgument, "--results-dir is missing: the folder that receives summary.json"};
}

int RunVerb::Run(const CancelToken& cancel) {
  return RunTraining(command_, cancel);
}

}  // namespace stoker::bench
