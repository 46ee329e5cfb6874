#pragma once

#include <memory>
#include <string>
#include <vector>

#include "workload/cli/training_flags.h"
#include "workload/cli/verb.h"

namespace stoker::bench {

struct CompareOptions;

/// The same workload on several directories, turn by turn, in one table.
class CompareVerb final : public Verb {
 public:
  CompareVerb();
  ~CompareVerb() override;
  std::string name() const override { return "compare"; }
  std::string summary() const override {
    return "The same workload on several directories, in turns; one table (raw, cold, warm, …)";
  }
  void AddFlags(CLI::App& app) override;
  Status Check() override;
  int Run(const CancelToken& cancel) override;
  const CompareOptions& options() const { return *options_; }

 private:
  TrainingFlags flags_;
  std::vector<std::string> dirs_;
  std::vector<std::string> before_;
  std::string rounds_ = "3";
  std::string before_timeout_;
  std::string results_dir_;
  std::string json_;
  std::unique_ptr<CompareOptions> options_;  // after Check()
};

}  // namespace stoker::bench
