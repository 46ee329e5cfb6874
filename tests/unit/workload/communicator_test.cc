#include "workload/comm/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/workload/memory_transport.h"
#include "workload/base/steady.h"
#include "workload/train/trainer.h"

namespace stoker::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Runs `body` once per process, each in a thread.
void Together(std::vector<std::unique_ptr<Communicator>>& all,
              const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (auto& one : all) threads.emplace_back([&body, &one] { body(*one); });
  for (std::thread& thread : threads) thread.join();
}

TEST(SoloCommunicator, AnswersAtOnce) {
  const auto solo = MakeSoloCommunicator();
  EXPECT_EQ(solo->size(), 1u);
  EXPECT_TRUE(solo->Barrier(Nanos(0)).ok());
  const auto all = solo->Gather("x", Nanos(0));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->at(0), "x");
  EXPECT_EQ(*solo->Broadcast("y", Nanos(0)), "y");
  EXPECT_EQ((*solo->Split(3))->size(), 1u);
  EXPECT_TRUE(solo->Finish(Nanos(0)).ok());
  solo->Stop(Status(Code::kIo, "broken"));
  EXPECT_TRUE(solo->News().ok());  // nobody else said so
  EXPECT_EQ(solo->Barrier(Nanos(0)).code(), Code::kCancelled);
}

TEST(Communicator, NobodyLeavesABarrierBeforeAllHaveCome) {
  auto all = MakeMemoryCommunicators(4);
  std::atomic<int> arrivals{0};
  std::atomic<bool> early{false};
  Together(all, [&](Communicator& me) {
    for (int round = 0; round < 300; ++round) {
      arrivals.fetch_add(1);
      if (!me.Barrier(seconds(60)).ok() || arrivals.load() < 4 * (round + 1)) early = true;
    }
    EXPECT_TRUE(me.Finish(seconds(60)).ok());
  });
  EXPECT_FALSE(early);
}

TEST(Communicator, GatherAndBroadcastCarryBytesOfAnySize) {
  auto all = MakeMemoryCommunicators(3);
  const auto text = [](uint64_t rank, size_t bytes) {
    std::string out(bytes, static_cast<char>('a' + rank));
    if (!out.empty()) out.back() = '.';
    return out;
  };
  // 0, less than a piece, a whole piece, more than one.
  for (const size_t bytes : {size_t{0}, size_t{5}, size_t{1} << 20, (size_t{5} << 19) + 1}) {
    Together(all, [&](Communicator& me) {
      const auto got = me.Gather(text(me.rank(), bytes + me.rank()), seconds(60));
      ASSERT_TRUE(got.ok());
      if (me.rank() == 0) {
        ASSERT_EQ(got->size(), 3u);
        for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(got->at(i) == text(i, bytes + i));
      } else {
        EXPECT_TRUE(got->empty());
      }
      const auto told = me.Broadcast(me.rank() == 0 ? text(7, bytes) : "mine", seconds(60));
      ASSERT_TRUE(told.ok());
      EXPECT_TRUE(*told == text(7, bytes));
    });
  }
}

TEST(Communicator, GatherGoesOnWithoutThoseThatAreSilent) {
  auto all = MakeMemoryCommunicators(4);
  ASSERT_TRUE(all[3]->Gather("three", seconds(60)).ok());
  ASSERT_TRUE(all[1]->Gather("one", seconds(60)).ok());
  const auto got = all[0]->Gather("zero", milliseconds(20));
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->at(0), "zero");
  EXPECT_EQ(got->at(1), "one");
  EXPECT_FALSE(got->at(2).has_value());
  EXPECT_EQ(got->at(3), "three");
}

TEST(Communicator, BroadcastEndsWhenProcessZeroIsSilent) {
  auto all = MakeMemoryCommunicators(2);
  EXPECT_EQ(all[1]->Broadcast("", milliseconds(20)).status().code(), Code::kDeadlineExceeded);
}

TEST(Communicator, TimeOutNamesWhoStayedAwayOnAllThatWait) {
  auto all = MakeMemoryCommunicators(4);
  const std::vector<std::string> names = {"process 0 on host a", "process 1 on host b", "process 2 on host c",
                                          "process 3 on host d"};
  for (auto& one : all) one->SetNames(names);
  std::atomic<int> named{0};
  std::vector<std::thread> threads;
  for (const uint64_t rank : {0, 1, 3}) {
    threads.emplace_back([&, rank] {
      const Status status = all[rank]->Barrier(seconds(1));
      if (status.message() == "step barrier: process 2 on host c did not come within 1s") named.fetch_add(1);
      EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(named, 3);
  EXPECT_EQ(all[0]->Barrier(seconds(60)).code(), Code::kCancelled);
}

TEST(Communicator, StopWakesThoseThatWaitAndTellsTheReason) {
  auto all = MakeMemoryCommunicators(3);
  std::vector<std::thread> threads;
  for (const uint64_t rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      EXPECT_EQ(all[rank]->Barrier(std::chrono::hours(1)).code(), Code::kCancelled);
      const Status news = all[rank]->News();
      EXPECT_EQ(news.code(), Code::kIo);
      EXPECT_EQ(news.message(), "process 1: disk gone");
    });
  }
  all[1]->Stop(Status(Code::kIo, "disk gone"));
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all[1]->News().ok());
}

TEST(Communicator, FinishCompletesBarriersThatAStopCutShort) {
  auto all = MakeMemoryCommunicators(3);
  Together(all, [](Communicator& me) {
    for (int round = 0; round < 5; ++round) ASSERT_TRUE(me.Barrier(seconds(60)).ok());
    if (me.rank() == 1) {
      me.Stop(Status(Code::kCancelled, "interrupted"));
    } else {
      EXPECT_EQ(me.Barrier(seconds(60)).code(), Code::kCancelled);
    }
    EXPECT_TRUE(me.Finish(seconds(60)).ok());
  });
}

TEST(Communicator, FinishNamesWhoDoesNotCome) {
  auto all = MakeMemoryCommunicators(2);
  const Status status = all[0]->Finish(milliseconds(20));
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_NE(status.message().find("process 1"), std::string::npos) << status.message();
}

TEST(Communicator, SplitKeepsTheOrderAndSeparatesTheGroups) {
  auto all = MakeMemoryCommunicators(5);
  Together(all, [](Communicator& me) {
    auto part = me.Split(me.rank() % 2);
    ASSERT_TRUE(part.ok());
    EXPECT_EQ((*part)->size(), me.rank() % 2 == 0 ? 3u : 2u);
    EXPECT_EQ((*part)->rank(), me.rank() / 2);
    // A stop in one group is none in the other.
    if (me.rank() % 2 == 1) {
      (*part)->Stop(Status(Code::kIo, "odd"));
    } else {
      for (int i = 0; i < 10; ++i) EXPECT_TRUE((*part)->Barrier(seconds(60)).ok());
      EXPECT_TRUE((*part)->News().ok());
    }
    EXPECT_TRUE((*part)->Finish(seconds(60)).ok());
    EXPECT_TRUE(me.Finish(seconds(60)).ok());
  });
}

TEST(Communicator, ClocksOfOneMachineAgree) {
  auto all = MakeMemoryCommunicators(3);
  Together(all, [](Communicator& me) {
    const auto clocks = me.MeasureClocks(seconds(60));
    ASSERT_TRUE(clocks.ok());
    if (me.rank() != 0) {
      EXPECT_TRUE(clocks->empty());
      return;
    }
    ASSERT_EQ(clocks->size(), 3u);
    for (const Communicator::Clocks& one : *clocks) {
      EXPECT_LT(std::abs(one.steady_s), 10);
      EXPECT_LT(std::abs(one.wall_s), 10);
    }
  });
}

class TrainTogether : public ::testing::Test {
 protected:
  TrainerOptions Options(Communicator& me) const {
    TrainerOptions options;
    options.ranks = 2;
    options.first_rank = 2 * me.rank();
    options.epochs = 3;
    options.steps = 20;
    options.order = {AccessOrder::kV3, 123, 6 * 20, 6};
    options.computation_time = 0.001;
    options.null_storage = true;
    options.others = &me;
    return options;
  }
  std::vector<std::unique_ptr<Communicator>> all_ = MakeMemoryCommunicators(3);
};

TEST_F(TrainTogether, EveryStepEndsAfterTheLastComputeOfAllProcesses) {
  std::vector<TrainingLog> logs(3);
  Together(all_, [&](Communicator& me) {
    logs[me.rank()] = Train(Options(me), CancelToken(), nullptr);
    EXPECT_TRUE(me.Finish(seconds(60)).ok());
  });
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (uint64_t step = 0; step < 20; ++step) {
      double last_compute = 0;
      double first_end = 1e300;
      for (const TrainingLog& log : logs) {
        const double start = std::chrono::duration<double>(log.steady_start).count();
        ASSERT_EQ(log.epochs.size(), 3u);
        ASSERT_TRUE(log.epochs[epoch].complete);
        for (const RankEpoch& rank : log.epochs[epoch].ranks) {
          last_compute = std::max(last_compute, start + rank.steps[step].compute_end);
          first_end = std::min(first_end, start + rank.steps[step].barrier_end);
        }
      }
      EXPECT_GE(first_end, last_compute - 1e-6);  // stamps are doubles of some 1e5 s
    }
  }
}

TEST_F(TrainTogether, AnInterruptionAnywhereEndsAll) {
  std::vector<TrainingLog> logs(3);
  Together(all_, [&](Communicator& me) {
    TrainerOptions options = Options(me);
    options.epochs = 100'000;
    CancelToken cancel;
    uint64_t epochs = 0;
    logs[me.rank()] = Train(options, cancel, [&](uint64_t, const EpochLog&) {
      if (me.rank() == 2 && ++epochs == 2) cancel.Cancel();
    });
    EXPECT_TRUE(me.Finish(seconds(60)).ok());
  });
  for (const TrainingLog& log : logs) {
    EXPECT_TRUE(log.interrupted);
    EXPECT_TRUE(log.failure.ok()) << log.failure.message();
    EXPECT_GE(log.epochs.size(), 2u);
  }
}

TEST_F(TrainTogether, AFailureAnywhereEndsAllAndSaysWhere) {
  std::vector<TrainingLog> logs(3);
  Together(all_, [&](Communicator& me) {
    TrainerOptions options = Options(me);
    options.step_timeout = seconds(60);
    if (me.rank() == 1) {
      // Files that are not there.
      options.null_storage = false;
      options.dataset.folder = "/nonexistent";
      options.dataset.files = 120;
      options.max_read_errors = 3;
    }
    logs[me.rank()] = Train(options, CancelToken(), nullptr);
    EXPECT_TRUE(me.Finish(seconds(60)).ok());
  });
  EXPECT_EQ(logs[1].failure.message(), "stopped after 3 files that could not be read");
  for (const uint64_t other : {0, 2}) {
    EXPECT_EQ(logs[other].failure.message(), "process 1: stopped after 3 files that could not be read");
    EXPECT_FALSE(logs[other].interrupted);
  }
}

}  // namespace
}  // namespace stoker::bench
