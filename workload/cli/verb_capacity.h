#pragma once

#include <string>
#include <vector>

#include "workload/cli/training_flags.h"
#include "workload/cli/verb.h"
#include "workload/run/capacity_run.h"

namespace stoker::bench {

/// How many accelerators does this storage feed? For a list of workloads: a search, a table, capacity.json.
class CapacityVerb final : public Verb {
 public:
  std::string name() const override { return "capacity"; }
  std::string summary() const override {
    return "Search the largest number of accelerators that the storage feeds";
  }
  void AddFlags(CLI::App& app) override;
  Status Check() override;
  int Run(const CancelToken& cancel) override;
  const std::vector<CapacityRequest>& requests() const { return requests_; }

 private:
  TrainingFlags flags_;
  std::string results_dir_;
  std::string max_;
  std::string repeats_;
  std::string confidence_;
  std::string steps_;
  std::string time_limit_;
  std::vector<CapacityRequest> requests_;  // one per workload, in the order given
};

}  // namespace stoker::bench
