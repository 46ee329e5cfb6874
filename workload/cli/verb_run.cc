#include "workload/cli/verb_run.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/report/honesty.h"
#include "workload/report/prerun.h"
#include "workload/report/results.h"
#include "workload/run/self_test.h"
#include "workload/run/storage_probe.h"
#include "workload/run/training_run.h"
#include "workload/run/training_team.h"

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

/// A folder for the results. Those that are named after the second may be taken by a run that began in the
/// same one: then the next second's.
Result<std::unique_ptr<ResultsDir>> ReserveResults(const Command& command, const std::string& hostname) {
  constexpr int kSeconds = 5;
  for (int tries = 1;; ++tries) {
    Result<std::unique_ptr<ResultsDir>> reserved =
        ResultsDir::Reserve(ResultsFolder(command, hostname, std::time(nullptr)));
    const bool taken =
        reserved.status().code() == Code::kAlreadyExists || reserved.status().code() == Code::kBusy;
    if (!taken || command.rules.results_layout == ResultsLayout::kFlat || tries == kSeconds) return reserved;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

/// What a person wants to see of a finished run.
void PrintFigures(const RunRecord& record) {
  PrintRaw(MetricBlock(record.metric, record.figures, record.command.accelerators));
  if (!record.command.null_storage) {
    Print("True bytes: " + FormatBytes(record.log.reads.bytes) + ", " +
          Text("%.1f", record.harness.bytes_per_s / static_cast<double>(kMiB)) + " MiB/s (" +
          Text("%.1f", record.harness.bytes_per_s / 1e6) + " MB/s); generator CPU " +
          Text("%.3f", record.harness.cpu_s_per_gb) + " s per GB");
  }
  for (const std::string& line : HonestyLines(record)) Print(line);
  for (const std::string& warning : HonestyWarnings(record)) Warn(warning);
}

void PrintPlan(const TrainingTeam& team, const TrainingPlan& plan) {
  for (const std::string& line : PlanLines(plan)) Print(line);
  if (!team.alone()) Print(team.Describe());
  if (!team.speaks()) return;
  for (const std::string& warning : PlanWarnings(plan)) Warn(warning);
}

/// The hosts of a v0.5 run side by side, their throughputs added up.
void PrintHosts(const std::vector<TrainingTeam::Outcome>& hosts) {
  TrainingTeam::Outcome sum;
  for (const TrainingTeam::Outcome& host : hosts) {
    Print("host " + host.host + ": AU " + Text("%.2f", host.au_percent) + " %, " +
          Text("%.2f", host.samples_per_s) + " samples/s, " + Text("%.1f", host.mib_per_s) +
          " MiB/s nominal, exit status " + std::to_string(host.exit_status) + ", " + host.folder);
    sum.samples_per_s += host.samples_per_s;
    sum.mib_per_s += host.mib_per_s;
  }
  Print("all " + std::to_string(hosts.size()) + " hosts: " + Text("%.2f", sum.samples_per_s) +
        " samples/s, " + Text("%.1f", sum.mib_per_s) + " MiB/s nominal");
}

int Leave(TrainingTeam& team, const TrainingTeam::Outcome& mine) {
  std::vector<TrainingTeam::Outcome> hosts;
  const int status = team.End(mine, hosts);
  if (!hosts.empty()) PrintHosts(hosts);
  return status;
}

/// Ends before any work: says what is wrong, a sentence a line.
int Refuse(TrainingTeam& team, const Status& why, int exit_status) {
  std::istringstream lines(why.message());
  for (std::string line; std::getline(lines, line);) Fail(line, exit_status);
  TrainingTeam::Outcome nothing;
  nothing.exit_status = exit_status;
  std::vector<TrainingTeam::Outcome> hosts;
  return team.End(nothing, hosts);
}

/// Figures and results of the run that this process leads.
TrainingTeam::Outcome Conclude(const RunRecord& record, ResultsDir& results) {
  TrainingTeam::Outcome out;
  out.exit_status = ExitStatusOf(record);
  const Result<std::string> written = WriteResults(results, record);
  PrintFigures(record);
  if (out.exit_status == kExitInterrupted) Print("Interrupted: the results are partial");
  Print(Verdict(record));
  if (!written.ok()) {
    out.exit_status = Fail("the results could not be written: " + written.status().message(), kExitError);
  } else {
    Print("summary: " + *written);
  }
  out.host = record.host.hostname;
  out.au_percent = record.figures.au_mean_percent;
  out.samples_per_s = record.figures.samples_mean;
  out.mib_per_s = record.figures.mib_mean;
  out.folder = results.folder();
  return out;
}

int RunTraining(Command command, MpiChoice mpi, bool probe, bool self_test, const CancelToken& cancel) {
  Result<std::unique_ptr<Communicator>> world = OpenCommunicator(mpi, DetectLaunch(), ModuleDirs());
  if (!world.ok()) return Fail(world.status().message(), kExitUsage);
  TrainingTeam team(std::move(*world));
  const auto speak = [&] {
    if (!team.alone()) SetSpeaker(!team.speaks(), team.speaks() ? "" : team.name() + ": ");
  };
  speak();
  const Status assembled = team.Assemble(command);
  if (!assembled.ok()) return Refuse(team, assembled, kExitUsage);
  speak();  // the name has the host now

  Result<TrainingPlan> plan = PlanTraining(command);
  Status problem = plan.status();
  std::unique_ptr<ResultsDir> results;
  if (problem.ok() && team.leads()) {
    Result<std::unique_ptr<ResultsDir>> reserved = team.independent()
                                                       ? ResultsDir::Reserve(team.independent_folder())
                                                       : ReserveResults(command, plan->record.host.hostname);
    problem = reserved.status();
    if (reserved.ok()) results = std::move(*reserved);
  }
  int refusal = kExitUsage;
  if (problem.ok()) {
    team.Share(*plan);
    PrintPlan(team, *plan);
    problem = LookAhead(*plan, probe, self_test, cancel);
    if (!problem.ok()) refusal = kExitError;
  }
  std::vector<std::string> warnings;
  const Status ready = team.Ready(problem, plan.ok() ? &*plan : nullptr, warnings);
  if (!ready.ok()) return Refuse(team, ready, refusal);
  for (const std::string& warning : warnings) Warn(warning);

  RunRecord mine = RunOnce(*plan, cancel, {Print, Warn});
  const bool stuck = mine.log.stuck;
  const Result<RunRecord> record = team.Collect(std::move(mine));
  TrainingTeam::Outcome outcome;
  if (!record.ok()) {
    outcome.exit_status = Fail(record.status().message(), kExitError);
  } else if (team.leads()) {
    outcome = Conclude(*record, *results);
  }
  const int exit_status = Leave(team, outcome);
  if (stuck) {
    // Threads wait in reads that may never return; destructors would wait for them.
    results.reset();
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
  mpi_flag_.AddTo(app);
}

Status RunVerb::Check() {
  ASSIGN_OR_RETURN(mpi_, mpi_flag_.Choice());
  ASSIGN_OR_RETURN(command_, flags_.Fill());
  if (probe_ != "on" && probe_ != "off") {
    return {Code::kInvalidArgument, NotOneOf("--probe", probe_, {"off", "on"})};
  }
  if (!command_.null_storage) RETURN_IF_ERROR(NeedData(command_));
  if (!command_.results_dir.empty()) return Status::Ok();
  return {Code::kInvalidArgument, "--results-dir is missing: the folder that receives summary.json"};
}

int RunVerb::Run(const CancelToken& cancel) {
  return RunTraining(command_, mpi_, probe_ == "on", self_test_, cancel);
}

}  // namespace stoker::bench
