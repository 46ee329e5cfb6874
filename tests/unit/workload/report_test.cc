#include "workload/report/report.h"

#include <gtest/gtest.h>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker::bench {
namespace {

/// One rank, five steps: loads 1.0 and four times 0.1 s, sleep 0.3 s, barrier 0.05 s, loader creation 0.2 s.
RankEpoch Vector(double shutdown = 0) {
  RankEpoch rank;
  rank.block_start = 100;
  rank.iter_start = 100.2;
  double now = rank.iter_start;
  for (int i = 0; i < 5; ++i) {
    StepTimes step;
    step.load_end = now + (i == 0 ? 1.0 : 0.1);
    step.compute_end = step.load_end + 0.3;
    step.barrier_end = step.compute_end + 0.05;
    now = step.barrier_end;
    rank.steps.push_back(step);
  }
  rank.block_end = now;
  rank.loader_end = now + shutdown;
  return rank;
}

MetricOptions Options(Edition metric) {
  MetricOptions options;
  options.metric = metric;
  options.batch_size = 1;
  options.computation_time = 0.3;
  return options;
}

TEST(Report, VectorV05) {
  const RankFigures figures = ComputeRank(Options(Edition::kV05), Vector());
  EXPECT_NEAR(ArraysOf(Options(Edition::kV05), Vector()).proc[0], 1.55, 1e-9);
  EXPECT_NEAR(figures.au_percent, 66.6667, 5e-5);
  EXPECT_NEAR(figures.samples_per_s, 1.492537, 5e-7);
}

TEST(Report, VectorV10) {
  const RankFigures figures = ComputeRank(Options(Edition::kV10), Vector());
  EXPECT_NEAR(ArraysOf(Options(Edition::kV10), Vector()).proc[0], 1.30, 1e-9);
  EXPECT_NEAR(figures.au_percent, 58.5366, 5e-5);
  EXPECT_NEAR(figures.samples_per_s, 1.492537, 5e-7);
}

TEST(Report, VectorV20) {
  const RankFigures figures = ComputeRank(Options(Edition::kV20), Vector());
  EXPECT_NEAR(figures.au_percent, 58.5366, 5e-5);
  EXPECT_NEAR(figures.samples_per_s, 1.463415, 5e-7);
}

TEST(Report, VectorV30) {
  const RankFigures figures = ComputeRank(Options(Edition::kV30), Vector());
  EXPECT_NEAR(figures.au_percent, 58.5366, 5e-5);
  EXPECT_NEAR(figures.samples_per_s, 1.951220, 5e-7);
}

TEST(Report, VectorV30WithShutdown) {
  const RankFigures figures = ComputeRank(Options(Edition::kV30), Vector(0.1));
  EXPECT_NEAR(figures.au_percent, 55.8140, 5e-5);
  EXPECT_NEAR(figures.samples_per_s, 1.860465, 5e-7);
  // Only v3.0 counts it.
  EXPECT_NEAR(ComputeRank(Options(Edition::kV20), Vector(0.1)).au_percent, 58.5366, 5e-5);
}

TEST(Report, MeasuredComputeCountsFromV20On) {
  MetricOptions options = Options(Edition::kV10);
  options.computation_time = 0.15;
  EXPECT_NEAR(ComputeRank(options, Vector()).au_percent, 58.5366 / 2, 5e-5);
  options.metric = Edition::kV20;
  EXPECT_NEAR(ComputeRank(options, Vector()).au_percent, 58.5366, 5e-5);
}

TEST(Report, ExcludedStepsLeaveWindowAndTime) {
  MetricOptions options = Options(Edition::kV30);
  options.exclude_start_steps = 2;
  options.exclude_end_steps = 1;
  // T = 3.35 - (1.3 + 0.4) - 0.4 = 1.25; two steps in the window.
  const RankFigures figures = ComputeRank(options, Vector());
  EXPECT_NEAR(figures.au_percent, 100 * 0.6 / 1.25, 1e-6);
  EXPECT_NEAR(figures.samples_per_s, 2 / 1.25, 1e-6);
}

TEST(Report, FewStepsHaveDefinedResults) {
  for (const Edition metric : AllEditions()) {
    for (const size_t steps : {0u, 1u, 2u}) {
      RankEpoch rank = Vector();
      rank.steps.resize(steps);
      rank.loader_end = steps == 0 ? rank.iter_start : rank.steps.back().barrier_end;
      const RankFigures figures = ComputeRank(Options(metric), rank);
      EXPECT_EQ(figures.au_percent > 0, steps == 2) << Name(metric) << " " << steps;
      const bool counts_all = metric == Edition::kV05 || metric == Edition::kV10;
      const bool has_rate = counts_all ? steps > 0 : metric == Edition::kV30 && steps == 2;
      EXPECT_EQ(figures.samples_per_s > 0, has_rate) << Name(metric) << " " << steps;
    }
  }
  EXPECT_EQ(ComputeRun(Options(Edition::kV30), {}).au_mean_percent, 0);
  EXPECT_FALSE(ComputeRun(Options(Edition::kV30), {}).meets_threshold);
}

TEST(Report, FewStepsNotes) {
  MetricOptions options = Options(Edition::kV30);
  options.batch_size = 7;
  EXPECT_EQ(FewStepsNote(options, 0, 20, 4),
            "20 samples do not make one batch of 7 on each of 4 accelerators: 0 steps, AU is 0 by "
            "definition; use at "
            "least 28 samples, fewer accelerators or a smaller batch");
  EXPECT_EQ(FewStepsNote(options, 1, 28, 4),
            "1 step an epoch, all outside the AU window: AU is 0 by definition; use more samples or fewer "
            "accelerators");
  EXPECT_EQ(FewStepsNote(options, 2, 56, 4),
            "2 steps an epoch: AU rests on one step only; use more samples for a steady figure");
  options.metric = Edition::kV20;
  EXPECT_NE(FewStepsNote(options, 2, 56, 4).find("samples/s is 0 by definition"), std::string::npos);
  EXPECT_EQ(FewStepsNote(options, 3, 84, 4), "");
}

TEST(Report, AuLiesBetweenZeroAndHundredWhenComputeIsMeasured) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 500; ++round) {
    RankEpoch rank;
    double now = random.Uniform();
    rank.block_start = now;
    rank.iter_start = now += random.Uniform() * 0.1;
    for (uint64_t i = random.Below(8); i > 0; --i) {
      StepTimes step;
      step.load_end = now += random.Uniform();
      step.compute_end = now += random.Uniform();
      step.barrier_end = now += random.Uniform() * 0.2;
      rank.steps.push_back(step);
    }
    rank.block_end = now;
    rank.loader_end = now + random.Uniform();
    for (const Edition metric : {Edition::kV20, Edition::kV30}) {
      MetricOptions options = Options(metric);
      options.exclude_start_steps = random.Below(4);
      options.exclude_end_steps = random.Below(4);
      const RankFigures figures = ComputeRank(options, rank);
      EXPECT_GE(figures.au_percent, 0);
      EXPECT_LE(figures.au_percent, 100 + 1e-9);
    }
  }
}

TEST(Report, NoWaitingIsHundredPercent) {
  RankEpoch rank;
  double now = 0;
  for (int i = 0; i < 4; ++i) {
    StepTimes step;
    step.load_end = now;
    step.compute_end = step.barrier_end = now += 0.3;
    rank.steps.push_back(step);
  }
  rank.block_end = rank.loader_end = now;
  for (const Edition metric : AllEditions()) {
    EXPECT_NEAR(ComputeRank(Options(metric), rank).au_percent, 100, 1e-9) << Name(metric);
  }
}

TEST(Report, RanksAreAveragedForAuAndAddedForThroughput) {
  EpochLog epoch;
  epoch.ranks = {Vector(), Vector(0.1)};
  const EpochFigures figures = ComputeEpoch(Options(Edition::kV30), epoch);
  EXPECT_NEAR(figures.au_percent, (58.5366 + 55.8140) / 2, 1e-4);
  EXPECT_NEAR(figures.samples_per_s, 1.951220 + 1.860465, 1e-6);
}

TEST(Report, RunIsMeanAndPopulationDeviationOverEpochs) {
  EpochLog one;
  one.ranks = {Vector()};
  EpochLog two;
  two.ranks = {Vector(0.1)};
  EpochLog unfinished;
  unfinished.ranks = {RankEpoch()};
  MetricOptions options = Options(Edition::kV30);
  options.record_bytes = 1048576;
  options.au_threshold = 0.57;
  const RunFigures run = ComputeRun(options, {one, two, unfinished});
  ASSERT_EQ(run.epochs.size(), 2u);
  EXPECT_NEAR(run.au_mean_percent, 57.1753, 1e-4);
  EXPECT_NEAR(run.au_stdev_percent, (58.5366 - 55.8140) / 2, 1e-4);
  EXPECT_NEAR(run.mib_mean, run.samples_mean, 1e-9);
  EXPECT_TRUE(run.meets_threshold);
  options.au_threshold = 0.58;
  EXPECT_FALSE(ComputeRun(options, {one, two}).meets_threshold);
}

/// Published results: samples/s x 146 600 628 bytes, in MiB/s, and demand of the accelerators.
TEST(Report, WorkedChecksAgainstPublishedFigures) {
  const auto mib = [](double samples) { return samples * 146'600'628 / 1048576; };
  EXPECT_NEAR(mib(56.902658), 7955.52, 0.01);
  EXPECT_NEAR(mib(456.4108), 63'810.45, 0.01);
  EXPECT_NEAR(mib(319.75), 44'703.8, 1);
  EXPECT_NEAR(mib(2772.74), 387'654.7, 1);
  const auto samples = [](uint64_t batch, double seconds, uint64_t accelerators) {
    return ComputeDemand(146'600'628, batch, seconds, accelerators, 1, 1, 1, 1, 1).bytes_per_s / 146'600'628;
  };
  EXPECT_NEAR(56.9027 / samples(4, 1.3604, 20), 0.968, 0.0005);
  EXPECT_NEAR(456.4108 / samples(7, 0.323, 24), 0.878, 0.0005);
  EXPECT_NEAR(319.75 / samples(7, 0.162, 8), 0.925, 0.0005);
}

TEST(Report, DemandPerAccelerator) {
  const auto mib = [](uint64_t batch, double seconds) {
    return ComputeDemand(146'600'628, batch, seconds, 1, 1, 1, 1, 1, 1).bytes_per_s_per_accelerator / 1048576;
  };
  EXPECT_NEAR(mib(4, 1.3604), 411.1, 0.05);
  EXPECT_NEAR(mib(7, 0.636), 1538.8, 0.1);
  EXPECT_NEAR(mib(7, 0.323), 3029.9, 0.1);
  EXPECT_NEAR(mib(7, 0.162), 6041.1, 0.1);
  const Demand demand = ComputeDemand(1000, 2, 0.5, 8, 10, 5, 200, 4, 4096);
  EXPECT_EQ(demand.buffer_bytes, 8u * 4 * 4096);
  EXPECT_EQ(demand.dataset_bytes, 200'000u);
  EXPECT_NEAR(demand.run_s, 25, 1e-9);
}

TEST(Report, HarnessFiguresSeparateWaitingFromOverhead) {
  TrainingLog log;
  EpochLog epoch;
  RankEpoch fast = Vector();
  RankEpoch slow = Vector();
  for (size_t i = 0; i < 5; ++i)
    slow.steps[i].compute_end += 0.02;  // all leave 0.03 s after the slow one's compute
  epoch.ranks = {fast, slow};
  log.epochs = {epoch};
  log.reads.bytes = 2'000'000'000;
  log.cpu_user_s = 0.1;
  log.cpu_system_s = 0.1;
  const HarnessFigures harness = ComputeHarness(log);
  EXPECT_NEAR(harness.wall_s, 3.35, 1e-9);
  EXPECT_NEAR(harness.step_overhead_us, 30'000, 1e-3);
  EXPECT_NEAR(harness.barrier_wait_s, 5 * 0.02 / 2, 1e-9);
  ASSERT_EQ(harness.load_wait_s.size(), 2u);
  EXPECT_NEAR(harness.load_wait_s[0], 1.4, 1e-9);
  EXPECT_NEAR(harness.cpu_s_per_gb, 0.1, 1e-12);
  EXPECT_NEAR(harness.bytes_per_s, 2e9 / 3.35, 1);
}

TEST(Report, MetricBlockByEdition) {
  RunFigures run;
  run.au_mean_percent = 99.25;
  run.au_stdev_percent = 0.5;
  run.samples_mean = 2.9;
  run.mib_mean = 409.5;
  run.meets_threshold = true;
  const std::string rule = "[METRIC] " + std::string(58, '=') + "\n";
  EXPECT_EQ(MetricBlock(Options(Edition::kV10), run, 4),
            rule +
                "[METRIC] Number of Simulated Accelerators: 4\n"
                "[METRIC] Training Accelerator Utilization [AU] (%): 99.2500 (0.5000)\n"
                "[METRIC] Training Throughput (samples/second): 2.9000 (0.0000)\n"
                "[METRIC] Training I/O Throughput (MB/second): 409.5000 (0.0000)\n"
                "[METRIC] train_au_meet_expectation: success\n" +
                rule);
  EXPECT_EQ(MetricBlock(Options(Edition::kV05), run, 4).find("Number of"), std::string::npos);
  EXPECT_NE(MetricBlock(Options(Edition::kV30), run, 4).find("(MiB/second)"), std::string::npos);
  run.meets_threshold = false;
  EXPECT_NE(MetricBlock(Options(Edition::kV30), run, 4).find("expectation: fail"), std::string::npos);
}

}  // namespace
}  // namespace stoker::bench
