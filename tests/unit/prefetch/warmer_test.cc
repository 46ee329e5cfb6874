#include "prefetch/warmer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "tests/support/fetch_rig.h"

namespace stoker {
namespace {

using testing::FaultUfs;
using testing::FetchRig;
using ::testing::HasSubstr;
using testing::PatternBytes;
using State = WarmProgress::State;
constexpr uint64_t kPart = FetchRig::kPart;

class WarmerTest : public ::testing::Test {
 protected:
  WarmProgress Finish(WarmJobId id) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      WarmProgress progress = warmer_->Progress(id).value();
      if (progress.state != State::kRunning) return progress;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "the job does not end";
    return warmer_->Progress(id).value();
  }
  WarmProgress Warm(std::vector<std::string> paths) {
    return Finish(warmer_->Start(std::move(paths)).value());
  }
  void Make(FetchEngineOptions options, uint64_t limit, CachePolicy policy = CachePolicy::kAuto) {
    warmer_.reset();
    rig_ = std::make_unique<FetchRig>(options, limit, kPart, policy);
    warmer_ = std::make_unique<Warmer>(rig_->faults, *rig_->store, *rig_->engine, rig_->metrics, rig_->clock);
  }
  void SetUp() override { Make(FetchRig::DefaultOptions(), 256 * kMiB); }
  void TearDown() override { warmer_.reset(); }

  std::unique_ptr<FetchRig> rig_;
  std::unique_ptr<Warmer> warmer_;
};

TEST_F(WarmerTest, BringsATreeInOnce) {
  uint64_t bytes = 0;
  for (int d = 0; d < 10; ++d) {
    for (int f = 0; f < 30; ++f) {
      const uint64_t size = static_cast<uint64_t>(f) * 20000;
      rig_->mem.Put("set/d" + std::to_string(d) + "/f" + std::to_string(f), PatternBytes(size, 1));
      bytes += size;
    }
  }
  rig_->mem.Put("other", PatternBytes(1000, 2));
  rig_->mem.PutOther("set/link", S_IFLNK);
  rig_->mem.PutOther("set/fifo", S_IFIFO);
  rig_->mem.PutOther("set/emptydir", S_IFDIR);
  const WarmProgress progress = Warm({"set/"});
  EXPECT_EQ(progress.state, State::kDone);
  EXPECT_TRUE(progress.walk_finished);
  EXPECT_EQ(progress.files_total, 300u);
  EXPECT_EQ(progress.files_done, 300u);
  EXPECT_EQ(progress.files_failed, 0u);
  EXPECT_EQ(progress.files_skipped, 2u);
  EXPECT_EQ(progress.bytes_total, bytes);
  EXPECT_EQ(progress.bytes_done, bytes);
  EXPECT_EQ(progress.bytes_fetched, bytes);
  EXPECT_EQ(rig_->metrics.ufs_bytes.value(), bytes);
  EXPECT_EQ(rig_->faults.BytesRead("other"), 0u);
  const auto file = rig_->Open("set/d3/f29");
  EXPECT_TRUE(file->object().complete());
  EXPECT_EQ(rig_->Read(file, {0, 1ULL << 30}).value(), rig_->mem.Content("set/d3/f29"));
  // Again: everything is there.
  const WarmProgress again = Warm({""});
  EXPECT_EQ(again.state, State::kDone);
  EXPECT_EQ(again.files_done, 301u);
  EXPECT_EQ(again.bytes_done, bytes + 1000);
  EXPECT_EQ(again.bytes_fetched, 1000u);
  EXPECT_EQ(warmer_->List().size(), 2u);
}

TEST_F(WarmerTest, HardLinksCountEachAndAreFetchedOnce) {
  rig_->mem.Put("a", PatternBytes(5 * kPart, 1));
  for (const char* name : {"b", "c", "d/e"}) rig_->mem.Link("a", name);
  const WarmProgress progress = Warm({""});
  EXPECT_EQ(progress.state, State::kDone);
  EXPECT_EQ(progress.files_done, 4u);
  EXPECT_EQ(progress.bytes_total, 20 * kPart);
  EXPECT_EQ(progress.bytes_done, 20 * kPart);
  EXPECT_EQ(progress.bytes_fetched, 5 * kPart);
  EXPECT_EQ(rig_->metrics.ufs_bytes.value(), 5 * kPart);
}

TEST_F(WarmerTest, SaysWhatFailedAndBringsTheRest) {
  for (const char* name : {"ok", "denied", "broken", "d/ok", "closed/f"})
    rig_->mem.Put(name, PatternBytes(1000, 1));
  rig_->faults.Add(
      {.op = FaultUfs::Op::kOpen, .path = "denied", .times = 9, .error = Status::FromErrno(EACCES, "no")});
  rig_->faults.Add(
      {.op = FaultUfs::Op::kRead, .path = "broken", .times = 9, .error = Status::FromErrno(EIO, "bad")});
  rig_->faults.Add(
      {.op = FaultUfs::Op::kList, .path = "closed", .times = 9, .error = Status::FromErrno(EACCES, "shut")});
  const WarmProgress progress = Warm({"", "missing"});
  EXPECT_EQ(progress.state, State::kFailed);
  EXPECT_EQ(progress.files_total, 6u);
  EXPECT_EQ(progress.files_done, 2u);
  EXPECT_EQ(progress.files_failed, 4u);
  EXPECT_EQ(progress.bytes_done, 2000u);
  std::map<std::string, std::string> reasons(progress.failures.begin(), progress.failures.end());
  EXPECT_EQ(reasons.size(), 4u);
  EXPECT_THAT(reasons["denied"], HasSubstr("Permission denied"));
  EXPECT_THAT(reasons["broken"], HasSubstr("Input/output error"));
  EXPECT_THAT(reasons["closed"], HasSubstr("shut"));
  EXPECT_THAT(reasons["missing"], HasSubstr("No such file"));
}

TEST_F(WarmerTest, AFileThatChangesIsTriedOnceMore) {
  rig_->mem.Put("once", PatternBytes(1000, 1));
  rig_->mem.Put("always", PatternBytes(1000, 1));
  rig_->faults.Add({.op = FaultUfs::Op::kRead, .path = "once", .before = [&] {
                      rig_->mem.Overwrite("once", PatternBytes(1500, 2));
                    }});
  rig_->faults.Add({.op = FaultUfs::Op::kRead, .path = "always", .times = 99, .before = [&] {
                      rig_->mem.Overwrite("always", PatternBytes(1000, 3));
                    }});
  const WarmProgress progress = Warm({""});
  EXPECT_EQ(progress.state, State::kFailed);
  EXPECT_EQ(progress.files_done, 1u);
  EXPECT_EQ(progress.bytes_done, 1500u);
  EXPECT_EQ(progress.bytes_total, 2500u);
  ASSERT_EQ(progress.failures.size(), 1u);
  EXPECT_EQ(progress.failures[0].first, "always");
  EXPECT_EQ(progress.failures[0].second, "changed while being read");
  EXPECT_EQ(rig_->faults.Count(FaultUfs::Op::kRead, "always"), 2u);
}

// The cache is full of something else. What is asked for by name gets its room, unless the policy says that
// what is there stays: then the job says so, at once.
TEST_F(WarmerTest, AFullCacheMakesRoomForAJobUnlessItRetains) {
  for (const CachePolicy policy :
       {CachePolicy::kAuto, CachePolicy::kLru, CachePolicy::kS3Fifo, CachePolicy::kRetain}) {
    SCOPED_TRACE(PolicyName(policy));
    Make(FetchRig::DefaultOptions(), 40 * kPart, policy);
    for (int i = 10; i < 60; ++i) rig_->mem.Put("old/f" + std::to_string(i), PatternBytes(kPart, 1));
    for (int i = 10; i < 40; ++i) rig_->mem.Put("new/f" + std::to_string(i), PatternBytes(kPart, 2));
    Warm({"old"});
    ASSERT_TRUE(rig_->store->Flush(std::chrono::seconds(20)).ok());
    const uint64_t before = rig_->metrics.ufs_bytes.value();
    const WarmProgress progress = Warm({"new"});
    if (policy != CachePolicy::kRetain) {
      EXPECT_EQ(progress.state, State::kDone);
      EXPECT_EQ(progress.files_done, 30u);
      EXPECT_GE(rig_->metrics.cache_evicted_objects.value(), 20u);
      continue;
    }
    EXPECT_EQ(progress.state, State::kFailed);
    EXPECT_GE(progress.files_failed, 28u) << "the last page of the cache may have had room";
    EXPECT_EQ(
        progress.failures.at(0).second,
        "no room in the cache: the paths of this job need " + FormatBytesExact(30 * kPart) +
            ", cache.size is " + FormatBytesExact(40 * kPart) +
            " and it keeps what it has (cache.policy: retain); set cache.policy: auto, which makes room for "
            "warm jobs, or raise cache.size");
    EXPECT_EQ(rig_->metrics.cache_evicted_objects.value(), 0u);
    EXPECT_GT(rig_->metrics.cache_refused.value(), 0u);
    EXPECT_LE(rig_->metrics.ufs_bytes.value() - before, 8 * kPart) << "nothing is read for nothing";
  }
}

TEST_F(WarmerTest, ADatasetThatDoesNotFitStopsFetching) {
  Make(FetchRig::DefaultOptions(), 20 * kPart);
  for (int i = 100; i < 200; ++i) rig_->mem.Put("f" + std::to_string(i), PatternBytes(kPart, 1));
  const WarmProgress progress = Warm({""});
  EXPECT_EQ(progress.state, State::kFailed);
  EXPECT_EQ(progress.files_total, 100u);
  EXPECT_GE(progress.files_done, 10u);
  EXPECT_LT(progress.files_done, 21u);
  EXPECT_EQ(progress.files_done + progress.files_failed, 100u);
  EXPECT_EQ(progress.failures.at(0).second, "no room in the cache: the paths of this job need " +
                                                FormatBytesExact(100 * kPart) + ", cache.size is " +
                                                FormatBytesExact(20 * kPart) + "; raise it or warm less");
  // What it brought in was not thrown out again for the rest, and the rest was not read for nothing.
  EXPECT_EQ(rig_->metrics.cache_evicted_objects.value(), 0u);
  EXPECT_LE(rig_->metrics.ufs_bytes.value(), 20 * kPart);
  EXPECT_TRUE(rig_->Idle());
}

TEST_F(WarmerTest, CancelEndsSoonAndLeavesNothingQueued) {
  for (int i = 0; i < 500; ++i) rig_->mem.Put("f" + std::to_string(i), PatternBytes(1000, 1));
  rig_->faults.Add({.op = FaultUfs::Op::kRead, .times = 1000, .hang = true});
  const WarmJobId id = warmer_->Start({""}).value();
  ASSERT_TRUE(rig_->faults.WaitForHanging(3));
  EXPECT_EQ(warmer_->Progress(id)->state, State::kRunning);
  EXPECT_LE(rig_->metrics.fetch_queued.value(), 8);  // bounded, whatever the tree
  ASSERT_TRUE(warmer_->Cancel(id).ok());
  rig_->faults.Release();
  const WarmProgress progress = Finish(id);
  EXPECT_EQ(progress.state, State::kCancelled);
  EXPECT_TRUE(rig_->Idle());
  EXPECT_LT(progress.files_done, 500u);
  EXPECT_EQ(warmer_->Cancel(id + 1).code(), Code::kNotFound);
  EXPECT_EQ(warmer_->Progress(id + 1).status().code(), Code::kNotFound);
}

TEST_F(WarmerTest, RateAndTimeComeFromTheClock) {
  rig_->mem.Put("a", PatternBytes(kPart, 1));
  rig_->mem.Put("b", PatternBytes(kPart, 1));
  rig_->faults.Add({.op = FaultUfs::Op::kRead, .path = "b", .hang = true});
  const WarmJobId id = warmer_->Start({""}).value();
  ASSERT_TRUE(rig_->faults.WaitForHanging(1));
  while (warmer_->Progress(id)->bytes_fetched < kPart || !warmer_->Progress(id)->walk_finished) {
    std::this_thread::yield();
  }
  rig_->clock.Advance(std::chrono::seconds(2));
  WarmProgress progress = warmer_->Progress(id).value();
  EXPECT_DOUBLE_EQ(progress.seconds, 2);
  EXPECT_DOUBLE_EQ(progress.bytes_per_second, kPart / 2.0);
  ASSERT_TRUE(progress.walk_finished);
  EXPECT_DOUBLE_EQ(progress.eta_seconds, 2);
  rig_->clock.Advance(std::chrono::seconds(20));
  EXPECT_DOUBLE_EQ(warmer_->Progress(id)->bytes_per_second, 0);
  EXPECT_DOUBLE_EQ(warmer_->Progress(id)->eta_seconds, -1);
  rig_->faults.Release();
  progress = Finish(id);
  rig_->clock.Advance(std::chrono::seconds(5));
  EXPECT_DOUBLE_EQ(warmer_->Progress(id)->seconds, 22);
}

TEST_F(WarmerTest, ASlowUfsIsAskedSeveralThingsAtOnceAndTheTotalsStayTheSame) {
  uint64_t bytes = 0;
  for (int i = 0; i < 400; ++i) {
    const uint64_t size = static_cast<uint64_t>(i) * 10;
    rig_->mem.Put("d" + std::to_string(i % 20) + "/f" + std::to_string(i), PatternBytes(size, 1));
    if (i % 100 != 7) bytes += size;
  }
  for (const char* bad : {"d7/f7", "d7/f107", "d7/f207", "d7/f307"}) {
    rig_->faults.Add(
        {.op = FaultUfs::Op::kStat, .path = bad, .times = 1000, .error = Status(Code::kIo, "bad")});
  }
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  rig_->faults.Add({.op = FaultUfs::Op::kStat, .times = 1000000, .before = [&] {
                      const int now = ++inside;
                      int seen = most.load();
                      while (now > seen && !most.compare_exchange_weak(seen, now)) {
                      }
                      // Until a second one has been here: with one walker that would be never.
                      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
                      while (most.load() < 2 && rig_->faults.Count(FaultUfs::Op::kStat, "") > 0 &&
                             std::chrono::steady_clock::now() < end) {
                        std::this_thread::yield();
                      }
                      --inside;
                    }});
  for (int round = 0; round < 3; ++round) {
    const WarmProgress progress = Warm({""});
    EXPECT_EQ(progress.state, State::kFailed);
    EXPECT_EQ(progress.files_total, 400u);
    EXPECT_EQ(progress.files_done, 396u);
    EXPECT_EQ(progress.files_failed, 4u);
    EXPECT_EQ(progress.bytes_total, bytes);
    EXPECT_EQ(progress.bytes_done, bytes);
    EXPECT_EQ(progress.bytes_fetched, round == 0 ? bytes : 0);
  }
  EXPECT_GE(most.load(), 2);
}

TEST_F(WarmerTest, BytesThatSomebodyElseFetchesAreNotCountedAsItsOwn) {
  rig_->mem.Put("joined", PatternBytes(kPart, 1));
  rig_->mem.Put("own", PatternBytes(kPart / 2, 2));
  rig_->faults.Add({.op = FaultUfs::Op::kRead, .path = "joined", .hang = true});
  const auto file = rig_->Open("joined");
  auto read = rig_->ReadLater(file, {0, 10});
  ASSERT_TRUE(rig_->faults.WaitForHanging(1));
  const WarmJobId first = warmer_->Start({""}).value();
  const WarmJobId second = warmer_->Start({"joined"}).value();
  while (rig_->metrics.fetch_joined.value() < 2) std::this_thread::yield();
  rig_->faults.Release();
  EXPECT_TRUE(read.get().ok());
  const WarmProgress both = Finish(first);
  EXPECT_EQ(both.bytes_done, kPart + kPart / 2);
  EXPECT_EQ(both.bytes_fetched, kPart / 2);
  const WarmProgress joined = Finish(second);
  EXPECT_EQ(joined.state, State::kDone);
  EXPECT_EQ(joined.bytes_done, kPart);
  EXPECT_EQ(joined.bytes_fetched, 0u);
  EXPECT_EQ(rig_->metrics.warm_bytes.value(), kPart / 2);
}

TEST_F(WarmerTest, TwoJobsOverTheSameTreeFetchItOnceTogether) {
  for (int i = 0; i < 50; ++i) rig_->mem.Put("f" + std::to_string(i), PatternBytes(1000, 1));
  const WarmJobId one = warmer_->Start({""}).value();
  const WarmJobId two = warmer_->Start({""}).value();
  const WarmProgress a = Finish(one);
  const WarmProgress b = Finish(two);
  EXPECT_EQ(a.bytes_done, 50000u);
  EXPECT_EQ(b.bytes_done, 50000u);
  EXPECT_EQ(a.bytes_fetched + b.bytes_fetched, 50000u);
}

TEST_F(WarmerTest, TooManyJobsAreRefused) {
  rig_->mem.Put("a", PatternBytes(1000, 1));
  rig_->faults.Add({.op = FaultUfs::Op::kStat, .times = 1000, .hang = true});
  std::vector<WarmJobId> ids;
  while (true) {
    const Result<WarmJobId> id = warmer_->Start({"a"});
    if (!id.ok()) {
      EXPECT_EQ(id.status().code(), Code::kBusy);
      break;
    }
    ids.push_back(*id);
    ASSERT_LT(ids.size(), 100u);
  }
  rig_->faults.Release();
  for (const WarmJobId id : ids) EXPECT_EQ(Finish(id).state, State::kDone);
  EXPECT_TRUE(warmer_->Start({"a"}).ok());
}

TEST_F(WarmerTest, StopLeavesAJobBehindThatHangsInTheUfs) {
  rig_->mem.Put("a", PatternBytes(1000, 1));
  rig_->faults.Add({.op = FaultUfs::Op::kStat, .hang = true});
  const WarmJobId id = warmer_->Start({"a"}).value();
  ASSERT_TRUE(rig_->faults.WaitForHanging(1));
  EXPECT_FALSE(warmer_->Stop(std::chrono::milliseconds(10)));
  EXPECT_EQ(warmer_->Start({"a"}).status().code(), Code::kCancelled);
  rig_->faults.Release();
  EXPECT_EQ(Finish(id).state, State::kCancelled);
  EXPECT_TRUE(warmer_->Stop(std::chrono::seconds(10)));  // nothing is left to wait for
}

TEST_F(WarmerTest, StopWaitsForAJobThatEnds) {
  rig_->mem.Put("a", PatternBytes(kPart, 1));
  ASSERT_TRUE(warmer_->Start({"a"}).ok());
  EXPECT_TRUE(warmer_->Stop(std::chrono::seconds(60)));
  EXPECT_TRUE(rig_->Idle());
}

TEST_F(WarmerTest, DeepTreesDoNotUseUpDescriptors) {
  std::string path = "deep";
  for (int depth = 0; depth < 300; ++depth) path += "/d";
  rig_->mem.Put(path + "/leaf", PatternBytes(1000, 1));
  rig_->mem.Put("deep/d/d/side", PatternBytes(1000, 2));
  const WarmProgress progress = Warm({"deep"});
  EXPECT_EQ(progress.state, State::kDone);
  EXPECT_EQ(progress.files_done, 2u);
}

}  // namespace
}  // namespace stoker
