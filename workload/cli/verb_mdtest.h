#pragma once

#include <string>
#include <vector>

#include "workload/cli/verb.h"
#include "workload/io/mdtest_options.h"

namespace stoker::bench {

/// Reads a command line in mdtest's spelling and checks it. kInvalidArgument names option, value and what is
/// allowed. `help` is set instead when help is asked for.
Result<MdtestOptions> ParseMdtestArguments(const std::vector<std::string>& arguments, bool& help);

/// Metadata rates of a folder, asked and reported as mdtest does.
class MdtestVerb final : public Verb {
 public:
  std::string name() const override { return "mdtest"; }
  std::string summary() const override {
    return "Metadata test with mdtest's options and tables, e.g. -n 1000 -d DIR --tasks 4";
  }
  void AddFlags(CLI::App&) override {}  // see takes_words
  bool takes_words() const override { return true; }
  Result<std::string> TakeWords(const std::vector<std::string>& words) override;
  Status Check() override { return Status::Ok(); }
  int Run(const CancelToken& cancel) override;

 private:
  MdtestOptions options_;
  std::string command_line_;
};

}  // namespace stoker::bench
