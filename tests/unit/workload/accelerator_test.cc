#include "workload/train/accelerator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
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
  const Nanos deadline = SteadyNow() + hours(1);
  std::thread sleeper([&] { SleepUntil(deadline, cancel); });
  cancel.Cancel();
  sleeper.join();
  EXPECT_LT(SteadyNow(), deadline);
}

/// Batches come when the test says so.
class ManualSource final : public BatchSource {
 public:
  explicit ManualSource(Doorbell& bell) : bell_(bell) {}
  Status Start() override { return Status::Ok(); }
  bool TryNext() override {
    if (taken_ == ready_.load()) return false;
    ++taken_;
    return true;
  }
  std::string Awaited() const override { return "batch " + std::to_string(taken_); }
  void Break() override {}
  bool Finish(Nanos) override { return true; }

  void Deliver(uint64_t batches) {
    ready_.fetch_add(batches);
    bell_.Ring();
  }

 private:
  Doorbell& bell_;
  std::atomic<uint64_t> ready_{0};
  uint64_t taken_ = 0;
};

class AcceleratorsTest : public ::testing::Test {
 protected:
  void Make(size_t ranks) {
    for (size_t i = 0; i < ranks; ++i) {
      sources_.push_back(std::make_unique<ManualSource>(bell_));
      driven_.push_back(sources_.back().get());
    }
    ranks_.resize(ranks);
    options_.run_start = SteadyNow();
  }
  Status Run(uint64_t steps) { return Accelerators(options_, driven_, bell_).Run(steps, ranks_); }

  Doorbell bell_;
  AcceleratorOptions options_;
  std::vector<std::unique_ptr<ManualSource>> sources_;
  std::vector<BatchSource*> driven_;
  std::vector<RankEpoch> ranks_;
};

TEST_F(AcceleratorsTest, StampsAreInOrderAndTheBarrierIsBehindEverybodysCompute) {
  Make(5);
  options_.compute = microseconds(200);
  std::thread feeder([&] {
    for (int step = 0; step < 50; ++step) {
      for (auto& source : sources_) source->Deliver(1);
    }
  });
  ASSERT_TRUE(Run(50).ok());
  feeder.join();
  for (const RankEpoch& rank : ranks_) {
    ASSERT_EQ(rank.steps.size(), 50u);
    double last = 0;
    for (size_t i = 0; i < 50; ++i) {
      const StepTimes& step = rank.steps[i];
      EXPECT_GE(step.load_end, last);
      EXPECT_GE(step.compute_end - step.load_end, 200e-6 - 1e-9);
      EXPECT_GE(step.barrier_end, step.compute_end);
      for (const RankEpoch& other : ranks_) EXPECT_GE(step.barrier_end, other.steps[i].compute_end);
      last = step.barrier_end;
    }
    EXPECT_EQ(rank.block_end, last);
  }
}

TEST_F(AcceleratorsTest, ALateBatchDelaysItsAcceleratorAndEverybodysStep) {
  Make(2);
  options_.compute = milliseconds(1);
  sources_[0]->Deliver(1);
  std::atomic<double> delivered{0};
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(20));
    delivered = std::chrono::duration<double>(SteadyNow() - options_.run_start).count();
    sources_[1]->Deliver(1);
  });
  ASSERT_TRUE(Run(1).ok());
  late.join();
  EXPECT_GE(ranks_[1].steps[0].load_end, delivered);
  EXPECT_LT(ranks_[0].steps[0].load_end, delivered);
  EXPECT_EQ(ranks_[0].steps[0].barrier_end, ranks_[1].steps[0].barrier_end);
}

TEST_F(AcceleratorsTest, ATimeOutNamesRankAndBatchAndKeepsFinishedSteps) {
  Make(3);
  options_.first_rank = 8;
  options_.step_timeout = milliseconds(30);
  sources_[0]->Deliver(2);
  sources_[1]->Deliver(1);
  sources_[2]->Deliver(2);
  const Status status = Run(5);
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "rank 9: batch 1 was not read within 30ms; the storage does not answer");
  EXPECT_EQ(ranks_[0].steps.size(), 1u);
}

TEST_F(AcceleratorsTest, ATimeOutNamesAllThatWait) {
  Make(12);
  options_.step_timeout = milliseconds(10);
  EXPECT_EQ(
      Run(1).message(),
      "rank 0: batch 0 was not read within 10ms; the storage does not answer (waiting too: ranks 1, 2, 3, "
      "4, 5, 6, 7 and 4 more)");
}

TEST_F(AcceleratorsTest, CancelEndsALongCompute) {
  Make(1);
  options_.compute = hours(1);
  sources_[0]->Deliver(1);
  std::thread canceller([&] { options_.cancel.Cancel(); });
  EXPECT_EQ(Run(1).code(), Code::kCancelled);
  canceller.join();
}

TEST_F(AcceleratorsTest, SomebodyElsesReasonEndsIt) {
  Make(1);
  std::atomic<bool> bad{false};
  options_.check = [&] { return bad ? Status(Code::kIo, "too many") : Status::Ok(); };
  std::thread other([&] {
    bad = true;
    bell_.Ring();
  });
  EXPECT_EQ(Run(1).message(), "too many");
  other.join();
}

TEST_F(AcceleratorsTest, OthersAreMetOnceAStepAfterAllHere) {
  Make(2);
  for (auto& source : sources_) source->Deliver(3);
  int met = 0;
  options_.meet_others = [&](Nanos timeout) {
    EXPECT_EQ(timeout, options_.step_timeout);
    return ++met < 3 ? Status::Ok() : Status(Code::kDeadlineExceeded, "rank 7 did not come");
  };
  EXPECT_EQ(Run(3).message(), "rank 7 did not come");
  EXPECT_EQ(met, 3);
  EXPECT_EQ(ranks_[1].steps.size(), 2u);  // the third did not end
}

TEST_F(AcceleratorsTest, NoStepsAreDoneAtOnce) {
  Make(2);
  EXPECT_TRUE(Run(0).ok());
  EXPECT_TRUE(ranks_[0].steps.empty());
}

}  // namespace
}  // namespace stoker::bench
