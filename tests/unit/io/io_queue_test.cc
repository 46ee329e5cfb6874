#include "cache/io/io_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/random.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

using testing::TempDir;
using testing::TestSeed;

bool SwitchedOff() {
  return std::getenv("STOKER_DISABLE_IO_URING") != nullptr;
}

class IoQueueTest : public ::testing::TestWithParam<IoMode> {
 protected:
  void SetUp() override {
    if (GetParam() == IoMode::kIoUring && !IoUringUnavailableReason().empty()) {
      GTEST_SKIP() << IoUringUnavailableReason();
    }
    fd_ = Fd(::open((dir_ / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd_.valid());
  }
  std::unique_ptr<IoQueue> Make(unsigned depth) {
    Result<std::unique_ptr<IoQueue>> made = MakeIoQueue(GetParam(), depth);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return std::move(made).value();
  }
  /// Waits until everything is done; tag → result.
  static std::map<uint64_t, int64_t> Drain(IoQueue& queue) {
    std::map<uint64_t, int64_t> results;
    while (queue.pending() > 0) {
      std::vector<IoQueue::Completion> done;
      EXPECT_TRUE(queue.Wait(done).ok());
      EXPECT_FALSE(done.empty());
      for (const IoQueue::Completion& one : done) {
        EXPECT_TRUE(results.emplace(one.tag, one.result).second) << "completed twice";
      }
    }
    return results;
  }
  std::vector<std::byte> RandomBytes(size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_.Next());
    return bytes;
  }

  TempDir dir_;
  Fd fd_;
  Random random_{TestSeed()};
};

TEST_P(IoQueueTest, RandomReadsAndWritesMatchAModel) {
  constexpr size_t kFileBytes = 1 << 20;
  std::vector<std::byte> model = RandomBytes(kFileBytes);
  ASSERT_EQ(::pwrite(fd_.get(), model.data(), model.size(), 0), static_cast<ssize_t>(model.size()));
  const std::unique_ptr<IoQueue> queue = Make(8);
  for (int round = 0; round < 40; ++round) {
    // Writes to disjoint eighths of the file, then reads of anything: operations of one batch have no order.
    std::vector<std::vector<std::byte>> written(8);
    for (uint64_t i = 0; i < 8; ++i) {
      const uint64_t begin = i * (kFileBytes / 8) + random_.Below(kFileBytes / 16);
      written[i] = RandomBytes(1 + random_.Below(kFileBytes / 16));
      ASSERT_TRUE(queue->QueueWrite(fd_.get(), written[i], begin, i));
      std::copy(written[i].begin(), written[i].end(), model.begin() + static_cast<ptrdiff_t>(begin));
    }
    for (const auto& [tag, result] : Drain(*queue))
      EXPECT_EQ(result, static_cast<int64_t>(written[tag].size()));

    std::vector<std::vector<std::byte>> read(8);
    std::vector<uint64_t> offsets(8);
    for (uint64_t i = 0; i < 8; ++i) {
      offsets[i] = random_.Below(kFileBytes);
      read[i].resize(1 + random_.Below(100'000));
      ASSERT_TRUE(queue->QueueRead(fd_.get(), read[i], offsets[i], i));
    }
    for (const auto& [tag, result] : Drain(*queue)) {
      ASSERT_EQ(result,
                static_cast<int64_t>(std::min<uint64_t>(read[tag].size(), kFileBytes - offsets[tag])));
      EXPECT_TRUE(std::equal(read[tag].begin(), read[tag].begin() + result,
                             model.begin() + static_cast<ptrdiff_t>(offsets[tag])));
    }
  }
}

TEST_P(IoQueueTest, AtAndBehindTheEnd) {
  ASSERT_EQ(::pwrite(fd_.get(), "abcde", 5, 0), 5);
  const std::unique_ptr<IoQueue> queue = Make(4);
  std::vector<std::byte> a(10), b(10), c(10);
  ASSERT_TRUE(queue->QueueRead(fd_.get(), a, 3, 30));
  ASSERT_TRUE(queue->QueueRead(fd_.get(), b, 5, 31));
  ASSERT_TRUE(queue->QueueRead(fd_.get(), c, 1 << 20, 32));
  const auto results = Drain(*queue);
  EXPECT_EQ(results.at(30), 2);
  EXPECT_EQ(results.at(31), 0);
  EXPECT_EQ(results.at(32), 0);
  EXPECT_EQ(static_cast<char>(a[0]), 'd');
}

TEST_P(IoQueueTest, ErrorsComePerOperation) {
  const std::unique_ptr<IoQueue> queue = Make(4);
  std::vector<std::byte> to(16);
  ASSERT_EQ(::pwrite(fd_.get(), "0123456789abcdef", 16, 0), 16);
  const Fd directory(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd read_only(::open((dir_ / "file").c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::byte> other(16);
  ASSERT_TRUE(queue->QueueRead(-1, to, 0, 1));
  ASSERT_TRUE(queue->QueueRead(directory.get(), to, 0, 2));
  ASSERT_TRUE(queue->QueueWrite(read_only.get(), to, 0, 3));
  ASSERT_TRUE(queue->QueueRead(fd_.get(), other, 0, 4));
  const auto results = Drain(*queue);
  EXPECT_EQ(results.at(1), -EBADF);
  EXPECT_EQ(results.at(2), -EISDIR);
  EXPECT_EQ(results.at(3), -EBADF);
  EXPECT_EQ(results.at(4), 16);
}

TEST_P(IoQueueTest, DepthBoundsWhatIsPending) {
  const std::unique_ptr<IoQueue> queue = Make(3);
  EXPECT_EQ(queue->depth(), 3u);
  std::vector<std::byte> to(1);
  for (uint64_t round = 0; round < 10; ++round) {
    for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(queue->QueueRead(fd_.get(), to, 0, i));
    EXPECT_FALSE(queue->QueueRead(fd_.get(), to, 0, 9));
    EXPECT_FALSE(queue->QueueWrite(fd_.get(), to, 0, 9));
    EXPECT_EQ(queue->pending(), 3u);
    EXPECT_EQ(Drain(*queue).size(), 3u);
    EXPECT_EQ(queue->pending(), 0u);
  }
}

TEST_P(IoQueueTest, WaitingWithNothingPendingReturns) {
  const std::unique_ptr<IoQueue> queue = Make(1);
  std::vector<IoQueue::Completion> done;
  EXPECT_TRUE(queue->Wait(done).ok());
  EXPECT_TRUE(done.empty());
}

TEST_P(IoQueueTest, DroppedQueuedOperationsTouchNothing) {
  ASSERT_EQ(::pwrite(fd_.get(), "unchanged", 9, 0), 9);
  const std::vector<std::byte> zeros(9);
  {
    const std::unique_ptr<IoQueue> queue = Make(4);
    ASSERT_TRUE(queue->QueueWrite(fd_.get(), zeros, 0, 1));
  }
  char now[9];
  ASSERT_EQ(::pread(fd_.get(), now, 9, 0), 9);
  EXPECT_EQ(std::string(now, 9), "unchanged");
}

INSTANTIATE_TEST_SUITE_P(Kinds, IoQueueTest,
                         ::testing::Values(IoMode::kAuto, IoMode::kIoUring, IoMode::kPread),
                         [](const auto& kind) -> std::string {
                           if (kind.param == IoMode::kAuto) return "Auto";
                           return kind.param == IoMode::kIoUring ? "IoUring" : "Pread";
                         });

// A ring only: a pread of an empty pipe inside Wait() would rightly wait for ever.
TEST(RingQueue, DestructionCancelsWhatIsUnderWay) {
  if (!IoUringUnavailableReason().empty()) GTEST_SKIP() << IoUringUnavailableReason();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd reading(ends[0]), writing(ends[1]);
  const TempDir dir;
  const Fd file(::open((dir / "f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  std::vector<std::byte> never(64), soon(64);
  std::unique_ptr<IoQueue> queue = std::move(MakeIoQueue(IoMode::kIoUring, 4)).value();
  ASSERT_TRUE(queue->QueueRead(reading.get(), never, 0, 1));
  ASSERT_TRUE(queue->QueueRead(file.get(), soon, 0, 2));
  std::vector<IoQueue::Completion> done;
  ASSERT_TRUE(queue->Wait(done).ok());
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 2u);
  EXPECT_EQ(queue->pending(), 1u);
  queue.reset();  // must return though nobody ever writes into the pipe
  ASSERT_EQ(::write(writing.get(), "x", 1), 1);
  EXPECT_EQ(never[0], std::byte{0});
}

TEST(IoQueue, KindFollowsTheModeAndTheKernel) {
  const auto kind = [](IoMode mode) { return std::move(MakeIoQueue(mode, 2)).value()->kind(); };
  EXPECT_EQ(kind(IoMode::kPread), "pread");
  const std::string reason = IoUringUnavailableReason();
  EXPECT_EQ(kind(IoMode::kAuto), reason.empty() ? "io_uring" : "pread");
  if (SwitchedOff()) {
    EXPECT_EQ(reason, "switched off by STOKER_DISABLE_IO_URING");
    const auto refused = MakeIoQueue(IoMode::kIoUring, 2);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), Code::kUnsupported);
    EXPECT_EQ(refused.status().message(), "io_uring: switched off by STOKER_DISABLE_IO_URING");
  }
}

TEST(IoQueue, ImpossibleDepthsAreNamed) {
  for (const unsigned depth : {0u, 4097u}) {
    const auto refused = MakeIoQueue(IoMode::kAuto, depth);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(refused.status().message(), "I/O queue depth " + std::to_string(depth) + ": must be 1 to 4096");
  }
}

}  // namespace
}  // namespace stoker
