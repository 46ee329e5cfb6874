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
#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Sample i is the file i of a folder. A sample made with Block() is a FIFO: reading it waits for Release().
class LoaderTest : public ::testing::Test {
 protected:
  void Files(uint32_t count) {
    OrderOptions order;
    order.samples = count;
    options_.order = std::make_shared<const EpochOrder>(std::vector<uint32_t>(), order);
    options_.reader.format = Format::kJpeg;  // bytes without a form
    options_.bell = std::make_shared<Doorbell>();
    options_.stats = std::make_shared<SharedReadStats>();
    options_.path_of = [this](uint64_t sample) {
      MutexLock lock(mu_);
      asked_.push_back(sample);
      return Path(sample);
    };
    for (uint32_t i = 0; i < count; ++i) std::ofstream(Path(i)) << std::string(100, 'x');
  }
  std::string Path(uint64_t sample) const { return dir_ / std::to_string(sample); }
  void Block(uint64_t sample) {
    ASSERT_EQ(::unlink(Path(sample).c_str()), 0);
    ASSERT_EQ(::mkfifo(Path(sample).c_str(), 0600), 0);
  }
  void Release(uint64_t sample) {
    const Fd writer(::open(Path(sample).c_str(), O_WRONLY | O_CLOEXEC));  // waits for the reader
    EXPECT_TRUE(writer.valid());
  }
  /// Takes the next batch, waiting for it.
  bool Next(BatchLoader& loader, Nanos timeout = seconds(60)) {
    const Nanos deadline = SteadyNow() + timeout;
    while (true) {
      const uint32_t seen = options_.bell->rings();
      if (loader.TryNext()) return true;
      if (SteadyNow() >= deadline) return false;
      options_.bell->Wait(seen, deadline);
    }
  }
  std::vector<uint64_t> asked() {
    MutexLock lock(mu_);
    return asked_;
  }

  const stoker::testing::TempDir dir_;
  LoaderOptions options_;
  Mutex mu_;
  std::vector<uint64_t> asked_ GUARDED_BY(mu_);
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
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(Next(loader));
  EXPECT_TRUE(loader.Finish(SteadyNow() + seconds(60)));
  std::vector<uint64_t> seen = asked();
  std::sort(seen.begin(), seen.end());
  std::vector<uint64_t> all(24);
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
  EXPECT_FALSE(Next(loader, milliseconds(30)));
  EXPECT_EQ(loader.Awaited(), "batch 0");
  Release(0);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Next(loader));
}

TEST_F(LoaderTest, NeverReadsFurtherAheadThanTheDepth) {
  Files(40);
  options_.steps = 40;
  options_.threads = 2;
  options_.prefetch = 3;  // two batches per thread
  std::atomic<uint64_t> wanted{0};
  std::atomic<bool> too_far{false};
  options_.path_of = [&](uint64_t sample) {
    if (sample >= wanted.load() + 4) too_far = true;
    return Path(sample);
  };
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  for (int i = 0; i < 40; ++i) {
    ++wanted;
    ASSERT_TRUE(Next(loader));
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
  ASSERT_TRUE(Next(loader));
  EXPECT_FALSE(Next(loader, milliseconds(30)));
  EXPECT_EQ(loader.Awaited(), "batch 1");
  for (const uint64_t sample : asked()) EXPECT_NE(sample, 3u);
  Release(1);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Next(loader));
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
  EXPECT_TRUE(Next(loader));
  EXPECT_TRUE(Next(loader));
  EXPECT_TRUE(loader.Finish(SteadyNow() + seconds(60)));
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(options_.stats->Snapshot().errors, 1u);
  EXPECT_EQ(options_.stats->Snapshot().files, 3u);
}

TEST_F(LoaderTest, ThreadsThatHangAreLetGoAtTheDeadline) {
  Files(2);
  Block(0);
  options_.steps = 2;
  {
    BatchLoader loader(options_);
    ASSERT_TRUE(loader.Start().ok());
    EXPECT_FALSE(Next(loader, milliseconds(20)));  // the thread is in the file now, or soon
    loader.Break();
    if (!asked().empty()) {
      EXPECT_FALSE(loader.Finish(SteadyNow() + milliseconds(20)));
    }
  }
  if (!asked().empty()) Release(0);
}

TEST_F(LoaderTest, BrokenThreadsEnd) {
  Files(100);
  options_.steps = 100;
  options_.threads = 4;
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  ASSERT_TRUE(Next(loader));
  loader.Break();
  EXPECT_TRUE(loader.Finish(SteadyNow() + seconds(60)));
  EXPECT_LT(asked().size(), 100u);
}

TEST_F(LoaderTest, SamplesThatShareAFileLoadItOnceEach) {
  Files(3);
  OrderOptions order;
  order.samples = 12;
  order.samples_per_file = 4;
  options_.order = std::make_shared<const EpochOrder>(std::vector<uint32_t>(), order);
  options_.steps = 4;
  options_.batch_size = 3;
  BatchLoader loader(options_);
  ASSERT_TRUE(loader.Start().ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Next(loader));
  EXPECT_TRUE(loader.Finish(SteadyNow() + seconds(60)));
  EXPECT_EQ(options_.stats->Snapshot().files, 12u);
  EXPECT_EQ(options_.stats->Snapshot().bytes, 1200u);
}

}  // namespace
}  // namespace stoker::bench
