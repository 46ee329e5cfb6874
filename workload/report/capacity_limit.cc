#include "workload/report/capacity_limit.h"

#include "workload/base/console.h"

namespace stoker::bench {
namespace {

constexpr double kMost = 0.5;  // share of the loss that makes its cause the limit

std::string Percent(double share) {
  return Text("%.1f", 100 * share) + " %";
}

bool MostlyOverhead(const StepShares& shares) {
  return shares.overhead > kMost * shares.lost();
}

LimitVerdict WithoutReading(const LimitEvidence& evidence) {
  const StepShares& null = *evidence.null_shares;
  const std::string au = "without any reading " + std::to_string(evidence.accelerators) +
                         " accelerators reach AU " + Percent(null.compute) + " only";
  if (MostlyOverhead(null)) {
    return {CapacityLimit::kBarrier, au + ": the barrier takes " + Percent(null.overhead) + " of the time"};
  }
  return {CapacityLimit::kClientCpu, au + ": this client cannot drive so many"};
}

LimitVerdict BusyClient(const LimitEvidence& evidence) {
  const CpuUse& cpu = evidence.cpu;
  return {CapacityLimit::kClientCpu, "the generator used " + Percent(cpu.process) +
                                         " of its cores and the machine was " + Percent(cpu.machine) +
                                         " busy"};
}

LimitVerdict SlowStorage(const LimitEvidence& evidence) {
  const StepShares& shares = evidence.shares;
  std::string reason = "accelerators waited " + Percent(shares.load_wait) +
                       " of the time for batches while " + Percent(1 - evidence.cpu.machine) +
                       " of the CPU was idle";
  if (shares.barrier_wait > shares.load_wait) {
    reason += ", and " + Percent(shares.barrier_wait) +
              " for the one whose batch came last: the storage serves them unevenly";
  }
  return {CapacityLimit::kStorage, std::move(reason)};
}

}  // namespace

std::string_view Name(CapacityLimit limit) {
  switch (limit) {
    case CapacityLimit::kStorage:
      return "storage";
    case CapacityLimit::kClientCpu:
      return "client CPU";
    case CapacityLimit::kBarrier:
      return "barrier";
    case CapacityLimit::kNone:
      break;
  }
  return "none";
}

LimitVerdict LimitOf(const LimitEvidence& evidence) {
  const std::optional<StepShares>& null = evidence.null_shares;
  if (null && null->steps > 0 && 100 * null->compute < evidence.threshold_percent) {
    return WithoutReading(evidence);
  }
  if (evidence.cpu.client_limits()) return BusyClient(evidence);
  if (MostlyOverhead(evidence.shares)) {
    return {CapacityLimit::kBarrier, "the barrier takes " + Percent(evidence.shares.overhead) +
                                         " of the time, batches " + Percent(evidence.shares.load_wait)};
  }
  return SlowStorage(evidence);
}

}  // namespace stoker::bench
