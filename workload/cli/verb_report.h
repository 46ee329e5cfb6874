#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workload/base/rules.h"
#include "workload/cli/verb.h"

namespace stoker::bench {

/// Adds up the runs below some folders as each round's own report does, checks them against the rules, and
/// writes what the round calls for, or a page for people.
class ReportVerb final : public Verb {
 public:
  std::string name() const override { return "report"; }
  std::string summary() const override {
    return "Add up runs, check them against the rules, write the round's report or a page (--html)";
  }
  void AddFlags(CLI::App& app) override;
  Status Check() override;
  int Run(const CancelToken& cancel) override;

 private:
  std::vector<std::string> folders_;
  std::string mlperf_;
  std::string output_dir_;
  std::string json_;
  std::string html_;
  std::string title_;
  std::string profiles_dir_;
  std::optional<Edition> edition_;
};

}  // namespace stoker::bench
