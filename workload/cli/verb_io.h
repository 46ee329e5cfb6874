#pragma once

#include <string>
#include <vector>

#include "workload/cli/io_flags.h"
#include "workload/cli/verb.h"
#include "workload/io/io_test.h"
#include "workload/io/team.h"

namespace stoker::bench {

/// Bandwidth of a folder, asked and reported as IOR does.
class IoVerb final : public Verb {
 public:
  std::string name() const override { return "io"; }
  std::string summary() const override {
    return "Bandwidth test with IOR's options and tables, e.g. -F -w -r -t 1m -b 1g -N 8 -o DIR/FILE";
  }
  void AddFlags(CLI::App&) override {}  // see takes_words
  bool takes_words() const override { return true; }
  Result<std::string> TakeWords(const std::vector<std::string>& words) override;
  Status Check() override { return Status::Ok(); }
  bool spans_processes() const override { return true; }
  int Run(const CancelToken& cancel) override;

 private:
  int RunWith(Team& team, const CancelToken& cancel);
  int Report(const Team& team, const IoOutcome& outcome, const IoNotes& notes) const;

  IoCommand command_;
  std::string command_line_;
};

}  // namespace stoker::bench
