#include "workload/report/step_shares.h"

#include <gtest/gtest.h>

namespace stoker::bench {
namespace {

/// Two ranks, four steps of 1 s compute. Rank 0 waits 0.1 s for a batch, rank 1 0.3 s, so rank 0 waits 0.2 s
/// more at the barrier, which itself takes 0.1 s. The first step's batches take 5 s longer.
EpochLog TwoRanks() {
  EpochLog epoch;
  for (const double load : {0.1, 0.3}) {
    RankEpoch rank;
    rank.iter_start = 10;
    double start = rank.iter_start;
    for (int i = 0; i < 4; ++i) {
      const double begun = start + (i == 0 ? 5 : 0);
      rank.steps.push_back({begun + load, begun + load + 1, begun + 0.3 + 1 + 0.1});
      start = rank.steps.back().barrier_end;
    }
    epoch.ranks.push_back(rank);
  }
  return epoch;
}

TEST(StepShares, AddUpAndLeaveOutTheRest) {
  const StepShares shares = SharesOf(TwoRanks(), 1, 4);
  EXPECT_EQ(shares.steps, 3u);
  EXPECT_NEAR(shares.seconds, 4.2, 1e-9);
  EXPECT_NEAR(shares.compute, 1 / 1.4, 1e-9);
  EXPECT_NEAR(shares.load_wait, 0.2 / 1.4, 1e-9);
  EXPECT_NEAR(shares.barrier_wait, 0.1 / 1.4, 1e-9);
  EXPECT_NEAR(shares.overhead, 0.1 / 1.4, 1e-9);
  EXPECT_NEAR(shares.compute + shares.lost(), 1, 1e-9);
}

TEST(StepShares, TheFirstStepBeginsWhenTheLoaderDoes) {
  const StepShares shares = SharesOf(TwoRanks(), 0, 1);
  EXPECT_NEAR(shares.seconds, 6.4, 1e-9);
  EXPECT_NEAR(shares.load_wait, 5.2 / 6.4, 1e-9);
}

TEST(StepShares, CutToWhatEveryRankHasDone) {
  EpochLog epoch = TwoRanks();
  epoch.ranks[1].steps.pop_back();
  EXPECT_EQ(SharesOf(epoch, 1, 100).steps, 2u);
  EXPECT_EQ(SharesOf(epoch, 3, 4).steps, 0u);
  epoch.ranks[1].steps.clear();
  EXPECT_EQ(SharesOf(epoch, 0, 4).steps, 0u);
  EXPECT_EQ(SharesOf(EpochLog(), 0, 4).steps, 0u);
}

}  // namespace
}  // namespace stoker::bench
