#include "workload/train/loader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <numeric>
#include <thread>

#include "cache/base/fd.h"
#include "cache/base/mutex.h"
#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Sample i is the file i of a folder. A sample made with Block() is a FIFO: reading it waits for Release().
class LoaderTest : public ::testing::Test {
 protected:
  void Files(uint32_t count) {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    options_.order = std::make_shared<const EpochOrder>(order, 1);
    options_.stats = std::make_shared<SharedReadStats>();
    options_.path_of = [this](uint32_t sample) {
      MutexLock lock(mu_);
      asked_.push_back(sample);
      return Path(sample);
    };
    for (uint32_t i = 0; i < count; ++i) std::ofstream(Path(i)) << std::string(100, 'x');
  }
  std::string Path(uint32_t sample) const { return dir_ / std::to_string(sample); }
  void Block(uint32_t sample) {
    ASSERT_EQ(::unlink(Path(sample).c_str()), 0);
    ASSERT_EQ(::mkfifo(Path(sample).c_str(), 0600), 0);
  }
  void Release(uint32_t sample) {
    const Fd writer(::open(Path(sample).c_str(), O_WRONLY | O_CLOEXEC));  // waits for the reader
    EXPECT_TRUE(writer.valid());
  }
  std::vector<uint32_t> asked() {
    MutexLock lock(mu_);
    return asked_;
  }

  const stoker::testing::TempDir dir_;
  LoaderOptions options_;
  Mutex mu_;
  std::vector<uint32_t> asked_ GUARDED_BY(mu_);
};

TEST(BatchesInFlight, AsTheFrameworkCounts) {
  EXPECT_EQ(BatchesInFlight(4, 2), 4u);
  EXPECT_EQ(BatchesInFlight(4, 0), 8u);
  EXPECT_EQ(BatchesInFlight(4, 5), 8u);
  EXPECT_EQ(BatchesInFlight(1, 2), 2u);
  EXPECT_EQ(BatchesInFlight(8, 2), 8u);
}

TEST_F(LoaderTest, ReadsEverySampleOnce) {
  Files(24);
  options_.steps = 6;
  options_.batch_size = 4;
  options_.threads = 3;
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(loader.Next(seconds(60)).ok());
  loader.Finish();
  std::vector<uint32_t> seen = asked();
  std::sort(seen.begin(), seen.end());
  std::vector<uint32_t> all(24);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(seen, all);
  EXPECT_EQ(options_.stats->Snapshot().files, 24u);
  EXPECT_EQ(options_.stats->Snapshot().bytes, 2400u);
}

TEST_F(LoaderTest, ASlowBatchHoldsBackLaterOnes) {
  Files(4);
  Block(0);
  options_.steps = 4;
  options_.threads = 2;
  options_.prefetch = 2;
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  const Status status = loader.Next(milliseconds(30));
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "rank 0: batch 0 was not read within 30ms; the storage does not answer");
  Release(0);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(loader.Next(seconds(60)).ok());
}

TEST_F(LoaderTest, NeverReadsFurtherAheadThanTheDepth) {
  Files(40);
  options_.steps = 40;
  options_.threads = 2;
  options_.prefetch = 3;  // two batches per thread
  std::atomic<uint64_t> wanted{0};
  std::atomic<bool> too_far{false};
  options_.path_of = [&](uint32_t sample) {
    if (sample >= wanted.load() + 4) too_far = true;
    return Path(sample);
  };
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  for (int i = 0; i < 40; ++i) {
    ++wanted;
    ASSERT_TRUE(loader.Next(seconds(60)).ok());
  }
  EXPECT_FALSE(too_far);
}

TEST_F(LoaderTest, BatchesGoRoundTheThreads) {
  Files(6);
  Block(1);  // thread 1 hangs: batches 1, 3 and 5 are its own, the other thread goes no further than its own
  options_.steps = 6;
  options_.threads = 2;
  options_.prefetch = 0;
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  ASSERT_TRUE(loader.Next(seconds(60)).ok());
  EXPECT_EQ(loader.Next(milliseconds(30)).code(), Code::kDeadlineExceeded);
  for (const uint32_t sample : asked()) EXPECT_NE(sample, 3u);
  Release(1);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(loader.Next(seconds(60)).ok());
}

TEST_F(LoaderTest, UnreadableFilesAreCountedAndTheBatchStillComes) {
  Files(4);
  ASSERT_EQ(::unlink(Path(2).c_str()), 0);
  std::atomic<int> errors{0};
  options_.on_error = [&] { ++errors; };
  options_.steps = 2;
  options_.batch_size = 2;
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  EXPECT_TRUE(loader.Next(seconds(60)).ok());
  EXPECT_TRUE(loader.Next(seconds(60)).ok());
  loader.Finish();
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(options_.stats->Snapshot().errors, 1u);
  EXPECT_EQ(options_.stats->Snapshot().files, 3u);
}

TEST_F(LoaderTest, BreakWakesTheWaiter) {
  Files(2);
  Block(0);
  options_.steps = 2;
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  std::thread breaker([&] { loader.Break(); });
  EXPECT_EQ(loader.Next(std::chrono::hours(1)).code(), Code::kCancelled);
  breaker.join();
  if (!asked().empty()) Release(0);
}

TEST_F(LoaderTest, NullStorageHandsOutWithoutReading) {
  Files(2);
  options_.steps = 2;
  options_.null_storage = true;
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  EXPECT_TRUE(loader.Next(seconds(1)).ok());
  EXPECT_TRUE(asked().empty());
  loader.Break();
  EXPECT_EQ(loader.Next(seconds(1)).code(), Code::kCancelled);
}

}  // namespace
}  // namespace stoker::bench
