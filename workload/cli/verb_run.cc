#include "workload/cli/verb_run.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <vector>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/report/honesty.h"
#include "workload/report/results.h"
#include "workload/run/training_run.h"

namespace stoker::bench {
namespace {

/// What the process leaves with; says why on stderr when the run failed.
int ExitStatusOf(const RunRecord& record) {
  int status = record.figures.meets_threshold ? kExitPass : kExitBelow;
  if (!record.complete()) status = kExitInterrupted;
  if (!record.log.failure.ok()) {
    status = Fail(record.log.failure.message() + "; the results are partial", kExitError);
  }
  if (record.log.reads.errors > 0) {
    status = Fail("run invalid: " + std::to_string(record.log.reads.errors) +
                      (record.log.reads.errors == 1 ? " file" : " files") +
                      " could not be read; the first: " + record.log.reads.first_error,
                  kExitError);
  }
  return status;
}

int RunTraining(const Command& command, const CancelToken& cancel) {
  const Result<TrainingPlan> plan = PlanTraining(command);
  if (!plan.ok()) return Fail(plan.status().message(), kExitUsage);
  const std::string folder = ResultsFolder(command, plan->record.host.hostname, std::time(nullptr));
  Result<std::unique_ptr<ResultsDir>> results = ResultsDir::Reserve(folder);
  if (!results.ok()) return Fail(results.status().message(), kExitUsage);
  for (const std::string& line : PlanLines(*plan)) Print(line);
  for (const std::string& warning : PlanWarnings(*plan)) Warn(warning);

  const RunRecord record = RunOnce(*plan, cancel, {Print, Warn});
  int exit_status = ExitStatusOf(record);
  const Result<std::string> written = WriteResults(**results, record);
  std::fputs(MetricBlock(record.metric, record.figures, command.accelerators).c_str(), stdout);
  if (!command.null_storage) {
    Print("True bytes: " + FormatBytes(record.log.reads.bytes) + ", " +
          Text("%.1f", record.harness.bytes_per_s / static_cast<double>(kMiB)) + " MiB/s (" +
          Text("%.1f", record.harness.bytes_per_s / 1e6) + " MB/s); generator CPU " +
          Text("%.3f", record.harness.cpu_s_per_gb) + " s per GB");
  }
  for (const std::string& line : HonestyLines(record)) Print(line);
  for (const std::string& warning : HonestyWarnings(record)) Warn(warning);
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
