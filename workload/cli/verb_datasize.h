#pragma once

#include <string>

#include "workload/cli/training_flags.h"
#include "workload/cli/verb.h"

namespace stoker::bench {

/// How many files a valid run needs.
class DatasizeVerb final : public Verb {
 public:
  std::string name() const override { return "datasize"; }
  std::string summary() const override { return "How many files a valid run needs"; }
  void AddFlags(CLI::App& app) override;
  Status Check() override;
  int Run(const CancelToken& cancel) override;
  const Command& command() const { return command_; }

 private:
  TrainingFlags flags_;
  std::string probe_;  // folder; "": no probe
  Command command_;
};

}  // namespace stoker::bench
