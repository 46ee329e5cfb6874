#include "workload/cli/verb_io.h"

#include <sys/utsname.h>
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "workload/base/console.h"
#include "workload/cli/result_file.h"
#include "workload/cli/short_options.h"
#include "workload/io/io_report.h"
#include "workload/io/io_test.h"

namespace stoker::bench {
namespace {

std::string Now() {
  const std::time_t now = std::time(nullptr);
  char text[64];
  std::tm local{};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", ::localtime_r(&now, &local));
  return text;
}

void PrintHead(const IoOptions& options, const std::string& command_line) {
  utsname system{};
  ::uname(&system);
  std::string machine = std::string(system.sysname) + " " + system.nodename;
  if (options.verbose >= 2) machine += std::string(" ") + system.release + " " + system.machine;
  Print("Began               : " + Now());
  Print("Command line        : " + command_line);
  Print("Machine             : " + machine + "\n");
  Print(IoOptionsText(options));
  Print("\nResults:\n\n" + IoTableHead());
}

void PrintPhase(const IoOptions& options, const PhaseResult& phase) {
  if (phase.access == Access::kCheck) {
    if (options.verbose >= 1) Print("Compared " + std::to_string(phase.bytes) + " bytes that were written");
  } else {
    Print(IoTableRow(options, phase));
    if (phase.bytes != phase.expected_bytes) {
      Print("WARNING: " + std::to_string(phase.bytes) + " of " + std::to_string(phase.expected_bytes) +
            " bytes were moved" + (options.stonewall_s > 0 ? " (-D)" : "") +
            "; bandwidth is that of what was moved");
    }
    if (options.verbose >= 3) {
      for (size_t task = 0; task < phase.task_s.size(); ++task) {
        Print("  task " + std::to_string(task) + ": " + Text("%.6f s", phase.task_s[task]));
      }
    }
  }
  if (phase.wrong_words > 0) {
    Warn("incorrect data on " + std::string(phase.access == Access::kCheck ? "write" : "read") + " (" +
         std::to_string(phase.wrong_words) + " words of 8 bytes)");
  }
}

/// What the client itself cost: figures near one second of CPU per second and core are the client's, not the
/// storage's.
std::string CpuText(const std::vector<PhaseResult>& phases) {
  double cpu = 0;
  double bytes = 0;
  for (const PhaseResult& phase : phases) {
    cpu += phase.cpu_s;
    bytes += static_cast<double>(phase.bytes);
  }
  return "Client CPU: " + Text("%.2f s", cpu) +
         (bytes > 0 ? Text(", %.3f s per GB moved", cpu / bytes * 1e9) : "");
}

}  // namespace

Result<std::string> IoVerb::TakeWords(const std::vector<std::string>& words) {
  command_line_ = "stoker-bench io";
  for (const std::string& word : words) command_line_ += " " + word;
  ASSIGN_OR_RETURN(command_, ParseIoArguments(words));
  if (command_.help) return IoHelp();
  RETURN_IF_ERROR(CheckResultFile("io: --json", command_.options.json));
  const std::vector<std::string> files = AllFiles(command_.options);
  if (std::find(files.begin(), files.end(), command_.options.json) != files.end()) {
    return Status(Code::kInvalidArgument, "io: --json: " + command_.options.json +
                                              " is a file of the test itself; choose another name");
  }
  return std::string();
}

int IoVerb::Run(const CancelToken& cancel) {
  Result<std::unique_ptr<Communicator>> others = OpenCommunicator(command_.mpi, DetectLaunch(), ModuleDirs());
  if (!others.ok()) return Fail("io: " + others.status().message(), kExitUsage);
  const bool leads = (*others)->rank() == 0;
  Result<std::unique_ptr<Team>> team = Team::Join(std::move(*others), command_.tasks, command_line_);
  // All processes find the same; one says it.
  if (!team.ok()) return leads ? Fail("io: " + team.status().message(), kExitUsage) : kExitUsage;
  IoOptions& options = command_.options;
  options.tasks = (*team)->tasks();
  options.tasks_per_host = (*team)->tasks_per_host();
  options.hosts = (*team)->hosts();
  if (options.hosts > 1 && (*team)->hosts_in_rows()) options.host_stride = options.tasks_per_host;
  const int exit_status = RunWith(**team, cancel);
  (*team)->Finish(exit_status);
  return exit_status;
}

int IoVerb::RunWith(Team& team, const CancelToken& cancel) {
  const IoOptions& options = command_.options;
  const auto fail = [&team](const std::string& text, int exit_status) {
    return team.leads() ? Fail(text, exit_status) : exit_status;
  };
  if (const Status complete = team.Agree(CompleteIoOptions(command_.options)); !complete.ok()) {
    return fail(complete.message(), kExitUsage);
  }
  IoTest test(options, team);
  const Result<IoNotes> notes = test.Prepare();
  if (!notes.ok()) return fail(notes.status().message(), kExitUsage);
  if (!team.leads()) return Report(team, test.Run(cancel, {}), *notes);
  PrintHead(options, command_line_);
  IoListener listener;
  listener.begins = [&](Access access, uint64_t) {
    if (options.verbose == 0) return;
    Print(access == Access::kCheck
              ? "Comparing what was just written: " + Now()
              : std::string("Commencing ") + AccessName(access) + " performance test: " + Now());
  };
  listener.ended = [&](const PhaseResult& phase) { PrintPhase(options, phase); };
  listener.removed = [&](double seconds, uint64_t repetition) { Print(IoRemoveRow(seconds, repetition)); };
  return Report(team, test.Run(cancel, listener), *notes);
}

int IoVerb::Report(const Team& team, const IoOutcome& outcome, const IoNotes& notes) const {
  const IoOptions& options = command_.options;
  const bool wrong = outcome.wrong_words > 0;
  int exit_status = kExitPass;
  if (outcome.interrupted) exit_status = kExitInterrupted;
  if (!outcome.failure.ok() || wrong) exit_status = kExitError;
  if (!team.leads()) return exit_status;

  const std::vector<IoSummary> summaries = SummarizeIo(options, outcome.phases);
  if (!summaries.empty()) {
    Print(IoMaxText(summaries) + "\n\n" + IoSummaryText(options, summaries));
    if (command_.old_table) Print("\n" + IoOldSummaryText(options, summaries));
    Print("\n" + CpuText(outcome.phases));
  }
  for (const std::string& note : notes) Print("Note: " + note);
  if (outcome.out_of_time) Print("Note: -T ended the test before all repetitions");
  Print("Finished            : " + Now());
  if (!outcome.not_removed.empty()) Warn("not removed: " + outcome.not_removed);
  if (!options.json.empty()) {
    const char* const status = exit_status == kExitPass ? "complete"
                               : outcome.interrupted    ? "partial"
                                                        : "failed";
    const Status written =
        WriteResultFile(options.json, IoJson(options, outcome, notes, status, command_line_));
    if (!written.ok()) return Fail("io: --json: " + written.message(), kExitError);
  }
  if (!outcome.failure.ok()) return Fail("io: " + outcome.failure.message(), exit_status);
  if (wrong) return Fail("io: wrong data: " + outcome.first_wrong, exit_status);
  if (outcome.interrupted) {
    return Fail(std::string("io: PARTIAL: interrupted; figures are of what was done by then") +
                    (options.keep_files ? "" : "; the files that were written are removed"),
                exit_status);
  }
  return exit_status;
}

}  // namespace stoker::bench
