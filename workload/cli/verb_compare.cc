#include "workload/cli/verb_compare.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "workload/base/console.h"
#include "workload/cli/flags.h"
#include "workload/report/results.h"
#include "workload/run/compare_run.h"

namespace stoker::bench {
namespace {

constexpr size_t kMaxContenders = 16;
constexpr uint64_t kMaxRounds = 1000;

/// "NAME=REST"; a name becomes a folder's, so it is kept simple.
Result<std::pair<std::string, std::string>> SplitNamed(const std::string& flag, const std::string& text) {
  const size_t split = text.find('=');
  const std::string name = text.substr(0, split);
  const bool plain =
      !name.empty() && name.front() != '.' &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
          std::string::npos;
  if (split == std::string::npos || !plain || split + 1 == text.size()) {
    return Status(Code::kInvalidArgument, flag + ": \"" + text +
                                              "\" is not NAME=" + (flag == "--dir" ? "FOLDER" : "COMMAND") +
                                              ", NAME being letters, digits, - _ and .");
  }
  return std::pair{name, text.substr(split + 1)};
}

/// A round may take an hour: that its results cannot be kept has to be known before.
Status CheckFolder(const char* flag, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) error.assign(errno, std::generic_category());
  if (!error) return Status::Ok();
  return {Code::kInvalidArgument, std::string(flag) + ": cannot write to " + folder + ": " + error.message() +
                                      "; give a folder that can be written"};
}

Status CheckOutputs(const CompareOptions& options, const std::string& json) {
  if (!json.empty()) {
    const std::string folder = std::filesystem::path(json).parent_path().string();
    RETURN_IF_ERROR(CheckFolder("--json", folder.empty() ? "." : folder));
    std::error_code error;
    if (std::filesystem::is_directory(json, error)) {
      return {Code::kInvalidArgument, "--json: " + json + " is a folder; name a file"};
    }
  }
  const std::string& results = options.command.results_dir;
  if (results.empty()) return Status::Ok();
  RETURN_IF_ERROR(CheckFolder("--results-dir", results));
  for (const Contender& contender : options.contenders) {
    for (uint64_t round = 0; round < options.rounds; ++round) {
      const std::string folder = RoundFolder(options, contender, round);
      if (::access((folder + "/summary.json").c_str(), F_OK) != 0) continue;
      return {Code::kAlreadyExists,
              folder + " already holds a run (summary.json); give another --results-dir"};
    }
  }
  return Status::Ok();
}

}  // namespace

CompareVerb::CompareVerb() : options_(std::make_unique<CompareOptions>()) {}
CompareVerb::~CompareVerb() = default;

void CompareVerb::AddFlags(CLI::App& app) {
  app.add_option(
         "--dir", dirs_,
         "NAME=FOLDER, two or more: a folder with the dataset, as --data-dir of run; ratios are to the first")
      ->allow_extra_args(false);
  app.add_option("--rounds", rounds_, "Turns of each; the order rotates from round to round")
      ->capture_default_str();
  app.add_option(
         "--before", before_,
         "NAME=COMMAND: shell command before each turn of NAME, e.g. to evict; one that fails ends it all")
      ->allow_extra_args(false);
  app.add_option("--before-timeout", before_timeout_, "Longest time for such a command (default 10m)");
  app.add_option("--results-dir", results_dir_,
                 "Keep each turn's run in this folder, in NAME/round-K, for stoker-bench report");
  app.add_option("--json", json_, "Write the figures of every turn to this file");
  flags_.AddCommon(app);
  flags_.AddAccelerators(app);
  flags_.AddLayout(app);
  flags_.AddReading(app);
}

Status CompareVerb::Check() {
  ASSIGN_OR_RETURN(options_->command, flags_.Fill());
  options_->command.results_dir = results_dir_;
  if (!options_->command.profile.data_folder.empty()) {
    return Status(Code::kInvalidArgument,
                  "--param dataset.data_folder would send every --dir to the same folder; take it out");
  }
  if (options_->command.null_storage) {
    return Status(Code::kInvalidArgument,
                  "--null reads nothing: there is nothing to compare; use run --null");
  }
  ASSIGN_OR_RETURN(options_->rounds, ParseCount("--rounds", rounds_, 1, kMaxRounds));
  if (!before_timeout_.empty()) {
    ASSIGN_OR_RETURN(options_->before_timeout, ParseTime("--before-timeout", before_timeout_,
                                                         std::chrono::seconds(1), std::chrono::hours(24)));
  }
  std::vector<std::string> names;
  for (const std::string& text : dirs_) {
    ASSIGN_OR_RETURN(const auto named, SplitNamed("--dir", text));
    if (std::find(names.begin(), names.end(), named.first) != names.end()) {
      return Status(Code::kInvalidArgument, "--dir: \"" + named.first + "\" is given twice; use two names");
    }
    names.push_back(named.first);
    options_->contenders.push_back({named.first, named.second, ""});
  }
  if (names.size() < 2 || names.size() > kMaxContenders) {
    return Status(Code::kInvalidArgument,
                  "--dir: " + std::to_string(names.size()) +
                      " given; from 2 to 16 can be compared, e.g. --dir raw=/lustre/data "
                      "--dir cached=/mnt/cache/data");
  }
  for (const std::string& text : before_) {
    ASSIGN_OR_RETURN(const auto named, SplitNamed("--before", text));
    const auto at = std::find(names.begin(), names.end(), named.first);
    if (at == names.end()) {
      return Status(Code::kInvalidArgument, "--before: " + NotOneOf("name", named.first, names));
    }
    std::string& before = options_->contenders[static_cast<size_t>(at - names.begin())].before;
    if (!before.empty()) {
      return Status(Code::kInvalidArgument,
                    "--before: two commands for \"" + named.first + "\"; join them with && in one");
    }
    before = named.second;
  }
  return Status::Ok();
}

int CompareVerb::Run(const CancelToken& cancel) {
  const Result<std::vector<TrainingPlan>> plans = PlanComparison(*options_);
  if (!plans.ok()) return Fail(plans.status().message(), kExitUsage);
  if (const Status usable = CheckOutputs(*options_, json_); !usable.ok()) {
    return Fail(usable.message(), kExitUsage);
  }
  for (const std::string& line : PlanLines(plans->front())) Print(line);
  for (const std::string& warning : PlanWarnings(plans->front())) Warn(warning);
  if (options_->rounds % options_->contenders.size() != 0) {
    Print("Rounds are no multiple of the contenders: not everybody is first equally often");
  }

  const Comparison comparison = RunComparison(*options_, *plans, cancel, Print);
  int exit_status = comparison.interrupted ? kExitInterrupted : kExitPass;
  std::fputs(ComparisonText(comparison.places, comparison.turns).c_str(), stdout);
  if (comparison.interrupted) Print("Interrupted: fewer rounds than asked for");
  if (!comparison.failure.ok()) exit_status = Fail(comparison.failure.message(), kExitError);
  const bool invalid = std::any_of(comparison.turns.begin(), comparison.turns.end(),
                                   [](const TurnFigures& turn) { return turn.status == "failed"; });
  if (invalid && comparison.failure.ok()) {
    exit_status = Fail("files could not be read in some turns, which are not counted", kExitError);
  }
  if (!json_.empty()) {
    const Status written =
        WriteWhole(json_, ComparisonJson(comparison.places, comparison.turns, options_->command));
    if (!written.ok()) {
      exit_status = Fail("--json: " + written.message(), kExitError);
    } else {
      Print("written: " + json_);
    }
  }
  if (comparison.stuck) {
    std::fflush(nullptr);
    ::_exit(exit_status);  // threads wait in reads that may never return
  }
  return exit_status;
}

}  // namespace stoker::bench
