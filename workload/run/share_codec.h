#pragma once

#include <string>
#include <string_view>

#include "cache/base/result.h"
#include "workload/report/results.h"

namespace stoker::bench {

/// What a process sends to the leader of its run: its part of the record, without what the leader has itself
/// (command, metric, plan) or works out from all parts (figures).
std::string EncodeShare(const RunRecord& mine);
/// kCorruption: not such bytes.
Result<RunRecord> DecodeShare(std::string_view bytes);

}  // namespace stoker::bench
