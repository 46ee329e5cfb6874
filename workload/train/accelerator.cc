#include "workload/train/accelerator.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <utility>

#include "cache/base/units.h"
#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kRanksNamed = 8;  // in one message

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel sees a plain word");

/// Absolute deadline on the steady clock, so early wake-ups need no arithmetic.
void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, Nanos deadline) {
  const timespec until = ToTimespec(deadline);
  static_cast<void>(::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, &until, nullptr,
                              FUTEX_BITSET_MATCH_ANY));
}
void FutexWakeAll(std::atomic<uint32_t>& word) {
  static_cast<void>(::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0));
}

}  // namespace

StepBarrier::StepBarrier(uint64_t ranks, uint64_t first_rank, MeetOthers meet_others)
    : ranks_(ranks), first_rank_(first_rank), meet_others_(std::move(meet_others)), last_round_(ranks) {}

Status StepBarrier::Arrive(uint64_t rank, Nanos timeout) {
  Nanos deadline = SteadyNow() + timeout;
  const uint32_t round = round_.load(std::memory_order_acquire);
  if (broken_.load(std::memory_order_acquire)) return Status(Code::kCancelled, "the run was stopped");
  last_round_[rank].store(round + 1, std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
    arrived_.store(0, std::memory_order_relaxed);
    if (meet_others_) {
      const Status met = meet_others_(timeout);
      if (broken_.load(std::memory_order_acquire)) return Status(Code::kCancelled, "the run was stopped");
      if (!met.ok()) {
        Break();
        return met;
      }
    }
    round_.fetch_add(1, std::memory_order_release);
    FutexWakeAll(round_);
    return Status::Ok();
  }
  while (round_.load(std::memory_order_acquire) == round) {
    if (SteadyNow() >= deadline) {
      const std::string missing = MissingRanks(round);
      if (missing.empty()) {  // the last one waits for the other processes, which is bounded itself
        deadline += timeout;
        continue;
      }
      Break();
      return Status(Code::kDeadlineExceeded,
                    "step barrier: " + missing + " did not arrive within " + FormatDuration(timeout));
    }
    FutexWait(round_, round, deadline);
  }
  if (broken_.load(std::memory_order_acquire)) return Status(Code::kCancelled, "the run was stopped");
  return Status::Ok();
}

void StepBarrier::Break() {
  broken_.store(true, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_acq_rel);
  FutexWakeAll(round_);
}

std::string StepBarrier::MissingRanks(uint32_t round) const {
  std::string out;
  uint64_t missing = 0;
  for (uint64_t rank = 0; rank < ranks_; ++rank) {
    if (last_round_[rank].load(std::memory_order_relaxed) == round + 1) continue;
    if (++missing <= kRanksNamed) out += (out.empty() ? "" : ", ") + std::to_string(first_rank_ + rank);
  }
  if (missing == 0) return "";
  if (missing > kRanksNamed) out += " and " + std::to_string(missing - kRanksNamed) + " more";
  return (missing == 1 ? "rank " : "ranks ") + out;
}

}  // namespace stoker::bench
