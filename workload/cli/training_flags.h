#pragma once

#include <string>
#include <vector>

#include "cache/base/result.h"
#include "workload/base/command.h"

namespace CLI {
class App;
}

namespace stoker::bench {

/// The flags that verbs about a training job share, in groups. Their texts are kept here until Fill().
class TrainingFlags {
 public:
  void AddCommon(CLI::App& app);        // round, workload, accelerator, --param
  void AddAccelerators(CLI::App& app);  // how many
  void AddData(CLI::App& app);          // where the dataset is, and AddLayout
  void AddLayout(CLI::App& app);        // how its files are named
  void AddResults(CLI::App& app);       // where results go, and under which names
  void AddSizing(CLI::App& app);        // memory and hosts, for datasize
  void AddWriting(CLI::App& app);       // datagen
  void AddReading(CLI::App& app);       // how a run reads
  /// Profile and rules of the round with everything that was overridden. Flags that were not added have their
  /// defaults. kInvalidArgument: names the flag, the value and what is allowed.
  Result<Command> Fill() const { return FillFor(workload_); }
  /// The same for another workload than --workload names.
  Result<Command> FillFor(const std::string& workload) const;
  /// What --workload names, as given.
  const std::string& workload() const { return workload_; }

 private:
  std::string mlperf_ = "v3.0";
  std::string workload_ = "unet3d";
  std::string accelerator_;
  std::string accelerators_;
  std::string host_memory_;
  std::string client_hosts_;
  std::string data_dir_;
  std::string results_dir_;
  std::string profiles_dir_;
  std::string writers_;
  std::string seed_;
  std::string datasize_formula_;
  std::string file_layout_;
  std::string loop_;
  std::string order_;
  std::string read_shape_;
  std::string metric_;
  std::string results_layout_;
  std::string cache_control_;
  std::string read_piece_;
  std::string step_timeout_;
  std::string org_;
  std::string system_;
  bool null_storage_ = false;
  bool writes_ = false;
  std::vector<std::string> params_;
};

/// kInvalidArgument when there is no place for a dataset to be in.
Status NeedData(const Command& command);

}  // namespace stoker::bench
