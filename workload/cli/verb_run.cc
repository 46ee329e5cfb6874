#include "workload/cli/verb_run.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <vector>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/report/honesty.h"
#include "workload/report/prerun.h"
#include "workload/report/results.h"
#include "workload/run/self_test.h"
#include "workload/run/storage_probe.h"
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

/// What is looked at before the run, as asked for; the plan's record gets it.
Status LookAhead(TrainingPlan& plan, bool probe, bool self_test, const CancelToken& cancel) {
  RunRecord& record = plan.record;
  if (!record.command.null_storage) {
    Prerun prerun = PrerunOf(plan);
    if (probe) {
      ASSIGN_OR_RETURN(prerun.probe, ProbeFiles(ProbeOf(plan), cancel));
      record.probe = prerun.probe;
    }
    for (const std::string& line : PrerunLines(prerun)) Print(line);
    for (const std::string& warning : PrerunWarnings(prerun)) Warn(warning);
  }
  if (!self_test) return Status::Ok();
  const StepShares shares = SelfTest(plan, cancel);
  if (shares.steps == 0 || cancel.cancelled()) return Status::Ok();
  record.self_test_au = 100 * shares.compute;
  Print("Self-test: without reading AU " + Text("%.2f", *record.self_test_au) + " % in " +
        std::to_string(shares.steps) + " steps");
  if (*record.self_test_au < kSelfTestAu) {
    Warn("without reading AU is " + Text("%.2f", *record.self_test_au) + " % only, " +
         Text("%g", kSelfTestAu) +
         " % is expected: this host and not the storage limits the run; use fewer accelerators on it");
  }
  return Status::Ok();
}

int RunTraining(const Command& command, bool probe, bool self_test, const CancelToken& cancel) {
  Result<TrainingPlan> plan = PlanTraining(command);
  if (!plan.ok()) return Fail(plan.status().message(), kExitUsage);
  const std::string folder = ResultsFolder(command, plan->record.host.hostname, std::time(nullptr));
  Result<std::unique_ptr<ResultsDir>> results = ResultsDir::Reserve(folder);
  if (!results.ok()) return Fail(results.status().message(), kExitUsage);
  for (const std::string& line : PlanLines(*plan)) Print(line);
  for (const std::string& warning : PlanWarnings(*plan)) Warn(warning);
  const Status looked = LookAhead(*plan, probe, self_test, cancel);
  if (!looked.ok()) return Fail(looked.message(), kExitError);

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
  app.add_option("--probe", probe_,
                 "on: before the run, read for 2 s or 512 MiB from the files that the first epoch reads "
                 "last, and say "
                 "what bandwidth there is")
      ->capture_default_str();
  app.add_flag("--self-test", self_test_,
               "Before the run, a short one without reading: AU must be 99.5 % or more");
}

Status RunVerb::Check() {
  ASSIGN_OR_RETURN(command_, flags_.Fill());
  if (probe_ != "on" && probe_ != "off") {
    return {Code::kInvalidArgument, NotOneOf("--probe", probe_, {"off", "on"})};
  }
  if (!command_.null_storage) RETURN_IF_ERROR(NeedData(command_));
  if (!command_.results_dir.empty()) return Status::Ok();
  return {Code::kInvalidArgument, "--results-dir is missing: the folder that receives summary.json"};
}

int RunVerb::Run(const CancelToken& cancel) {
  return RunTraining(command_, probe_ == "on", self_test_, cancel);
}

}  // namespace stoker::bench
