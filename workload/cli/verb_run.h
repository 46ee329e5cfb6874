#pragma once

#include <string>

#include "workload/cli/mpi_flag.h"
#include "workload/cli/training_flags.h"
#include "workload/cli/verb.h"

namespace stoker::bench {

/// One training run: the plan, the epochs, the figures, the results on disk.
class RunVerb final : public Verb {
 public:
  std::string name() const override { return "run"; }
  std::string summary() const override {
    return "Train on the dataset with simulated accelerators; measure AU";
  }
  void AddFlags(CLI::App& app) override;
  Status Check() override;
  bool spans_processes() const override { return true; }
  int Run(const CancelToken& cancel) override;
  const Command& command() const { return command_; }

 private:
  TrainingFlags flags_;
  std::string probe_ = "off";
  bool self_test_ = false;
  MpiFlag mpi_flag_;
  MpiChoice mpi_ = MpiChoice::kAuto;
  Command command_;
};

}  // namespace stoker::bench
