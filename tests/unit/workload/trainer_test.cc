#include "workload/train/trainer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "cache/base/fd.h"
#include "cache/base/units.h"
#include "tests/support/temp_dir.h"
#include "workload/data/datagen.h"
#include "workload/report/report.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() {
    options_.dataset.folder = dir_.path();
    options_.dataset.files = 24;
    options_.dataset.record_bytes = 20'000;
    options_.ranks = 3;
    options_.epochs = 2;
    options_.batch_size = 2;
    options_.steps = 4;
    options_.read_threads = 2;
    options_.computation_time = 0.001;
    options_.order.samples = 24;
    options_.order.ranks = 3;
  }
  void Generate() { ASSERT_TRUE(GenerateDataset({options_.dataset, 2, nullptr}, CancelToken()).ok()); }
  static size_t Threads() {
    return static_cast<size_t>(std::distance(fs::directory_iterator("/proc/self/task"), {}));
  }

  const stoker::testing::TempDir dir_;
  TrainerOptions options_;
};

TEST_F(TrainerTest, EveryRankDoesEveryStepAndStampsDoNotDecrease) {
  Generate();
  uint64_t reported = 0;
  const TrainingLog log = Train(options_, CancelToken(), [&](uint64_t epoch, const EpochLog& done) {
    EXPECT_EQ(epoch, reported++);
    EXPECT_TRUE(done.complete);
  });
  EXPECT_EQ(reported, 2u);
  EXPECT_TRUE(log.failure.ok());
  EXPECT_FALSE(log.interrupted);
  EXPECT_EQ(log.reads.files, 48u);
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 24; ++i) bytes += options_.dataset.FileBytes(i);
  EXPECT_EQ(log.reads.bytes, 2 * bytes);
  double epoch_start = 0;
  for (const EpochLog& epoch : log.epochs) {
    ASSERT_EQ(epoch.ranks.size(), 3u);
    for (const RankEpoch& rank : epoch.ranks) {
      ASSERT_EQ(rank.steps.size(), 4u);
      EXPECT_GE(rank.block_start, epoch_start);
      EXPECT_GE(rank.iter_start, rank.block_start);
      double last = rank.iter_start;
      for (const StepTimes& step : rank.steps) {
        EXPECT_GE(step.load_end, last);
        EXPECT_GE(step.compute_end - step.load_end, 0.001 - 1e-9);
        EXPECT_GE(step.barrier_end, step.compute_end);
        last = step.barrier_end;
      }
      EXPECT_EQ(rank.block_end, last);
      EXPECT_GE(rank.loader_end, rank.block_end);
      // The barrier: nobody's step ends before everybody's compute.
      for (size_t i = 0; i < 4; ++i) {
        for (const RankEpoch& other : epoch.ranks) {
          EXPECT_GE(rank.steps[i].barrier_end, other.steps[i].compute_end);
        }
      }
    }
    epoch_start = epoch.ranks[0].block_end;
  }
}

TEST_F(TrainerTest, UnreadableFilesEndTheRunAtTheLimit) {
  Generate();
  for (uint64_t i = 0; i < 24; ++i) fs::remove(options_.dataset.Path(i));
  options_.max_read_errors = 5;
  options_.epochs = 50;
  const TrainingLog log = Train(options_, CancelToken(), nullptr);
  EXPECT_EQ(log.failure.code(), Code::kIo);
  EXPECT_EQ(log.failure.message(), "stopped after 5 files that could not be read");
  EXPECT_GE(log.reads.errors, 5u);
  EXPECT_EQ(log.epochs.size(), 1u);
}

TEST_F(TrainerTest, AFewUnreadableFilesAreCounted) {
  Generate();
  fs::remove(options_.dataset.Path(7));
  const TrainingLog log = Train(options_, CancelToken(), nullptr);
  EXPECT_TRUE(log.failure.ok());
  EXPECT_EQ(log.reads.errors, 2u);  // once an epoch
  EXPECT_TRUE(log.epochs.back().complete);
}

TEST_F(TrainerTest, CancelKeepsWhatWasDone) {
  Generate();
  options_.epochs = 1000;
  CancelToken cancel;
  const TrainingLog log = Train(options_, cancel, [&](uint64_t epoch, const EpochLog&) {
    if (epoch == 1) cancel.Cancel();
  });
  EXPECT_TRUE(log.interrupted);
  EXPECT_FALSE(log.stuck);
  ASSERT_EQ(log.epochs.size(), 2u);
  EXPECT_TRUE(log.epochs[1].complete);
}

TEST_F(TrainerTest, CancelInTheMiddleOfALongComputeEndsSoon) {
  options_.null_storage = true;
  options_.computation_time = 3600;
  CancelToken cancel;
  std::thread canceller([&] { cancel.Cancel(); });
  const TrainingLog log = Train(options_, cancel, nullptr);
  canceller.join();
  EXPECT_TRUE(log.interrupted);
  if (!log.epochs.empty()) {
    EXPECT_FALSE(log.epochs[0].complete);
  }
}

class TrainerDeadRead : public TrainerTest, public ::testing::WithParamInterface<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TrainerDeadRead, ::testing::Values(1, 3));

TEST_P(TrainerDeadRead, IsGivenUp) {
  options_.ranks = options_.order.ranks = GetParam();
  Generate();
  options_.order.order = AccessOrder::kV2;
  const std::string dead = options_.dataset.Path(0);
  fs::remove(dead);
  ASSERT_EQ(::mkfifo(dead.c_str(), 0600), 0);  // opening it waits for a writer
  options_.step_timeout = milliseconds(300);
  options_.stop_grace = milliseconds(100);
  const size_t threads = Threads();
  const TrainingLog log = Train(options_, CancelToken(), nullptr);
  EXPECT_TRUE(log.stuck);
  EXPECT_EQ(log.failure.code(), Code::kDeadlineExceeded);
  EXPECT_NE(log.failure.message().find("rank"), std::string::npos) << log.failure.message();
  EXPECT_NE(log.failure.message().find("300ms"), std::string::npos) << log.failure.message();
  // Let the given-up threads go before the test ends.
  const Fd writer(::open(dead.c_str(), O_WRONLY | O_CLOEXEC));
  while (Threads() > threads) std::this_thread::yield();
}

TEST_F(TrainerTest, AFileMadeShorterInTheMiddleOfTheRunIsCounted) {
  options_.dataset.record_bytes = 300'000;
  options_.reader.shape = ReadShape::kNpz;
  Generate();
  const TrainingLog log = Train(options_, CancelToken(), [&](uint64_t epoch, const EpochLog&) {
    if (epoch == 0) fs::resize_file(options_.dataset.Path(5), 1000);
  });
  EXPECT_TRUE(log.failure.ok());
  EXPECT_EQ(log.reads.errors, 1u);
  EXPECT_EQ(log.reads.files, 47u);
  EXPECT_NE(log.reads.first_error.find(options_.dataset.Path(5)), std::string::npos);
}

TEST_F(TrainerTest, AFileThatVanishesInTheMiddleOfTheRunIsCounted) {
  Generate();
  const TrainingLog log = Train(options_, CancelToken(), [&](uint64_t epoch, const EpochLog&) {
    if (epoch == 0) fs::remove(options_.dataset.Path(5));
  });
  EXPECT_EQ(log.reads.errors, 1u);
  EXPECT_EQ(log.reads.first_error, options_.dataset.Path(5) + ": open: No such file or directory");
  EXPECT_TRUE(log.epochs.back().complete);
}

TEST_F(TrainerTest, StepsOfAllEpochsTogetherCanBeCapped) {
  Generate();
  options_.epochs = 5;
  options_.max_steps = 10;  // of 4 + 4 + 4 …
  const TrainingLog log = Train(options_, CancelToken(), nullptr);
  EXPECT_EQ(log.epochs_planned, 3u);
  ASSERT_EQ(log.epochs.size(), 3u);
  EXPECT_EQ(log.epochs[1].ranks[2].steps.size(), 4u);
  EXPECT_EQ(log.epochs[2].ranks[2].steps.size(), 2u);
  EXPECT_TRUE(log.epochs[2].complete);
  EXPECT_EQ(log.reads.files, 60u);
}

class TrainerStream : public TrainerTest {
 protected:
  TrainerStream() {
    options_.framework = Framework::kTensorFlow;
    options_.loop = Edition::kV20;
    options_.dataset.format = options_.reader.format = Format::kTfRecord;
    options_.dataset.files = 12;
    options_.dataset.samples_per_file = 10;
    options_.batch_size = 5;
    options_.order.samples = 120;
    options_.steps = 8;  // 120 / 5 / 3
    options_.epochs = 3;
  }
  uint64_t AllBytes() const {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < options_.dataset.files; ++i) bytes += options_.dataset.FileBytes(i);
    return bytes;
  }
};

TEST_F(TrainerStream, RanksShareTheFilesAndTheStreamOutlivesTheEpoch) {
  Generate();
  const size_t threads = Threads();
  size_t between = 0;
  const TrainingLog log = Train(options_, CancelToken(), [&](uint64_t epoch, const EpochLog&) {
    if (epoch == 0) between = Threads();
  });
  ASSERT_TRUE(log.failure.ok()) << log.failure.message();
  EXPECT_EQ(between, threads + 3 * 4);  // a rank has 4 files, and each may be open
  EXPECT_EQ(Threads(), threads);
  ASSERT_EQ(log.epochs.size(), 3u);
  for (const EpochLog& epoch : log.epochs) {
    EXPECT_TRUE(epoch.complete);
    for (const RankEpoch& rank : epoch.ranks) EXPECT_EQ(rank.loader_end, rank.block_end);
  }
  EXPECT_EQ(log.reads.bytes, 3 * AllBytes());
}

TEST_F(TrainerStream, InV05EveryRankReadsEverythingAnewEachEpoch) {
  options_.loop = Edition::kV05;
  Generate();
  const TrainingLog log = Train(options_, CancelToken(), nullptr);
  ASSERT_TRUE(log.failure.ok()) << log.failure.message();
  EXPECT_EQ(log.reads.bytes, 3 * 3 * AllBytes());
}

TEST_F(TrainerStream, UnreadableFilesEndTheRunAtTheLimit) {
  Generate();
  for (uint64_t i = 0; i < 12; ++i) fs::remove(options_.dataset.Path(i));
  const TrainingLog log = Train(options_, CancelToken(), nullptr);
  EXPECT_EQ(log.failure.message(), "stopped after 100 files that could not be read");
  EXPECT_FALSE(log.stuck);
}

TEST_F(TrainerTest, MemoryIsBoundedBeforehand) {
  options_.ranks = options_.order.ranks = 256;
  options_.read_threads = 8;
  options_.steps = 100;
  options_.reader.piece_bytes = DefaultPieceBytes(Format::kJpeg, ReadShape::kWhole, 256 * 8);
  const ReadingMemory memory = MemoryOf(options_);
  EXPECT_EQ(memory.threads, 2048u);
  EXPECT_LE(memory.threads * memory.buffer_bytes, kGiB);
  EXPECT_EQ(memory.stamp_bytes, 2 * 100 * 256 * sizeof(StepTimes));
}

TEST_F(TrainerTest, NoStepsIsAnEmptyRun) {
  options_.steps = 0;
  options_.null_storage = true;
  const TrainingLog log = Train(options_, CancelToken(), nullptr);
  ASSERT_EQ(log.epochs.size(), 2u);
  EXPECT_TRUE(log.epochs[0].complete);
  EXPECT_EQ(ComputeRun(MetricOptions(), log.epochs).au_mean_percent, 0);
}

}  // namespace
}  // namespace stoker::bench
