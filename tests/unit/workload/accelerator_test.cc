#include "workload/train/accelerator.h"
#include "workload/base/steady.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace stoker::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SleepUntil, NeverEndsBeforeItsDeadline) {
  UseFineTimers();
  for (int i = 0; i < 20; ++i) {
    const Nanos deadline = SteadyNow() + milliseconds(2);
    SleepUntil(deadline, CancelToken());
    EXPECT_GE(SteadyNow(), deadline);
  }
}

TEST(SleepUntil, CancelledSleepEndsLongBefore) {
  CancelToken cancel;
  const Nanos deadline = SteadyNow() + std::chrono::hours(1);
  std::thread sleeper([&] { SleepUntil(deadline, cancel); });
  cancel.Cancel();
  sleeper.join();
  EXPECT_LT(SteadyNow(), deadline);
}

TEST(StepBarrier, NobodyLeavesBeforeAllHaveCome) {
  constexpr uint64_t kRanks = 5;
  constexpr int kRounds = 2000;
  StepBarrier barrier(kRanks);
  std::atomic<int> arrivals{0};
  std::atomic<bool> early{false};
  std::vector<std::thread> threads;
  for (uint64_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (int round = 0; round < kRounds; ++round) {
        arrivals.fetch_add(1);
        if (!barrier.Arrive(rank, seconds(60)).ok()) early = true;
        if (arrivals.load() < (round + 1) * static_cast<int>(kRanks)) early = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(early);
  EXPECT_EQ(arrivals, kRounds * static_cast<int>(kRanks));
}

TEST(StepBarrier, OneRankPassesAlone) {
  StepBarrier barrier(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(barrier.Arrive(0, seconds(1)).ok());
}

TEST(StepBarrier, TimeOutNamesTheMissingRanks) {
  StepBarrier barrier(3);
  const Status status = barrier.Arrive(0, milliseconds(20));
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "step barrier: ranks 1, 2 did not arrive within 20ms");
  EXPECT_EQ(barrier.Arrive(1, seconds(60)).code(), Code::kCancelled);
}

TEST(StepBarrier, TimeOutInALaterRoundNamesTheOneThatStayedAway) {
  StepBarrier barrier(2);
  std::thread other([&] { EXPECT_TRUE(barrier.Arrive(1, seconds(60)).ok()); });
  ASSERT_TRUE(barrier.Arrive(0, seconds(60)).ok());
  other.join();
  EXPECT_EQ(barrier.Arrive(0, milliseconds(20)).message(), "step barrier: rank 1 did not arrive within 20ms");
}

TEST(StepBarrier, BreakWakesWaiters) {
  StepBarrier barrier(2);
  std::thread waiter([&] { EXPECT_EQ(barrier.Arrive(0, std::chrono::hours(1)).code(), Code::kCancelled); });
  barrier.Break();
  waiter.join();
}

}  // namespace
}  // namespace stoker::bench
