#include "workload/cli.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <optional>

#include "cache/base/spelling.h"
#include "cache/base/units.h"
#include "workload/datagen.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kDatasetSeed = 10;  // fixed in the public generator
constexpr uint64_t kOrderSeed = 123;   // the public reader's default

constexpr char kExitText[] =
    "Exit status: 0 done (run: AU at or above the threshold); 1 failed while working; 2 wrong flag, profile, "
    "dataset or results folder, nothing was done; 3 AU under the threshold; 4 interrupted (run: partial "
    "results "
    "were written).";

/// Flags as text; numbers are read by us, so that the message can say what is allowed.
struct Flags {
  std::string mlperf = "v3.0";
  std::string workload = "unet3d";
  std::string accelerator;
  std::string accelerators;
  std::string host_memory;
  std::string client_hosts;
  std::string data_dir;
  std::string results_dir;
  std::string profiles_dir;
  std::string writers;
  std::string seed;
  std::string datasize_formula;
  std::string file_layout;
  std::string order;
  std::string read_shape;
  std::string metric;
  std::string results_layout;
  std::string cache_control;
  std::string read_piece;
  std::string step_timeout;
  std::string org;
  std::string system;
  bool null_storage = false;
  std::vector<std::string> params;
};

Result<uint64_t> Count(const char* flag, const std::string& text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return Status(Code::kInvalidArgument, std::string(flag) + ": \"" + text +
                                              "\" is not a whole number from " + std::to_string(min) +
                                              " to " + std::to_string(max));
  }
  return value;
}

/// Larger figures are slips, and would leave the range of the counts that are made from them.
constexpr double kMaxMemoryGb = 1e6;

Result<double> MemoryGb(const char* flag, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0 ||
      value > kMaxMemoryGb) {
    return Status(Code::kInvalidArgument,
                  std::string(flag) + ": \"" + text + "\" is not a number above 0 up to 1000000");
  }
  return value;
}

void AddCommon(CLI::App& app, Flags& flags) {
  app.add_option(
         "--mlperf", flags.mlperf,
         "Round of the public benchmark: v0.5, v1.0, v2.0, v3.0. Chooses dataset formula, file names, access "
         "order, read calls, metric and results layout together")
      ->capture_default_str();
  app.add_option("--workload", flags.workload, "Name of a profile")->capture_default_str();
  app.add_option("--accelerator,--accelerator-type", flags.accelerator,
                 "v100, a100, h100, b200, as the round allows (default: the round's own)");
  app.add_option("--param", flags.params,
                 "key=value: override a key of the profile, e.g. dataset.num_files_train=1600; repeatable")
      ->allow_extra_args(false);
  app.add_option("--profiles-dir", flags.profiles_dir, "Folder of WORKLOAD.yaml files, looked at first");
}

void AddAccelerators(CLI::App& app, Flags& flags) {
  app.add_option("--num-accelerators", flags.accelerators, "Simulated accelerators (default 1)");
}

void AddData(CLI::App& app, Flags& flags) {
  app.add_option("--data-dir", flags.data_dir,
                 "Folder of the dataset: v0.5 and v1.0 put train/ into it, later rounds WORKLOAD/train/");
  app.add_option("--file-layout", flags.file_layout, "File names and folders of this round instead");
  app.add_option("--results-dir", flags.results_dir, "Folder that receives the results of a run");
}

std::vector<std::string> LongFlags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Status UnknownArgument(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  if (name.empty() || name.front() != '-') {
    return Status(Code::kInvalidArgument, "unexpected argument \"" + argument + "\"");
  }
  const std::string near = NearestSpelling(name, LongFlags(app));
  return Status(Code::kInvalidArgument, app.get_name() + ": unknown flag " + name +
                                            (near.empty() ? "; see stoker-bench " + app.get_name() + " --help"
                                                          : "; did you mean " + near + "?"));
}

/// Applies an edition-valued flag to one field of the rules.
Status OverrideEdition(const char* flag, const std::string& text, Edition Rules::*field, Command& command) {
  if (text.empty()) return Status::Ok();
  ASSIGN_OR_RETURN(command.rules.*field, ParseEdition(flag, text));
  command.rule_overrides.emplace_back(flag);
  return Status::Ok();
}

Status Fill(const Flags& flags, Command& command) {
  ASSIGN_OR_RETURN(const Edition edition, ParseEdition("--mlperf", flags.mlperf));
  command.rules = RulesOf(edition);
  ASSIGN_OR_RETURN(command.profile,
                   LoadProfile(ProfileDirs(flags.profiles_dir), flags.workload, edition, flags.accelerator));
  for (const std::string& param : flags.params) RETURN_IF_ERROR(ApplyParam(command.profile, param));
  if (command.profile.odirect) command.rules.read_shape = ReadShape::kODirect;

  RETURN_IF_ERROR(OverrideEdition("--datasize-formula", flags.datasize_formula, &Rules::datasize, command));
  RETURN_IF_ERROR(OverrideEdition("--file-layout", flags.file_layout, &Rules::file_layout, command));
  RETURN_IF_ERROR(OverrideEdition("--metric", flags.metric, &Rules::metric, command));
  if (!flags.order.empty()) {
    ASSIGN_OR_RETURN(command.rules.order, ParseAccessOrder("--order", flags.order));
    command.rule_overrides.emplace_back("--order");
  }
  if (!flags.read_shape.empty()) {
    ASSIGN_OR_RETURN(command.rules.read_shape, ParseReadShape("--read-shape", flags.read_shape));
    command.rule_overrides.emplace_back("--read-shape");
  }
  if (!flags.results_layout.empty()) {
    ASSIGN_OR_RETURN(command.rules.results_layout,
                     ParseResultsLayout("--results-layout", flags.results_layout));
  }
  if (!flags.cache_control.empty()) {
    ASSIGN_OR_RETURN(command.rules.cache_control, ParseCacheControl("--cache-control", flags.cache_control));
    command.rule_overrides.emplace_back("--cache-control");
  }
  if (!flags.accelerators.empty()) {
    ASSIGN_OR_RETURN(command.accelerators, Count("--num-accelerators", flags.accelerators, 1, 100'000));
  }
  if (!flags.client_hosts.empty()) {
    ASSIGN_OR_RETURN(command.client_hosts, Count("--num-client-hosts", flags.client_hosts, 1, 100'000));
  }
  if (!flags.host_memory.empty()) {
    ASSIGN_OR_RETURN(command.host_memory_gb, MemoryGb("--host-memory-in-gb", flags.host_memory));
  }
  command.writers = DefaultWriters();
  if (!flags.writers.empty()) {
    ASSIGN_OR_RETURN(command.writers, Count("--num-parallel", flags.writers, 1, 1024));
  }
  command.seed = command.verb == Verb::kDatagen ? kDatasetSeed : kOrderSeed;
  if (!flags.seed.empty()) {
    ASSIGN_OR_RETURN(command.seed, Count("--seed", flags.seed, 0, UINT64_MAX));
  }
  if (!flags.read_piece.empty()) {
    const Result<uint64_t> piece = ParseBytes(flags.read_piece);
    if (!piece.ok()) return Status(piece.status().code(), "--read-piece: " + piece.status().message());
    if (*piece < kPageBytes || *piece > kGiB || *piece % kPageBytes != 0) {
      return Status(Code::kInvalidArgument,
                    "--read-piece: \"" + flags.read_piece + "\" is not a multiple of 4KiB from 4KiB to 1GiB");
    }
    command.read_piece_bytes = *piece;
  }
  if (!flags.step_timeout.empty()) {
    const Result<Nanos> timeout = ParseDuration(flags.step_timeout);
    if (!timeout.ok())
      return Status(timeout.status().code(), "--step-timeout: " + timeout.status().message());
    if (*timeout < std::chrono::seconds(1) || *timeout > std::chrono::hours(24)) {
      return Status(Code::kInvalidArgument,
                    "--step-timeout: \"" + flags.step_timeout + "\" is not from 1s to 24h");
    }
    command.step_timeout = *timeout;
  }
  command.null_storage = flags.null_storage;
  command.data_dir = flags.data_dir;
  command.results_dir = flags.results_dir;
  command.org = flags.org;
  command.system = flags.system;
  const bool needs_data =
      command.verb == Verb::kDatagen || (command.verb == Verb::kRun && !command.null_storage);
  if (needs_data && command.data_dir.empty() && command.profile.data_folder.empty()) {
    return Status(Code::kInvalidArgument, "--data-dir is missing: the folder of the dataset");
  }
  if (command.verb == Verb::kRun && command.results_dir.empty()) {
    return Status(Code::kInvalidArgument, "--results-dir is missing: the folder that receives summary.json");
  }
  if (command.verb == Verb::kDatasize && command.host_memory_gb == 0) {
    return Status(Code::kInvalidArgument,
                  "--host-memory-in-gb is missing: the dataset must be larger than the memory of the hosts");
  }
  for (const std::string* part : {&command.org, &command.system}) {
    if (part->find('/') != std::string::npos || *part == "." || *part == "..") {
      return Status(Code::kInvalidArgument, "--org, --system: \"" + *part + "\" is not the name of a folder");
    }
  }
  return Status::Ok();
}

}  // namespace

Result<Command> ParseCommandLine(int argc, const char* const* argv) {
  Flags flags;
  Command command;
  CLI::App app("Workload generator: what a training job would ask of its storage, and how well it was fed.",
               "stoker-bench");
  app.footer(kExitText);
  app.set_version_flag("--version", "stoker-bench " STOKER_VERSION);
  app.require_subcommand(0, 1);
  app.allow_extras();
  CLI::App* datasize = app.add_subcommand("datasize", "How many files a valid run needs");
  CLI::App* datagen = app.add_subcommand("datagen", "Make the dataset; goes on where an earlier call ended");
  CLI::App* run = app.add_subcommand("run", "Train on the dataset with simulated accelerators; measure AU");
  for (CLI::App* verb : {datasize, datagen, run}) {
    AddCommon(*verb, flags);
    verb->allow_extras();
    verb->footer(kExitText);
  }
  AddAccelerators(*datasize, flags);
  AddAccelerators(*run, flags);
  datasize->add_option("--host-memory-in-gb,--client-host-memory-in-gb", flags.host_memory,
                       "Memory of one client host, GB (units of 1024^3 bytes)");
  datasize->add_option("--num-client-hosts", flags.client_hosts,
                       "Client hosts (default 1; v0.5 sizes one host)");
  datasize->add_option("--datasize-formula", flags.datasize_formula, "Formula of this round instead");
  AddData(*datagen, flags);
  datagen->add_option("--num-parallel", flags.writers,
                      "Files written at a time (default: one per CPU, 2 to 8). Changes nothing in the files");
  datagen->add_option("--seed", flags.seed, "Seed of sizes and bytes (default 10)");
  AddData(*run, flags);
  run->add_option(
      "--order", flags.order,
      "v1: one global order, reshuffled every epoch; v2: the same order each epoch; v3: samples also move "
      "between accelerators each epoch");
  run->add_option(
      "--read-shape", flags.read_shape,
      "npz: the calls of numpy.load; whole: front to back; odirect: the same past the page cache");
  run->add_option("--read-piece", flags.read_piece,
                  "Bytes per read call of whole and odirect (default 1MiB and 8MiB)");
  run->add_option("--metric", flags.metric, "Formulas of this round instead");
  run->add_option(
      "--results-layout", flags.results_layout,
      "flat: summary.json in --results-dir itself (v0.5, v1.0); v2.0, v3.0: that round's folders");
  run->add_option("--cache-control", flags.cache_control,
                  "none, or fadvise: give back a file's pages once it was read (default: fadvise for v3.0)");
  run->add_option("--seed", flags.seed, "Seed of the access order (default 123)");
  run->add_flag("--null", flags.null_storage, "Read nothing: shows what the generator itself costs");
  run->add_option("--step-timeout", flags.step_timeout,
                  "Longest wait for a batch or for a slow accelerator (default 10m)");
  run->add_option("--org", flags.org, "Organisation in the v3.0 results path (default: local)");
  run->add_option("--system", flags.system, "System name in the v3.0 results path (default: host name)");

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    command.text = app.help();
    return command;
  } catch (const CLI::CallForVersion&) {
    command.text = "stoker-bench " STOKER_VERSION "\n";
    return command;
  } catch (const CLI::ParseError& error) {
    return Status(Code::kInvalidArgument, error.what());
  }
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) {
    const std::vector<std::string> rest = app.remaining();
    if (!rest.empty()) {
      return Status(Code::kInvalidArgument,
                    NotOneOf("command", rest.front(), {"datasize", "datagen", "run"}));
    }
    command.text = app.help();
    return command;
  }
  for (const CLI::App* where :
       {static_cast<const CLI::App*>(&app), static_cast<const CLI::App*>(chosen[0])}) {
    const std::vector<std::string> rest = where->remaining();
    if (!rest.empty()) return UnknownArgument(*chosen[0], rest.front());
  }
  command.verb = chosen[0] == datasize ? Verb::kDatasize : chosen[0] == datagen ? Verb::kDatagen : Verb::kRun;
  RETURN_IF_ERROR(Fill(flags, command));
  return command;
}

}  // namespace stoker::bench
