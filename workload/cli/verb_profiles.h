#pragma once

#include <string>
#include <vector>

#include "workload/base/profile.h"
#include "workload/cli/verb.h"

namespace stoker::bench {

/// Lists every workload on every accelerator of every round with what it asks of the storage, or shows one
/// effective profile.
class ProfilesVerb final : public Verb {
 public:
  std::string name() const override { return "profiles"; }
  std::string summary() const override { return "List the workloads and their demand, or show one"; }
  void AddFlags(CLI::App& app) override;
  Status Check() override;
  int Run(const CancelToken& cancel) override;
  const std::vector<Profile>& profiles() const { return profiles_; }

 private:
  std::string one_;
  std::string mlperf_;
  std::string accelerator_;
  std::string profiles_dir_;
  std::vector<std::string> params_;
  bool json_ = false;
  std::vector<Profile> profiles_;  // those to show
};

}  // namespace stoker::bench
