#include "workload/cli/verb_mdtest.h"

#include <strings.h>
#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "workload/base/console.h"
#include "workload/cli/flags.h"
#include "workload/cli/result_file.h"
#include "workload/cli/short_options.h"
#include "workload/io/crew.h"
#include "workload/io/mdtest.h"
#include "workload/io/mdtest_report.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kMany = uint64_t{1} << 40;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;  // held in memory, once a task

const std::vector<ShortOption>& Options() {
  static const std::vector<ShortOption> options{
      {'a', nullptr, "API", "POSIX (the only one here)"},
      {'n', nullptr, "N", "items of each task, spread over the tree"},
      {'I', nullptr, "N", "items of each task in each directory"},
      {'d', nullptr, "DIR", "folder to work in; made when missing (default out)"},
      {'b', nullptr, "N", "branching factor of the tree (default 1)"},
      {'z', nullptr, "N", "depth of the tree (default 0: one directory)"},
      {'L', nullptr, nullptr, "items only in the deepest directories"},
      {'F', nullptr, nullptr, "files only"},
      {'D', nullptr, nullptr, "directories only"},
      {'C', nullptr, nullptr, "create"},
      {'T', nullptr, nullptr, "stat"},
      {'E', nullptr, nullptr, "read"},
      {'r', nullptr, nullptr, "remove (with no phase named: all, and renames)"},
      {'w', nullptr, "BYTES", "write to each file (default 0)"},
      {'e', nullptr, "BYTES", "read from each file (default 0)"},
      {'X', "verify-read", nullptr, "compare what is read"},
      {'u', nullptr, nullptr, "a tree for each task"},
      {'N', nullptr, "N", "work on the items of task + N (stat), + 2N (read), + 3N (remove)"},
      {0, "tasks", "N", "tasks, over all processes (default: one in each process that mpirun started)"},
      {'i', nullptr, "N", "iterations (default 1)"},
      {'R', nullptr, nullptr, "stat and read in random order"},
      {0, "random-seed", "N", "seed of -R (default: the clock)"},
      {'y', nullptr, nullptr, "fsync each file after writing"},
      {'Y', nullptr, nullptr, "sync after each phase, timed"},
      {'W', nullptr, "SECONDS", "end creation after this time; all tasks make as many as the fastest"},
      {'p', nullptr, "SECONDS", "delay before each iteration"},
      {'Z', nullptr, nullptr, "print times instead of rates"},
      {'P', nullptr, nullptr, "print rates and times"},
      {0, "mpi", "KIND", "auto, off, mpich or openmpi (default auto: as the launcher wants it)"},
      {0, "json", "FILE", "write all results to FILE, which must not exist"},
      {'v', nullptr, nullptr, "say each phase; may be repeated"},
      {'h', "help", nullptr, "this text"},
  };
  return options;
}

const std::map<char, const char*> kElsewhere{
    {'B', "phases of all tasks always begin together"},
    {'c', "every task makes its own items"},
    {'f', "numbers of tasks: run it once for each"},
    {'g', "it needs Lustre's own library"},
    {'k', "files are made by open(), as programs do"},
    {'l', "numbers of tasks: run it once for each"},
    {'s', "numbers of tasks: run it once for each"},
    {'S', "use stoker-bench io for a shared file"},
    {'t', "making the tasks' trees is the line Tree creation"},
    {'V', "use -v, repeated"},
    {'x', "run the phases of a -W test in one call"},
};

}  // namespace

Result<MdtestCommand> ParseMdtestArguments(const std::vector<std::string>& arguments) {
  const auto bad = [](const std::string& text) { return Status(Code::kInvalidArgument, "mdtest: " + text); };
  const Result<std::vector<GivenOption>> given = ParseShortOptions("mdtest", arguments, Options());
  if (!given.ok()) {
    const std::string start = "mdtest: unknown option -";
    const std::string& message = given.status().message();
    const auto found = message.starts_with(start) && message.size() > start.size()
                           ? kElsewhere.find(message[start.size()])
                           : kElsewhere.end();
    if (found == kElsewhere.end()) return given.status();
    return bad(std::string("mdtest's -") + found->first + " is not here: " + found->second);
  }
  MdtestCommand command;
  MdtestOptions& o = command.options;
  const std::map<std::string, bool*> switches{{"L", &o.leaf_only},  {"F", &o.files},
                                              {"D", &o.dirs},       {"C", &o.create},
                                              {"T", &o.stat},       {"E", &o.read},
                                              {"r", &o.remove},     {"X", &o.verify},
                                              {"u", &o.own_folder}, {"R", &o.random},
                                              {"y", &o.fsync},      {"Y", &o.sync},
                                              {"Z", &o.print_time}, {"P", &o.print_rate_and_time},
                                              {"h", &command.help}};
  struct Range {
    uint64_t* value;
    uint64_t min;
    uint64_t max;
  };
  const std::map<std::string, Range> counts{
      {"n", {&o.items, 1, kMany}},
      {"I", {&o.items_per_dir, 1, kMany}},
      {"b", {&o.branch, 1, TreeShape::kMaxDirs}},
      {"z", {&o.depth, 0, 1000}},
      {"N", {&o.stride, 0, kMaxTasks}},
      {"tasks", {&command.tasks, 1, kMaxTasks}},
      {"i", {&o.iterations, 1, 1000000}},
      {"random-seed", {&o.random_seed, 1, std::numeric_limits<uint32_t>::max()}},
      {"W", {&o.stonewall_s, 0, 86400}},
      {"p", {&o.delay_s, 0, 86400}}};
  const std::map<std::string, uint64_t*> sizes{{"w", &o.write_bytes}, {"e", &o.read_bytes}};
  for (const GivenOption& one : *given) {
    if (const auto found = switches.find(one.name); found != switches.end()) {
      *found->second = true;
    } else if (const auto count = counts.find(one.name); count != counts.end()) {
      const Result<uint64_t> value = ParseCount(one.flag(), one.value, count->second.min, count->second.max);
      if (!value.ok()) return bad(value.status().message());
      *count->second.value = *value;
    } else if (const auto size = sizes.find(one.name); size != sizes.end()) {
      const Result<uint64_t> value = ParseIorSize(one.flag(), one.value);
      if (!value.ok()) return bad(value.status().message());
      if (*value > kMaxFileBytes)
        return bad(one.flag() + " " + one.value + ": at most 1g; use stoker-bench io for bandwidth");
      *size->second = *value;
    } else if (one.name == "d") {
      o.folder = one.value;
    } else if (one.name == "json") {
      o.json = one.value;
    } else if (one.name == "mpi") {
      const Result<MpiChoice> choice = ParseMpiChoice(one.flag(), one.value);
      if (!choice.ok()) return bad(choice.status().message());
      command.mpi = *choice;
    } else if (one.name == "v") {
      ++o.verbose;
    } else if (strcasecmp(one.value.c_str(), "POSIX") != 0) {
      return bad("-a: \"" + one.value + "\" is not POSIX, the only interface here");
    }
  }
  while (o.folder.size() > 1 && o.folder.back() == '/') o.folder.pop_back();
  o.tasks = std::max<uint64_t>(1, command.tasks);
  if (!command.help) RETURN_IF_ERROR(CompleteMdtestOptions(o));
  return command;
}

Result<std::string> MdtestVerb::TakeWords(const std::vector<std::string>& words) {
  command_line_ = "stoker-bench mdtest";
  for (const std::string& word : words) command_line_ += " " + word;
  ASSIGN_OR_RETURN(command_, ParseMdtestArguments(words));
  if (command_.help) {
    return "Metadata test in the manner of mdtest\n"
           "Usage: stoker-bench mdtest -n N [options of mdtest]\n\n"
           "  stoker-bench mdtest -n 1000 -d DIR --tasks 4 -i 3 -u\n\n" +
           DescribeShortOptions(Options());
  }
  RETURN_IF_ERROR(CheckResultFile("mdtest: --json", command_.options.json));
  return std::string();
}

int MdtestVerb::Run(const CancelToken& cancel) {
  Result<std::unique_ptr<Communicator>> others = OpenCommunicator(command_.mpi, DetectLaunch(), ModuleDirs());
  if (!others.ok()) return Fail("mdtest: " + others.status().message(), kExitUsage);
  const bool leads = (*others)->rank() == 0;
  Result<std::unique_ptr<Team>> team = Team::Join(std::move(*others), command_.tasks, command_line_);
  // All processes find the same; one says it.
  if (!team.ok()) return leads ? Fail("mdtest: " + team.status().message(), kExitUsage) : kExitUsage;
  command_.options.tasks = (*team)->tasks();
  const int exit_status = RunWith(**team, cancel);
  (*team)->Finish(exit_status);
  return exit_status;
}

int MdtestVerb::RunWith(Team& team, const CancelToken& cancel) {
  const MdtestOptions& options = command_.options;
  Status prepared = team.Agree(CompleteMdtestOptions(command_.options));
  Mdtest test(options, team);
  if (prepared.ok()) prepared = test.Prepare();
  if (!prepared.ok()) return team.leads() ? Fail(prepared.message(), kExitUsage) : kExitUsage;
  if (!team.leads()) return Report(team, test.Run(cancel, {}));
  Print("Command line used: " + command_line_);
  Print("Path: " + options.folder);
  if (options.stride > 0) Print("Shifting tasks by " + std::to_string(options.stride) + " for each phase");
  const uint64_t all = options.shape.items() * options.tasks;
  const char* const kind = !options.dirs ? " files" : !options.files ? " directories" : " files/directories";
  if (options.items > 0 && options.items_per_dir == 0 && options.shape.items() != options.items) {
    Print("Note: -n " + std::to_string(options.items) +
          " does not divide evenly over the tree: each task has " + std::to_string(options.shape.items()) +
          " items");
  }
  Print("\n" + std::to_string(options.tasks) + " tasks, " + std::to_string(all) + kind + "\n");
  return Report(team, test.Run(cancel, [&](const MdPhaseResult& result) {
    if (options.verbose == 0) return;
    Print("iteration " + std::to_string(result.iteration) + ": " + MdPhaseName(result.phase) + ": " +
          std::to_string(result.items) + " in " + Text("%.3f s", result.seconds) +
          Text(", %.3f/s", result.rate()));
  }));
}

int MdtestVerb::Report(const Team& team, const MdOutcome& outcome) const {
  const MdtestOptions& options = command_.options;
  int exit_status = outcome.interrupted ? kExitInterrupted : kExitPass;
  if (!outcome.failure.ok() || outcome.wrong_files > 0) exit_status = kExitError;
  if (!team.leads()) return exit_status;
  if (!outcome.phases.empty()) {
    if (!options.print_time || options.print_rate_and_time)
      Print(MdSummaryText(options, outcome.phases, false));
    if (options.print_time || options.print_rate_and_time)
      Print(MdSummaryText(options, outcome.phases, true));
  }
  if (!outcome.not_removed.empty()) Warn("not removed: " + outcome.not_removed);
  if (!options.json.empty()) {
    const char* const status = exit_status == kExitPass ? "complete"
                               : outcome.interrupted    ? "partial"
                                                        : "failed";
    const Status written = WriteResultFile(options.json, MdJson(options, outcome, status, command_line_));
    if (!written.ok()) return Fail("mdtest: --json: " + written.message(), kExitError);
  }
  if (!outcome.failure.ok()) return Fail("mdtest: " + outcome.failure.message(), exit_status);
  if (outcome.wrong_files > 0) {
    return Fail("mdtest: " + std::to_string(outcome.wrong_files) + " files had wrong bytes, first " +
                    outcome.first_wrong,
                exit_status);
  }
  if (outcome.interrupted) {
    return Fail(
        "mdtest: PARTIAL: interrupted; the table has the phases that were complete; all items are removed",
        exit_status);
  }
  return exit_status;
}

}  // namespace stoker::bench
