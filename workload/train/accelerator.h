#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/result.h"

namespace stoker::bench {

/// Where the ranks meet after each step, as gradients would be summed. Nobody leaves before all have come.
/// Costs one system call per rank and step. Owner: the trainer; Arrive() from one thread per rank.
/// With other processes: whoever comes last here calls `meet_others` before all go on. It is bounded by the
/// time-out it is given, and its error breaks the barrier.
class StepBarrier {
 public:
  using MeetOthers = std::function<Status(Nanos timeout)>;
  /// `first_rank`: what messages add to the ranks, which count from 0 here.
  explicit StepBarrier(uint64_t ranks, uint64_t first_rank = 0, MeetOthers meet_others = nullptr);
  StepBarrier(const StepBarrier&) = delete;
  StepBarrier& operator=(const StepBarrier&) = delete;

  /// Ok when every rank has arrived. kDeadlineExceeded after `timeout`: the message names the ranks that are
  /// missing, and the barrier is broken. kCancelled: it was broken by somebody else.
  Status Arrive(uint64_t rank, Nanos timeout);
  /// Wakes everybody; every later Arrive() fails.
  void Break();

 private:
  /// "rank 3", "ranks 1, 2"; "" when all have come.
  std::string MissingRanks(uint32_t round) const;

  const uint64_t ranks_;
  const uint64_t first_rank_;
  const MeetOthers meet_others_;
  std::atomic<uint64_t> arrived_{0};
  std::atomic<uint32_t> round_{0};  // futex word: changes when all have arrived or the barrier breaks
  std::atomic<bool> broken_{false};
  std::vector<std::atomic<uint32_t>> last_round_;  // [ranks]: 1 + the last round the rank arrived in
};

}  // namespace stoker::bench
