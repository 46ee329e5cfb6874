#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/result.h"
#include "workload/comm/communicator.h"
#include "workload/io/crew.h"

namespace stoker::bench {

/// All tasks of a test: threads of this process, and of others when MPI started several. Tasks are numbered
/// over all processes, those of one process in a row. What is called *collective* every process calls, in the
/// same order. One thread.
class Team {
 public:
  /// One process alone.
  explicit Team(uint64_t tasks);
  /// Collective. `tasks`: of all processes; 0: one in each. `command`: must be the same everywhere.
  /// kInvalidArgument: it is not, or the tasks do not divide evenly. kUnavailable, kDeadlineExceeded: a
  /// process is not to be reached.
  static Result<std::unique_ptr<Team>> Join(std::unique_ptr<Communicator> others, uint64_t tasks,
                                            const std::string& command);

  uint64_t tasks() const { return tasks_here_ * others_->size(); }
  uint64_t first() const { return tasks_here_ * others_->rank(); }
  uint64_t tasks_here() const { return tasks_here_; }
  uint64_t processes() const { return others_->size(); }
  /// The process that speaks and does what is to be done once.
  bool leads() const { return others_->rank() == 0; }
  uint64_t hosts() const { return hosts_; }
  /// Tasks on the leader's host.
  uint64_t tasks_per_host() const { return tasks_per_host_; }
  /// Whether a host's tasks are numbered in a row (else they go round the hosts).
  bool hosts_in_rows() const { return hosts_in_rows_; }

  /// Collective. Runs work(task, meeting) for each task of this process on a thread of its own, together with
  /// the other processes'. All tasks of all processes must meet equally often. `stop` is called when another
  /// process ended the test; the work should then soon return.
  Status Run(const std::function<void(uint64_t task, Rendezvous& meeting)>& work,
             const std::function<void()>& stop);
  /// Tells the other processes that the test is to end.
  void Stop(const Status& why) { others_->Stop(why); }

  /// Collective: everybody's text everywhere, in the order of the processes.
  Result<std::vector<std::string>> Share(const std::string& text);
  /// Collective: the first process's trouble, with its name; Ok when nobody has any.
  Status Agree(const Status& mine);
  /// Collective: the leader's number everywhere.
  Result<uint64_t> FromLeader(uint64_t number);
  /// A stamp of SteadyNow() here as seconds on the leader's clock.
  double Seconds(Nanos stamp) const;

  /// Collective: leaves in good order, or ends all processes with `exit_status`.
  void Finish(int exit_status);

 private:
  Team(std::unique_ptr<Communicator> others, uint64_t tasks_here);
  Status Meet(const std::string& command);

  std::unique_ptr<Communicator> others_;
  uint64_t tasks_here_;
  uint64_t hosts_ = 1;
  uint64_t tasks_per_host_;
  bool hosts_in_rows_ = true;
  double clock_ahead_s_ = 0;  // this process's steady clock less the leader's
};

}  // namespace stoker::bench
