#pragma once

#include <string>

#include "workload/cli/mpi_flag.h"
#include "workload/cli/training_flags.h"
#include "workload/cli/verb.h"

namespace stoker::bench {

/// Makes the dataset.
class DatagenVerb final : public Verb {
 public:
  std::string name() const override { return "datagen"; }
  std::string summary() const override { return "Make the dataset; goes on where an earlier call ended"; }
  void AddFlags(CLI::App& app) override;
  Status Check() override;
  bool spans_processes() const override { return true; }
  int Run(const CancelToken& cancel) override;
  const Command& command() const { return command_; }

 private:
  TrainingFlags flags_;
  MpiFlag mpi_flag_;
  MpiChoice mpi_ = MpiChoice::kAuto;
  Command command_;
};

}  // namespace stoker::bench
