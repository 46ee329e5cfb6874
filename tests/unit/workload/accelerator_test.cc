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

TEST(StepBarrier, TheLastOneMeetsTheOtherProcessesBeforeAnybodyGoesOn) {
  constexpr uint64_t kRanks = 3;
  constexpr int kRounds = 500;
  std::atomic<int> met{0};
  std::atomic<bool> early{false};
  StepBarrier barrier(kRanks, 0, [&](Nanos) {
    std::this_thread::yield();
    met.fetch_add(1);
    return Status::Ok();
  });
  std::vector<std::thread> threads;
  for (uint64_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (int round = 0; round < kRounds; ++round) {
        if (!barrier.Arrive(rank, seconds(60)).ok() || met.load() < round + 1) early = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(early);
  EXPECT_EQ(met, kRounds);
}

TEST(StepBarrier, OtherProcessesThatStayAwayBreakItForAll) {
  std::atomic<bool> release{false};
  StepBarrier barrier(2, 0, [&](Nanos) {
    while (!release) std::this_thread::yield();
    return Status(Code::kDeadlineExceeded, "process 1 did not come");
  });
  std::atomic<int> late{0};
  std::atomic<int> cancelled{0};
  const auto arrive = [&](uint64_t rank) {
    // The first to come outlives its own time: nobody is missing here.
    const Status status = barrier.Arrive(rank, milliseconds(500));
    if (status.message() == "process 1 did not come") late.fetch_add(1);
    if (status.code() == Code::kCancelled) cancelled.fetch_add(1);
  };
  std::thread first([&] { arrive(0); });
  std::thread second([&] { arrive(1); });
  std::this_thread::sleep_for(milliseconds(600));
  release = true;
  first.join();
  second.join();
  EXPECT_EQ(late, 1);
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(barrier.Arrive(0, seconds(60)).code(), Code::kCancelled);
}

TEST(StepBarrier, NamesRanksAsAllProcessesCountThem) {
  StepBarrier barrier(2, 6);
  EXPECT_EQ(barrier.Arrive(0, milliseconds(20)).message(), "step barrier: rank 7 did not arrive within 20ms");
}

TEST(StepBarrier, BreakWakesWaiters) {
  StepBarrier barrier(2);
  std::thread waiter([&] { EXPECT_EQ(barrier.Arrive(0, std::chrono::hours(1)).code(), Code::kCancelled); });
  barrier.Break();
  waiter.join();
}

}  // namespace
}  // namespace stoker::bench
