#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "workload/base/command.h"
#include "workload/comm/communicator.h"
#include "workload/report/results.h"
#include "workload/run/process_report.h"
#include "workload/run/training_run.h"

namespace stoker::bench {

/// The processes of one command, and this process's place among them. From v1.0 on they make one run with one
/// result, written by process 0. Under v0.5 every host is a run of its own, written by the first of its
/// processes; all begin together. A process alone is a team as well: then everything here is trivial.
///
/// Calls are collective, in this order: Assemble, Ready, (the run), Collect, End. One thread.
class TrainingTeam {
 public:
  explicit TrainingTeam(std::unique_ptr<Communicator> world);

  /// Learns who is there and compares versions and parameters. kInvalidArgument: the processes do not fit
  /// together; the message (a sentence a line) is for process 0, and "" elsewhere. After success
  /// `command.accelerators` are those of this process's run. kUnavailable, kDeadlineExceeded: some do not
  /// answer; End() will end them.
  /// `training` false: the processes share other work on the same dataset, whatever the number of each host.
  Status Assemble(Command& command, bool training = true);
  /// After each process has looked at its dataset and results folder: `problem` is what it found wrong.
  /// Errors as Assemble()'s. Sets `warnings` at process 0.
  Status Ready(const Status& problem, const TrainingPlan* plan, std::vector<std::string>& warnings);

  bool alone() const { return world_->size() == 1; }
  uint64_t size() const { return world_->size(); }
  /// Speaks for all: process 0.
  bool speaks() const { return world_->rank() == 0; }
  /// Writes the result of its run.
  bool leads() const { return run().rank() == 0; }
  /// Several hosts, each a run of its own.
  bool independent() const { return independent_; }
  /// The folder of this process's run when hosts are independent: results-dir/run-N/host-K.
  const std::string& independent_folder() const { return independent_folder_; }
  /// "process 2 on host b (ranks 4-5)".
  std::string name() const { return world_->NameOf(world_->rank()); }
  /// "4 processes on 2 hosts, 2 accelerators each (MPICH 4.0.2); …": for the plan.
  std::string Describe() const;
  Communicator& all() { return *world_; }
  /// Fills in which ranks of the plan are this process's.
  void Share(TrainingPlan& plan);

  /// The record of the whole run at its leader, from everybody's; elsewhere `mine` again.
  Result<RunRecord> Collect(RunRecord mine);

  /// What came of one host's run, for the table of independent hosts.
  struct Outcome {
    std::string host;
    int exit_status = 0;
    double au_percent = 0;
    double samples_per_s = 0;
    double mib_per_s = 0;
    std::string folder;
  };
  /// Ends the team: everybody's exit status, the worst of all runs'. `outcomes`, at process 0 of independent
  /// hosts: one for each. Does not return when others are gone: ends them all with that status.
  int End(const Outcome& mine, std::vector<Outcome>& outcomes);

 private:
  Communicator& run() const { return part_ != nullptr ? *part_ : *world_; }
  Result<std::vector<ProcessReport>> Exchange(const ProcessReport& mine);
  Status Assembled(Command& command, const std::vector<ProcessReport>& reports, uint64_t run_number);
  Status Broken(Status why);

  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> part_;  // this host's, when hosts are independent
  Nanos patience_ = std::chrono::minutes(1);
  ProcessReport mine_;
  ProcessCrew crew_;                          // of all processes
  std::vector<Communicator::Clocks> clocks_;  // at the run's leader, of its processes
  bool independent_ = false;
  bool whole_ = true;  // nobody was missing so far
  std::string independent_folder_;
  uint64_t accelerators_ = 1;  // of this process's run
};

}  // namespace stoker::bench
