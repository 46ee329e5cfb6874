#include "workload/cli/training_flags.h"

#include <CLI/CLI.hpp>

#include "cache/base/units.h"
#include "workload/cli/flags.h"
#include "workload/data/datagen.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kDatasetSeed = 10;  // fixed in the public generator
constexpr uint64_t kOrderSeed = 123;   // the public reader's default
constexpr double kMaxMemoryGb = 1e6;   // more is a slip, and would leave the range of the counts made from it

/// Applies an edition-valued flag to one field of the rules.
Status OverrideEdition(const char* flag, const std::string& text, Edition Rules::*field, Command& command) {
  if (text.empty()) return Status::Ok();
  ASSIGN_OR_RETURN(command.rules.*field, ParseEdition(flag, text));
  command.rule_overrides.emplace_back(flag);
  return Status::Ok();
}

}  // namespace

void TrainingFlags::AddCommon(CLI::App& app) {
  app.add_option(
         "--mlperf", mlperf_,
         "Round of the public benchmark: v0.5, v1.0, v2.0, v3.0. Chooses dataset formula, file names, access "
         "order, read calls, metric and results layout together")
      ->capture_default_str();
  app.add_option("--workload", workload_, "Name of a profile")->capture_default_str();
  app.add_option("--accelerator,--accelerator-type", accelerator_,
                 "v100, a100, h100, b200, mi355, as workload and round allow (default: the round's own)");
  app.add_option("--param", params_,
                 "key=value: override a key of the profile, e.g. dataset.num_files_train=1600; repeatable")
      ->allow_extra_args(false);
  app.add_option("--profiles-dir", profiles_dir_, "Folder of WORKLOAD.yaml files, looked at first");
}

void TrainingFlags::AddAccelerators(CLI::App& app) {
  app.add_option("--num-accelerators", accelerators_, "Simulated accelerators (default 1)");
}

void TrainingFlags::AddData(CLI::App& app) {
  app.add_option("--data-dir", data_dir_,
                 "Folder of the dataset: v0.5 and v1.0 put train/ into it, later rounds WORKLOAD/train/");
  AddLayout(app);
}

void TrainingFlags::AddLayout(CLI::App& app) {
  app.add_option("--file-layout", file_layout_, "File names and folders of this round instead");
}

void TrainingFlags::AddResults(CLI::App& app) {
  app.add_option("--results-dir", results_dir_, "Folder that receives the results of a run");
  app.add_option("--results-layout", results_layout_,
                 "flat: summary.json in --results-dir itself (v0.5, v1.0); v2.0, v3.0: that round's folders");
  app.add_option("--org", org_, "Organisation in the v3.0 results path (default: local)");
  app.add_option("--system", system_, "System name in the v3.0 results path (default: host name)");
}

void TrainingFlags::AddSizing(CLI::App& app) {
  app.add_option("--host-memory-in-gb,--client-host-memory-in-gb", host_memory_,
                 "Memory of one client host, GB (units of 1024^3 bytes)");
  app.add_option("--num-client-hosts", client_hosts_, "Client hosts (default 1; v0.5 sizes one host)");
  app.add_option("--datasize-formula", datasize_formula_, "Formula of this round instead");
}

void TrainingFlags::AddWriting(CLI::App& app) {
  writes_ = true;
  app.add_option("--num-parallel", writers_,
                 "Files written at a time (default: one per CPU, 2 to 8). Changes nothing in the files");
  app.add_option("--seed", seed_, "Seed of sizes and bytes (default 10)");
}

void TrainingFlags::AddReading(CLI::App& app) {
  app.add_option("--loop", loop_, "Input pipeline of this round instead");
  app.add_option(
      "--order", order_,
      "v1: one global order, reshuffled every epoch; v2: the same order each epoch; v3: samples also move "
      "between accelerators each epoch");
  app.add_option("--read-shape", read_shape_,
                 "npz: the calls of numpy.load; whole: front to back; odirect: the same past the page cache");
  app.add_option("--read-piece", read_piece_,
                 "Bytes per read call of whole, odirect and parquet (default 1MiB, 8MiB, 1MiB; less with "
                 "very many threads)");
  app.add_option("--metric", metric_, "Formulas of this round instead");
  app.add_option("--cache-control", cache_control_,
                 "none, or fadvise: give back a file's pages once it was read (default: fadvise for v3.0)");
  app.add_option("--seed", seed_, "Seed of the access order (default 123)");
  app.add_flag("--null", null_storage_, "Read nothing: shows what the generator itself costs");
  app.add_option("--step-timeout", step_timeout_,
                 "Longest wait for a batch or for a slow accelerator (default 10m)");
}

Result<Command> TrainingFlags::FillFor(const std::string& workload) const {
  Command command;
  ASSIGN_OR_RETURN(const Edition edition, ParseEdition("--mlperf", mlperf_));
  command.rules = RulesOf(edition);
  RETURN_IF_ERROR(CheckProfilesDir(profiles_dir_));
  ASSIGN_OR_RETURN(command.profile, LoadProfile(ProfileDirs(profiles_dir_), workload, edition, accelerator_));
  for (const std::string& param : params_) RETURN_IF_ERROR(ApplyParam(command.profile, param));
  RETURN_IF_ERROR(CheckProfile(command.profile));
  if (command.profile.odirect) command.rules.read_shape = ReadShape::kODirect;

  RETURN_IF_ERROR(OverrideEdition("--datasize-formula", datasize_formula_, &Rules::datasize, command));
  RETURN_IF_ERROR(OverrideEdition("--file-layout", file_layout_, &Rules::file_layout, command));
  RETURN_IF_ERROR(OverrideEdition("--loop", loop_, &Rules::loop, command));
  RETURN_IF_ERROR(OverrideEdition("--metric", metric_, &Rules::metric, command));
  if (!order_.empty()) {
    ASSIGN_OR_RETURN(command.rules.order, ParseAccessOrder("--order", order_));
    command.rule_overrides.emplace_back("--order");
  }
  if (!read_shape_.empty()) {
    ASSIGN_OR_RETURN(command.rules.read_shape, ParseReadShape("--read-shape", read_shape_));
    command.rule_overrides.emplace_back("--read-shape");
  }
  if (!results_layout_.empty()) {
    ASSIGN_OR_RETURN(command.rules.results_layout, ParseResultsLayout("--results-layout", results_layout_));
  }
  if (!cache_control_.empty()) {
    ASSIGN_OR_RETURN(command.rules.cache_control, ParseCacheControl("--cache-control", cache_control_));
    command.rule_overrides.emplace_back("--cache-control");
  }
  if (!accelerators_.empty()) {
    ASSIGN_OR_RETURN(command.accelerators, ParseCount("--num-accelerators", accelerators_, 1, 100'000));
  }
  if (!client_hosts_.empty()) {
    ASSIGN_OR_RETURN(command.client_hosts, ParseCount("--num-client-hosts", client_hosts_, 1, 100'000));
  }
  if (!host_memory_.empty()) {
    ASSIGN_OR_RETURN(command.host_memory_gb, ParseNumber("--host-memory-in-gb", host_memory_, kMaxMemoryGb));
  }
  command.writers = DefaultWriters();
  if (!writers_.empty()) {
    ASSIGN_OR_RETURN(command.writers, ParseCount("--num-parallel", writers_, 1, 1024));
  }
  command.seed = writes_ ? kDatasetSeed : kOrderSeed;
  if (!seed_.empty()) {
    ASSIGN_OR_RETURN(command.seed, ParseCount("--seed", seed_, 0, UINT64_MAX));
  }
  if (!read_piece_.empty()) {
    ASSIGN_OR_RETURN(command.read_piece_bytes,
                     ParseSize("--read-piece", read_piece_, kPageBytes, kGiB, kPageBytes));
  }
  if (!step_timeout_.empty()) {
    ASSIGN_OR_RETURN(command.step_timeout, ParseTime("--step-timeout", step_timeout_, std::chrono::seconds(1),
                                                     std::chrono::hours(24)));
  }
  command.null_storage = null_storage_;
  command.data_dir = data_dir_;
  command.results_dir = results_dir_;
  command.org = org_;
  command.system = system_;
  for (const std::string* part : {&command.org, &command.system}) {
    if (part->find('/') != std::string::npos || *part == "." || *part == "..") {
      return Status(Code::kInvalidArgument, "--org, --system: \"" + *part + "\" is not the name of a folder");
    }
  }
  return command;
}

Status NeedData(const Command& command) {
  if (!command.data_dir.empty() || !command.profile.data_folder.empty()) return Status::Ok();
  return Status(Code::kInvalidArgument, "--data-dir is missing: the folder of the dataset");
}

}  // namespace stoker::bench
