#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "workload/base/cpu_use.h"
#include "workload/report/step_shares.h"

namespace stoker::bench {

/// What kept more accelerators from being fed.
enum class CapacityLimit : uint8_t {
  kNone,       // nothing did, as far as was measured
  kStorage,    // batches came late although the client had CPU to spare
  kClientCpu,  // the client's cores were busy, or it cannot drive that many even without reading
  kBarrier,    // the steps' meeting itself takes the time
};
/// "none", "storage", "client CPU", "barrier".
std::string_view Name(CapacityLimit limit);

/// Measured with the smallest number of accelerators that was too many.
struct LimitEvidence {
  uint64_t accelerators = 0;
  double threshold_percent = 90;
  StepShares shares;
  CpuUse cpu;
  std::optional<StepShares> null_shares;  // the same without reading
};
struct LimitVerdict {
  CapacityLimit limit = CapacityLimit::kNone;
  std::string reason;  // a sentence for people; "" for kNone
};
/// In this order: AU without reading is under the threshold (barrier when most of what is lost there is lost
/// in it, else client CPU); cores at least 80 % busy (client CPU); most of the loss in the barrier; else
/// storage. Pure.
LimitVerdict LimitOf(const LimitEvidence& evidence);

}  // namespace stoker::bench
