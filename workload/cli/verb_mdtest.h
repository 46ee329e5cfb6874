#pragma once

#include <string>
#include <vector>

#include "workload/cli/verb.h"
#include "workload/comm/launcher.h"
#include "workload/io/mdtest.h"
#include "workload/io/mdtest_options.h"
#include "workload/io/team.h"

namespace stoker::bench {

/// What `stoker-bench mdtest` was asked.
struct MdtestCommand {
  MdtestOptions options;
  uint64_t tasks = 0;  // --tasks, of all processes; 0: one in each process that a launcher started
  MpiChoice mpi = MpiChoice::kAuto;
  bool help = false;
};

/// Reads a command line in mdtest's spelling and checks it. kInvalidArgument names option, value and what is
/// allowed.
Result<MdtestCommand> ParseMdtestArguments(const std::vector<std::string>& arguments);

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
  bool spans_processes() const override { return true; }
  int Run(const CancelToken& cancel) override;

 private:
  int RunWith(Team& team, const CancelToken& cancel);
  int Report(const Team& team, const MdOutcome& outcome) const;

  MdtestCommand command_;
  std::string command_line_;
};

}  // namespace stoker::bench
