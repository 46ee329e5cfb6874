#include "workload/run/capacity_run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "tests/support/temp_dir.h"
#include "workload/data/datagen.h"

namespace stoker::bench {
namespace {

CapacityRequest Request() {
  CapacityRequest request;
  Profile& profile = request.command.profile;
  profile.workload = "tiny";
  profile.accelerator = "b200";
  profile.format = Format::kNpz;
  profile.num_files_train = 200;
  profile.record_bytes = 20'000;
  profile.batch_size = 2;
  profile.read_threads = 2;
  profile.prefetch_size = 2;
  profile.computation_time = 0.02;
  profile.au = 0.3;  // a loaded machine still passes
  request.command.rules = RulesOf(Edition::kV10);
  request.command.null_storage = true;
  request.search.max = 3;
  request.steps = 10;
  return request;
}

TEST(CapacityRun, PlanIsBoundedByTheDataset) {
  CapacityRequest request = Request();
  request.search.max = 100;
  const Result<CapacityPlan> plan = PlanCapacity(request);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_EQ(plan->record.margin_steps, 2u) << "two threads, two batches in flight";
  EXPECT_EQ(plan->record.options.max, 7u) << "100 batches, 14 steps each";
  EXPECT_NE(plan->record.max_reason.find("14 steps"), std::string::npos);
  EXPECT_EQ(plan->record.options.threshold_percent, 30);
  request.command.profile.num_files_train = 27;
  EXPECT_EQ(PlanCapacity(request).status().message(),
            "the dataset is too small to measure one accelerator: 27 samples, 28 are needed (14 steps); use "
            "--param "
            "dataset.num_files_train=28 or more");
  request = Request();
  request.steps = 0;
  EXPECT_EQ(PlanCapacity(request)->record.counted_steps, 250u) << "5 s of 20 ms";
  request.command.profile.computation_time = 1;
  EXPECT_EQ(PlanCapacity(request)->record.counted_steps, 20u);
}

TEST(CapacityRun, EachMeasurementReadsAnew) {
  CapacityRequest request = Request();
  request.command.rules.order = AccessOrder::kV2;
  request.command.rules.cache_control = CacheControl::kNone;
  Result<CapacityPlan> plan = PlanCapacity(request);
  EXPECT_EQ(plan->record.command.rules.order, AccessOrder::kV3);
  EXPECT_EQ(plan->training.options.reader.cache_control, CacheControl::kFadvise);
  request.command.rule_overrides = {"--order", "--cache-control"};
  plan = PlanCapacity(request);
  EXPECT_EQ(plan->record.command.rules.order, AccessOrder::kV2);
  EXPECT_EQ(plan->training.options.reader.cache_control, CacheControl::kNone);
}

TEST(CapacityRun, NullStorageFeedsAllThatAreTried) {
  const Result<CapacityPlan> plan = PlanCapacity(Request());
  ASSERT_TRUE(plan.ok());
  std::vector<std::string> said;
  const CapacityRecord record =
      FindCapacity(*plan, CancelToken(), [&](const std::string& line) { said.push_back(line); });
  EXPECT_TRUE(record.result.finished);
  EXPECT_EQ(record.result.fed, 3u);
  EXPECT_EQ(record.ended_early, "");
  EXPECT_EQ(record.limit.limit, CapacityLimit::kNone);
  ASSERT_EQ(said.size(), record.measurements.size());
  EXPECT_EQ(said[0].compare(0, 24, "tiny: 1 accelerator, AU "), 0) << said[0];
  for (const CapacityMeasurement& one : record.measurements) {
    EXPECT_EQ(one.steps, 10u);
    EXPECT_FALSE(one.cut);
    EXPECT_NEAR(one.shares.compute + one.shares.lost(), 1, 1e-6);
  }
}

/// A threshold nobody reaches: batches come from files, and the compute is too short for any reading.
TEST(CapacityRun, StorageThatFeedsNobody) {
  const testing::TempDir dir;
  CapacityRequest request = Request();
  request.command.null_storage = false;
  request.command.data_dir = dir.path();
  request.command.profile.computation_time = 1e-6;
  request.command.profile.au = 0.99;
  const Dataset dataset =
      MakeDataset(request.command.profile, request.command.data_dir, request.command.rules.file_layout);
  ASSERT_TRUE(GenerateDataset({dataset, 2, nullptr}, CancelToken()).ok());
  const Result<CapacityPlan> plan = PlanCapacity(request);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const CapacityRecord record = FindCapacity(*plan, CancelToken(), nullptr);
  EXPECT_TRUE(record.result.finished);
  EXPECT_EQ(record.result.fed, 0u);
  EXPECT_EQ(record.result.starved, 1u);
  EXPECT_NE(record.limit.limit, CapacityLimit::kNone);
  EXPECT_TRUE(record.null_shares.has_value());
  EXPECT_GT(record.measurements.front().bytes_per_s, 0);
}

TEST(CapacityRun, AFileThatCannotBeReadEndsTheSearch) {
  const testing::TempDir dir;
  CapacityRequest request = Request();
  request.command.null_storage = false;
  request.command.data_dir = dir.path();
  request.command.profile.num_files_train = 28;  // each measurement of one accelerator reads all of them
  const Dataset dataset =
      MakeDataset(request.command.profile, request.command.data_dir, request.command.rules.file_layout);
  ASSERT_TRUE(GenerateDataset({dataset, 2, nullptr}, CancelToken()).ok());
  const Result<CapacityPlan> plan = PlanCapacity(request);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  ASSERT_EQ(::unlink(dataset.Path(13).c_str()), 0);
  const CapacityRecord record = FindCapacity(*plan, CancelToken(), nullptr);
  EXPECT_EQ(record.ended_early, "the storage failed");
  EXPECT_EQ(record.failure.code(), Code::kIo);
  EXPECT_NE(record.failure.message().find("1 file could not be read"), std::string::npos);
  EXPECT_EQ(record.result.fed, 0u);
}

TEST(CapacityRun, CancelAndTimeLimitKeepWhatIsKnown) {
  CapacityRequest request = Request();
  request.command.profile.computation_time = 0.05;  // 14 steps: the second measurement is cut in its middle
  request.time_limit = std::chrono::milliseconds(1000);
  const Result<CapacityPlan> plan = PlanCapacity(request);
  ASSERT_TRUE(plan.ok());
  const CapacityRecord late = FindCapacity(*plan, CancelToken(), nullptr);
  EXPECT_EQ(late.ended_early, "time limit of 1s");
  EXPECT_FALSE(late.result.finished);
  EXPECT_LE(late.measurements.size(), 1u);

  CancelToken cancel;
  std::thread stop([cancel]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    cancel.Cancel();
  });
  const CapacityRecord record = FindCapacity(*plan, cancel, nullptr);
  stop.join();
  EXPECT_TRUE(record.interrupted);
  EXPECT_EQ(record.ended_early, "interrupted");
  EXPECT_TRUE(record.measurements.empty());
}

}  // namespace
}  // namespace stoker::bench
