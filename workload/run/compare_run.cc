#include "workload/run/compare_run.h"

#include <memory>

#include "cache/base/units.h"
#include "workload/base/child_output.h"
#include "workload/base/console.h"

namespace stoker::bench {
namespace {

/// The shell gets the hook as an argument and the values as its environment: nothing is spliced into it.
Status RunHook(const CompareOptions& options, const Contender& contender, uint64_t round,
               const CancelToken& cancel) {
  if (contender.before.empty()) return Status::Ok();
  const std::string what = "--before " + contender.name + "=" + contender.before;
  const Result<ChildOutput> done =
      RunChild({"/usr/bin/env", "STOKER_BENCH_NAME=" + contender.name, "STOKER_BENCH_DIR=" + contender.dir,
                "STOKER_BENCH_ROUND=" + std::to_string(round + 1), "/bin/sh", "-c", contender.before},
               options.before_timeout, cancel);
  if (!done.ok()) return {done.status().code(), what + ": " + done.status().message()};
  if (done->exit_status == 0) return Status::Ok();
  const std::string said = done->err.empty() ? done->out : done->err;
  return {Code::kInternal, what + ": left with status " + std::to_string(done->exit_status) +
                               (said.empty() ? "" : ": " + said.substr(0, said.find('\n')))};
}

Status KeepRun(const CompareOptions& options, const Contender& contender, uint64_t round,
               const RunRecord& record) {
  if (options.command.results_dir.empty()) return Status::Ok();
  ASSIGN_OR_RETURN(const std::unique_ptr<ResultsDir> dir,
                   ResultsDir::Reserve(RoundFolder(options, contender, round)));
  return WriteResults(*dir, record).status();
}

std::string TurnLine(const Contender& contender, uint64_t round, uint64_t rounds, const TurnFigures& turn) {
  return "round " + std::to_string(round + 1) + " of " + std::to_string(rounds) + ", " + contender.name +
         ": AU " + Text("%.2f", turn.au_percent) + " %, " + Text("%.1f", turn.nominal_mib_per_s) +
         " MiB/s nominal, " + Text("%.1f", turn.true_mib_per_s) + " MiB/s true, read call p50 " +
         Text("%.0f", turn.call_p50_us) + " us, p99 " + Text("%.0f", turn.call_p99_us) + " us" +
         (turn.valid ? "" : " (" + turn.status + ")");
}

}  // namespace

std::string RoundFolder(const CompareOptions& options, const Contender& contender, uint64_t round) {
  return options.command.results_dir + "/" + contender.name + "/round-" + std::to_string(round + 1);
}

std::vector<size_t> TurnOrder(size_t contenders, uint64_t round) {
  std::vector<size_t> out;
  for (size_t i = 0; i < contenders; ++i) out.push_back((i + round) % contenders);
  return out;
}

Result<std::vector<TrainingPlan>> PlanComparison(const CompareOptions& options) {
  std::vector<TrainingPlan> plans;
  for (const Contender& contender : options.contenders) {
    Command command = options.command;
    command.data_dir = contender.dir;
    Result<TrainingPlan> plan = PlanTraining(command);
    if (!plan.ok()) return Status(plan.status().code(), contender.name + ": " + plan.status().message());
    plans.push_back(std::move(*plan));
  }
  return plans;
}

Comparison RunComparison(const CompareOptions& options, const std::vector<TrainingPlan>& plans,
                         const CancelToken& cancel, const std::function<void(const std::string&)>& say) {
  Comparison out;
  for (size_t c = 0; c < plans.size(); ++c) {
    const std::optional<MountInfo>& mount = plans[c].record.cache.mount;
    out.places.push_back({options.contenders[c].name, options.contenders[c].dir,
                          mount ? mount->mountpoint : "", mount ? mount->fstype : ""});
  }
  for (uint64_t round = 0; round < options.rounds; ++round) {
    uint64_t position = 0;
    for (const size_t c : TurnOrder(plans.size(), round)) {
      if (cancel.cancelled()) {
        out.interrupted = true;
        return out;
      }
      const Contender& contender = options.contenders[c];
      out.failure = RunHook(options, contender, round, cancel);
      if (out.failure.code() == Code::kCancelled) {
        out.failure = Status::Ok();
        out.interrupted = true;
      }
      if (out.interrupted) return out;
      if (!out.failure.ok()) return out;
      const RunRecord record = RunOnce(plans[c], cancel);
      out.turns.push_back(TurnOf(record, c, round, position++));
      out.failure = KeepRun(options, contender, round, record);
      if (say) say(TurnLine(contender, round, options.rounds, out.turns.back()));
      out.interrupted = out.interrupted || record.log.interrupted;
      out.stuck = record.log.stuck;
      if (!out.failure.ok() || out.interrupted || out.stuck) return out;
      if (!record.log.failure.ok()) {
        out.failure = Status(record.log.failure.code(), contender.name + ": " + record.log.failure.message());
        return out;
      }
    }
  }
  return out;
}

}  // namespace stoker::bench
