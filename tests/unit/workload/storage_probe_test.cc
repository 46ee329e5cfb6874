#include "workload/run/storage_probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "cache/base/fd.h"
#include "cache/base/units.h"
#include "tests/support/temp_dir.h"
#include "workload/base/host.h"
#include "workload/data/datagen.h"
#include "workload/run/self_test.h"

namespace stoker::bench {
namespace {

class Probe : public ::testing::Test {
 protected:
  Probe() {
    profile_.workload = "tiny";
    profile_.format = Format::kNpz;
    profile_.num_files_train = 40;
    profile_.record_bytes = 300'000;
    profile_.batch_size = 2;
    profile_.read_threads = 3;
    profile_.computation_time = 0.01;
    command_.rules = RulesOf(Edition::kV30);
    command_.rules.file_layout = Edition::kV10;
    command_.accelerators = 2;
    command_.data_dir = dir_.path();
  }
  TrainingPlan Plan() {
    command_.profile = profile_;
    const Dataset dataset = MakeDataset(profile_, command_.data_dir, command_.rules.file_layout);
    EXPECT_TRUE(GenerateDataset({dataset, 2, nullptr}, CancelToken()).ok());
    Result<TrainingPlan> plan = PlanTraining(command_);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return std::move(plan).value();
  }
  const testing::TempDir dir_;
  Profile profile_;
  Command command_;
};

TEST_F(Probe, TakesTheCallsAndTheLastFilesOfTheFirstEpoch) {
  const TrainingPlan plan = Plan();
  const ProbeOptions options = ProbeOf(plan);
  EXPECT_EQ(options.threads, 6u);
  EXPECT_EQ(options.piece_bytes, kMiB);
  EXPECT_FALSE(options.direct);
  ASSERT_EQ(options.paths.size(), 40u);
  EXPECT_EQ(std::set<std::string>(options.paths.begin(), options.paths.end()).size(), 40u);
  // The first two are what the two ranks read last.
  const EpochOrder order = MakeEpochOrder(plan.options.order, 0);
  for (uint64_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(options.paths[rank], plan.options.dataset.Path(order.Sample(rank, order.per_rank() - 1)));
  }
}

TEST_F(Probe, ReadsNoMoreThanAllowedAndGivesThePagesBack) {
  const TrainingPlan plan = Plan();
  ProbeOptions options = ProbeOf(plan);
  const Result<ProbeResult> all = ProbeFiles(options, CancelToken());
  ASSERT_TRUE(all.ok());
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 40; ++i) bytes += plan.options.dataset.FileBytes(i);
  EXPECT_EQ(all->bytes, bytes);
  EXPECT_EQ(all->files, 40u);
  EXPECT_EQ(all->errors, 0u);
  EXPECT_EQ(all->threads, 6u);
  EXPECT_GT(all->bytes_per_s, 0);
  EXPECT_FALSE(all->hung);
  EXPECT_LT(PageCacheShare(options.paths).value_or(1), 0.01);

  options.bytes = 500'000;
  const Result<ProbeResult> some = ProbeFiles(options, CancelToken());
  ASSERT_TRUE(some.ok());
  EXPECT_GE(some->bytes, 500'000u);
  EXPECT_LE(some->bytes, 500'000u + 6 * 1'048'576u) << "one call per thread beyond";
  EXPECT_LT(some->files, 40u);

  CancelToken cancelled;
  cancelled.Cancel();
  EXPECT_EQ(ProbeFiles(options, cancelled)->bytes, 0u);
}

TEST_F(Probe, MissingFilesAreCounted) {
  ProbeOptions options;
  options.paths = {dir_ / "a", dir_ / "b"};
  options.piece_bytes = 4096;
  const Result<ProbeResult> probe = ProbeFiles(options, CancelToken());
  ASSERT_TRUE(probe.ok());
  EXPECT_EQ(probe->errors, 2u);
  EXPECT_EQ(probe->first_error, (dir_ / "a") + ": open: No such file or directory");
}

TEST_F(Probe, AReadThatHangsIsLetGo) {
  const std::string fifo = dir_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ProbeOptions options;
  options.paths = {fifo};
  options.piece_bytes = 4096;
  options.time = options.patience = std::chrono::milliseconds(100);
  const Result<ProbeResult> probe = ProbeFiles(options, CancelToken());
  ASSERT_TRUE(probe.ok());
  EXPECT_TRUE(probe->hung) << "open of a fifo waits for a writer";
  const Fd writer(::open(fifo.c_str(), O_RDWR | O_CLOEXEC));  // the thread can end
  EXPECT_TRUE(writer.valid());
}

TEST_F(Probe, FilesBelowAFolder) {
  EXPECT_EQ(FilesBelow(dir_.path(), 10).status().code(), Code::kNotFound);
  EXPECT_FALSE(FilesBelow(dir_ / "missing", 10).ok());
  std::ofstream(dir_ / "a") << "x";
  std::ofstream(dir_ / "b") << "y";
  EXPECT_EQ(*FilesBelow(dir_.path(), 10), (std::vector<std::string>{dir_ / "b", dir_ / "a"}));
  EXPECT_EQ(FilesBelow(dir_.path(), 1)->size(), 1u);
}

TEST_F(Probe, SelfTestReadsNothing) {
  const TrainingPlan plan = Plan();
  const StepShares shares = SelfTest(plan, CancelToken());
  EXPECT_EQ(shares.steps, 300u) << "3 s of 10 ms";
  EXPECT_GT(shares.compute, 0.2) << "of a loaded machine";
  EXPECT_LE(shares.compute, 1);
  CancelToken cancelled;
  cancelled.Cancel();
  EXPECT_EQ(SelfTest(plan, cancelled).steps, 0u);
}

}  // namespace
}  // namespace stoker::bench
