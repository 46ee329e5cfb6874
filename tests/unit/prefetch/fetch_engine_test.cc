#include "prefetch/fetch_engine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "cache/base/random.h"
#include "cache/ufs/ufs_factory.h"
#include "tests/support/fetch_rig.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using testing::FaultUfs;
using testing::FetchRig;
using testing::PatternBytes;
using Op = FaultUfs::Op;
constexpr uint64_t kPart = FetchRig::kPart;

TEST(FetchEngineTest, ReadsWhatTheUfsHasAndStoresIt) {
  FetchRig rig;
  const std::string content = PatternBytes(3 * kPart + 12345, 1);
  rig.mem.Put("f", content);
  const auto file = rig.Open("f");
  EXPECT_EQ(rig.Read(file, {100, 5000}).value(), content.substr(100, 4900));
  ASSERT_TRUE(rig.Idle());
  EXPECT_TRUE(file->object().IsResident(PartIndex{0}));
  EXPECT_FALSE(file->object().IsResident(PartIndex{1}));
  // The next one finds it there.
  EXPECT_EQ(rig.Read(file, {0, kPart}).value(), content.substr(0, kPart));
  EXPECT_EQ(rig.faults.BytesRead("f"), kPart);
  // The last part is cut at the end of the file, and so is the range.
  EXPECT_EQ(rig.Read(file, {3 * kPart, 1ULL << 40}).value(), content.substr(3 * kPart));
  EXPECT_EQ(rig.Read(file, {content.size(), content.size() + 10}).value(), "");
  ASSERT_TRUE(rig.Idle());
  EXPECT_EQ(rig.metrics.fetch_parts.value(), 2u);
  EXPECT_EQ(rig.metrics.fetch_demand.value(), 2u);
  EXPECT_EQ(rig.metrics.ufs_bytes.value(), kPart + 12345);
  for (const uint32_t part : {0u, 3u}) EXPECT_TRUE(rig.store->Verify(file->object(), PartIndex{part}).ok());
}

TEST(FetchEngineTest, RangesOverSeveralPartsResidentOrNot) {
  FetchRig rig;
  const std::string content = PatternBytes(4 * kPart, 2);
  rig.mem.Put("f", content);
  const auto file = rig.Open("f");
  ASSERT_TRUE(rig.Want(file, 1).ok());
  const ByteRange range{kPart - 1000, 3 * kPart + 1000};
  EXPECT_EQ(rig.Read(file, range).value(), content.substr(range.begin, range.size()));
  ASSERT_TRUE(rig.Idle());
  EXPECT_TRUE(file->object().complete());
  EXPECT_EQ(rig.faults.BytesRead("f"), content.size());
}

TEST(FetchEngineTest, EmptyFilesAndBadParts) {
  FetchRig rig;
  rig.mem.Put("empty", "");
  const auto file = rig.Open("empty");
  EXPECT_EQ(rig.Read(file, {0, 100}).value(), "");
  EXPECT_EQ(rig.Want(file, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(rig.faults.Count(Op::kOpen, ""), 0u);
}

TEST(FetchEngineTest, OneFetchHoweverManyAsk) {
  FetchRig rig;
  const std::string content = PatternBytes(8 * kPart, 3);
  rig.mem.Put("f", content);
  const auto file = rig.Open("f");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      Random random(testing::TestSeed() + static_cast<uint64_t>(t));
      for (int i = 0; i < 50; ++i) {
        const uint64_t begin = random.Below(content.size());
        const ByteRange range{begin, std::min<uint64_t>(begin + random.Below(100000) + 1, content.size())};
        const Result<std::string> got = rig.Read(file, range);
        if (!got.ok() || *got != content.substr(range.begin, range.size())) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  ASSERT_TRUE(rig.Idle());
  EXPECT_EQ(rig.faults.BytesRead("f"), rig.metrics.fetch_parts.value() * kPart);
  EXPECT_LE(rig.metrics.fetch_parts.value(), 8u);
}

TEST(FetchEngineTest, AReaderIsAnsweredBeforeTheRestOfThePartHasCome) {
  FetchRig rig(FetchRig::DefaultOptions(), 256 * kMiB, 4 * kMiB);
  const std::string content = PatternBytes(4 * kMiB, 4);
  rig.mem.Put("f", content);
  // The piece that is asked for comes through; the next read never does.
  rig.faults.Add({.op = Op::kRead, .first = 2, .times = 1000, .hang = true});
  const auto file = rig.Open("f");
  const ByteRange range{3 * kMiB, 3 * kMiB + 4096};
  EXPECT_EQ(rig.Read(file, range).value(), content.substr(range.begin, range.size()));
  ASSERT_TRUE(rig.faults.WaitForHanging(1));
  const std::vector<FaultUfs::Call> log = rig.faults.Log();
  uint64_t first_read = 0;
  for (const FaultUfs::Call& call : log) {
    if (call.op != Op::kRead) continue;
    first_read = call.range.begin;
    break;
  }
  EXPECT_EQ(first_read, 3 * kMiB);
  rig.faults.Release();
  ASSERT_TRUE(rig.Idle());
  EXPECT_TRUE(file->object().complete());
  EXPECT_EQ(rig.faults.BytesRead("f"), content.size());
}

TEST(FetchEngineTest, DemandOvertakesAndRaises) {
  FetchEngineOptions options = FetchRig::DefaultOptions();
  options.threads = 1;
  FetchRig rig(options);
  rig.mem.Put("hold", PatternBytes(kPart, 5));
  rig.mem.Put("f", PatternBytes(20 * kPart, 6));
  rig.faults.Add({.op = Op::kOpen, .path = "hold", .hang = true});
  const auto hold = rig.WantLater(rig.Open("hold"), 0);
  ASSERT_TRUE(rig.faults.WaitForHanging(1));
  const auto file = rig.Open("f");
  std::vector<std::future<Status>> warm;
  for (uint32_t part = 0; part < 20; ++part) warm.push_back(rig.WantLater(file, part));
  EXPECT_EQ(rig.metrics.fetch_queued.value(), 20);
  auto other = rig.ReadLater(file, {19 * kPart, 19 * kPart + 10});  // queued as warm: raised
  rig.faults.Release();
  ASSERT_TRUE(other.get().ok());
  for (std::future<Status>& done : warm) EXPECT_TRUE(done.get().ok());
  ASSERT_TRUE(rig.Idle());
  std::vector<uint64_t> order;
  for (const FaultUfs::Call& call : rig.faults.Log()) {
    if (call.op == Op::kRead && call.path == "f") order.push_back(call.range.begin / kPart);
  }
  ASSERT_EQ(order.size(), 20u);
  EXPECT_EQ(order[0], 19u);
  for (size_t i = 1; i < order.size(); ++i) EXPECT_EQ(order[i], i - 1);  // the rest first come, first served
  EXPECT_EQ(rig.metrics.fetch_joined.value(), 1u);
}

TEST(FetchEngineTest, OneThreadIsKeptForReaders) {
  FetchRig rig;  // 4 threads
  for (int i = 0; i < 8; ++i) rig.mem.Put("w" + std::to_string(i), PatternBytes(1000, 7));
  rig.mem.Put("f", PatternBytes(1000, 8));
  for (int i = 0; i < 8; ++i) {
    rig.faults.Add({.op = Op::kRead, .path = "w" + std::to_string(i), .times = 100, .hang = true});
  }
  std::vector<std::future<Status>> warm;
  for (int i = 0; i < 8; ++i) warm.push_back(rig.WantLater(rig.Open("w" + std::to_string(i)), 0));
  ASSERT_TRUE(rig.faults.WaitForHanging(3));
  EXPECT_TRUE(rig.Read(rig.Open("f"), {0, 1000}).ok());
  EXPECT_EQ(rig.metrics.fetch_queued.value(), 5);
  rig.faults.Release();
  for (std::future<Status>& done : warm) EXPECT_TRUE(done.get().ok());
  EXPECT_TRUE(rig.Idle());
}

TEST(FetchEngineTest, DeadlineAnswersReadersOfADeadUfs) {
  FetchEngineOptions options = FetchRig::DefaultOptions();
  options.deadline = std::chrono::seconds(5);
  FetchRig rig(options);
  rig.mem.Put("f", PatternBytes(1000, 9));
  rig.mem.Put("g", PatternBytes(1000, 9));
  rig.faults.Add({.op = Op::kRead, .path = "f", .times = 100, .hang = true});
  rig.faults.Add({.op = Op::kOpen, .path = "g", .times = 100, .hang = true});
  const auto file = rig.Open("f");
  auto read = rig.ReadLater(file, {0, 1000});
  auto want = rig.WantLater(rig.Open("g"), 0, FetchPriority::kDemand);
  ASSERT_TRUE(rig.faults.WaitForHanging(2));
  rig.clock.Advance(std::chrono::seconds(4));
  EXPECT_EQ(read.wait_for(std::chrono::milliseconds(120)), std::future_status::timeout);
  rig.clock.Advance(std::chrono::seconds(1));
  const Status late = read.get().status();
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(late.message(), "'f' was not read within 5s; the UFS is too slow");
  EXPECT_EQ(want.get().code(), Code::kDeadlineExceeded);
  rig.faults.Release();
  ASSERT_TRUE(rig.Idle());
  EXPECT_TRUE(file->object().complete());  // what had started was finished
}

TEST(FetchEngineTest, CancelledReadersAndForgottenWishesLeaveTheQueue) {
  FetchEngineOptions options = FetchRig::DefaultOptions();
  options.threads = 1;
  FetchRig rig(options);
  rig.mem.Put("hold", PatternBytes(1000, 1));
  rig.mem.Put("f", PatternBytes(10 * kPart, 2));
  rig.faults.Add({.op = Op::kOpen, .path = "hold", .hang = true});
  const auto hold = rig.WantLater(rig.Open("hold"), 0);
  ASSERT_TRUE(rig.faults.WaitForHanging(1));
  const auto file = rig.Open("f");
  uint64_t ticket = 0;
  auto read = rig.ReadLater(file, {0, 10}, &ticket);
  auto ahead = rig.WantLater(file, 1, FetchPriority::kReadAhead);
  auto warm = rig.WantLater(file, 2, FetchPriority::kWarm);
  auto both = rig.WantLater(file, 3, FetchPriority::kReadAhead);
  auto reader = rig.ReadLater(file, {3 * kPart, 3 * kPart + 10});
  rig.engine->CancelRead(ticket);
  EXPECT_EQ(read.get().status().code(), Code::kCancelled);
  rig.engine->CancelRead(ticket);  // once is enough
  rig.engine->Forget(*file, FetchPriority::kHint);
  EXPECT_EQ(warm.get().code(), Code::kCancelled);
  EXPECT_EQ(ahead.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  rig.engine->Forget(*file, FetchPriority::kReadAhead);
  EXPECT_EQ(ahead.get().code(), Code::kCancelled);
  EXPECT_EQ(both.get().code(), Code::kCancelled);
  EXPECT_EQ(rig.metrics.fetch_queued.value(), 1);  // the reader of part 3
  rig.faults.Release();
  EXPECT_TRUE(reader.get().ok());
  ASSERT_TRUE(rig.Idle());
  EXPECT_EQ(rig.faults.BytesRead("f"), kPart);
  EXPECT_EQ(rig.metrics.fetch_cancelled.value(), 3u);
}

TEST(FetchEngineTest, FullQueueIsBusyButNotForReaders) {
  FetchEngineOptions options = FetchRig::DefaultOptions();
  options.threads = 1;
  options.max_queued = 2;
  FetchRig rig(options);
  rig.mem.Put("hold", PatternBytes(1000, 1));
  rig.mem.Put("f", PatternBytes(10 * kPart, 2));
  rig.faults.Add({.op = Op::kOpen, .path = "hold", .hang = true});
  const auto hold = rig.WantLater(rig.Open("hold"), 0);
  ASSERT_TRUE(rig.faults.WaitForHanging(1));
  const auto file = rig.Open("f");
  auto first = rig.WantLater(file, 0);
  auto second = rig.WantLater(file, 1);
  EXPECT_EQ(rig.Want(file, 2).code(), Code::kBusy);
  auto joins = rig.WantLater(file, 1);  // no new entry
  auto reader = rig.ReadLater(file, {5 * kPart, 5 * kPart + 1});
  rig.faults.Release();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(joins.get().ok());
  EXPECT_TRUE(reader.get().ok());
}

TEST(FetchEngineTest, TransientErrorsAreRetriedAndOthersAreNot) {
  FetchRig rig;
  const std::string content = PatternBytes(kPart, 3);
  for (const char* name : {"two", "three", "gone", "denied"}) rig.mem.Put(name, content);
  rig.faults.Add({.op = Op::kRead, .path = "two", .times = 2, .error = Status::FromErrno(EIO, "disk")});
  rig.faults.Add({.op = Op::kRead, .path = "three", .times = 100, .error = Status::FromErrno(EIO, "disk")});
  rig.faults.Add({.op = Op::kOpen, .path = "denied", .times = 100, .error = Status::FromErrno(EACCES, "no")});
  EXPECT_EQ(rig.Read(rig.Open("two"), {0, kPart}).value(), content);
  EXPECT_EQ(rig.metrics.fetch_retries.value(), 2u);
  const Status io = rig.Read(rig.Open("three"), {0, 10}).status();
  EXPECT_EQ(io.code(), Code::kIo);
  EXPECT_EQ(io.os_errno(), EIO);
  EXPECT_EQ(rig.metrics.fetch_retries.value(), 4u);
  EXPECT_EQ(rig.Read(rig.Open("denied"), {0, 10}).status().code(), Code::kPermissionDenied);
  const auto gone = rig.Open("gone");
  rig.mem.Remove("gone");
  EXPECT_EQ(rig.Read(gone, {0, 10}).status().code(), Code::kStale);
  EXPECT_EQ(rig.metrics.fetch_retries.value(), 4u);
  EXPECT_TRUE(rig.Idle());
  EXPECT_EQ(rig.metrics.fetch_failed.value(), 3u);
}

TEST(FetchEngineTest, OneBadSpotSpoilsOnlyTheReadersThatNeedIt) {
  FetchRig rig(FetchRig::DefaultOptions(), 256 * kMiB, 4 * kMiB);
  const std::string content = PatternBytes(8 * kMiB, 4);
  rig.mem.Put("f", content);
  rig.faults.Add(
      {.op = Op::kRead, .times = 1000, .offset_below = 1, .error = Status::FromErrno(EIO, "bad spot")});
  const auto file = rig.Open("f");
  EXPECT_EQ(rig.Read(file, {0, 4096}).status().code(), Code::kIo);
  EXPECT_EQ(rig.Read(file, {2 * kMiB, 3 * kMiB}).value(), content.substr(2 * kMiB, kMiB));
  EXPECT_EQ(rig.Read(file, {5 * kMiB, 6 * kMiB}).value(), content.substr(5 * kMiB, kMiB));
  EXPECT_EQ(rig.Want(file, 0).code(), Code::kIo);
  EXPECT_TRUE(rig.Idle());
}

TEST(FetchEngineTest, BytesOfAnotherVersionAreNeitherDeliveredNorStored) {
  FetchRig rig(FetchRig::DefaultOptions(), 256 * kMiB, 4 * kMiB);
  const std::string before = PatternBytes(4 * kMiB, 5);
  rig.mem.Put("f", before);
  rig.mem.Put("shrinks", before);
  rig.faults.Add({.op = Op::kRead, .path = "f", .first = 2, .before = [&] {
                    rig.mem.Overwrite("f", PatternBytes(4 * kMiB, 6));
                  }});
  rig.faults.Add(
      {.op = Op::kRead, .path = "shrinks", .before = [&] { rig.mem.Overwrite("shrinks", "short"); }});
  const auto file = rig.Open("f");
  EXPECT_EQ(rig.Read(file, {0, 1000}).value(), before.substr(0, 1000));  // its bytes came before the change
  EXPECT_EQ(rig.Read(file, {3 * kMiB, 3 * kMiB + 10}).status().code(), Code::kStale);
  EXPECT_EQ(rig.Read(rig.Open("shrinks"), {0, 1000}).status().code(), Code::kStale);
  ASSERT_TRUE(rig.Idle());
  EXPECT_EQ(file->object().resident_bytes(), 0u);
  const auto again = rig.Open("f");
  EXPECT_EQ(rig.Read(again, {0, 4 * kMiB}).value(), rig.mem.Content("f"));
}

TEST(FetchEngineTest, AnotherNameOfTheFileDoesNotFailWithTheFirst) {
  FetchEngineOptions options = FetchRig::DefaultOptions();
  options.threads = 1;
  FetchRig rig(options);
  rig.mem.Put("hold", "x");
  rig.mem.Put("a", PatternBytes(1000, 1));
  rig.mem.Link("a", "b");
  rig.faults.Add({.op = Op::kOpen, .path = "hold", .hang = true});
  const auto hold = rig.WantLater(rig.Open("hold"), 0);
  ASSERT_TRUE(rig.faults.WaitForHanging(1));
  auto by_a = rig.ReadLater(rig.Open("a"), {0, 10});
  auto by_b = rig.ReadLater(rig.Open("b"), {0, 10});
  rig.mem.Remove("a");
  rig.faults.Release();
  EXPECT_EQ(by_a.get().status().code(), Code::kStale);
  EXPECT_EQ(by_b.get().value(), rig.mem.Content("b").substr(0, 10));
}

TEST(FetchEngineTest, WithoutRoomReadersAreServedFromMemory) {
  FetchRig rig(FetchRig::DefaultOptions(), 8 * kPart);
  const std::string content = PatternBytes(40 * kPart, 7);
  rig.mem.Put("f", content);
  const auto file = rig.Open("f");  // pinned: nothing of it can be evicted
  for (uint64_t at = 0; at < content.size(); at += kPart / 4) {
    ASSERT_EQ(rig.Read(file, {at, at + kPart / 4}).value(), content.substr(at, kPart / 4));
  }
  EXPECT_GT(rig.metrics.fetch_bypassed.value(), 20u);
  EXPECT_EQ(rig.faults.BytesRead("f"), content.size());  // each part once, though read in four requests
  EXPECT_LE(rig.store->Usage().used_bytes, 8 * kPart);
  // Nobody waits for this one: not worth a fetch.
  rig.faults.ClearLog();
  rig.mem.Put("g", content);
  EXPECT_EQ(rig.Want(rig.Open("g"), 0).code(), Code::kNoSpace);
  EXPECT_EQ(rig.faults.BytesRead("g"), 0u);
  // What lingers goes when nobody comes back to it.
  EXPECT_TRUE(rig.Idle(true));
}

// Eight readers, each of a file of its own, of twice what the whole cache holds: nobody throws out what
// another is just reading, whoever decides.
TEST(FetchEngineTest, ReadersInATinyCacheDoNotEvictEachOther) {
  constexpr int kReaders = 8;
  // With memory for every reader's part, and with memory for two: then most parts cannot wait in it.
  for (const auto& [policy, budget] :
       std::vector<std::pair<CachePolicy, uint64_t>>{{CachePolicy::kAuto, 16 * kMiB},
                                                     {CachePolicy::kRetain, 16 * kMiB},
                                                     {CachePolicy::kLru, 16 * kMiB},
                                                     {CachePolicy::kS3Fifo, 16 * kMiB},
                                                     {CachePolicy::kAuto, 2 * kPart},
                                                     {CachePolicy::kRetain, 2 * kPart},
                                                     {CachePolicy::kLru, 2 * kPart},
                                                     {CachePolicy::kS3Fifo, 2 * kPart}}) {
    SCOPED_TRACE(std::string(PolicyName(policy)) + ", budget " + FormatBytes(budget));
    FetchEngineOptions options = FetchRig::DefaultOptions();
    options.budget_bytes = budget;
    FetchRig rig(options, 6 * kPart, kPart, policy);
    for (int i = 0; i < kReaders; ++i)
      rig.mem.Put("f" + std::to_string(i), PatternBytes(12 * kPart, static_cast<uint64_t>(i)));
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < kReaders; ++i) {
      readers.emplace_back([&, i] {
        const std::string name = "f" + std::to_string(i);
        const std::string content = PatternBytes(12 * kPart, static_cast<uint64_t>(i));
        for (int turn = 0; turn < 2; ++turn) {
          const auto file = rig.Open(name);
          for (uint64_t at = 0; at < content.size(); at += kPart / 8) {
            const Result<std::string> got = rig.Read(file, {at, at + kPart / 8});
            wrong += !got.ok() || *got != content.substr(at, kPart / 8);
          }
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong.load(), 0);
    const uint64_t delivered = 2 * kReaders * 12 * kPart;
    EXPECT_LE(rig.metrics.ufs_bytes.value(), delivered * 13 / 10);
    EXPECT_LE(rig.store->Usage().used_bytes, 6 * kPart);
  }
}

TEST(FetchEngineTest, ADiskThatRefusesWritesDoesNotFailTheReader) {
  FetchRig rig;
  const std::string content = PatternBytes(kPart, 8);
  rig.mem.Put("f", content);
  const auto file = rig.Open("f");
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  ASSERT_TRUE(file->object().File().ok());
  ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tiny { 4096, limit.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tiny), 0);
  const Result<std::string> got = rig.Read(file, {1000, kPart});
  const Status want = rig.Want(file, 0);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(got.value(), content.substr(1000));
  EXPECT_FALSE(want.ok());
  EXPECT_FALSE(file->object().complete());
  EXPECT_EQ(rig.metrics.fetch_bypassed.value(), 1u);
}

TEST(FetchEngineTest, HolesAreNotReadNorWritten) {
  FetchRig rig(FetchRig::DefaultOptions(), 256 * kMiB, 4 * kMiB);
  std::string content(12 * kMiB, '\0');
  content.replace(5 * kMiB, 1000, PatternBytes(1000, 9));
  rig.mem.Put("f", content, {{0, 5 * kMiB}, {5 * kMiB + 4096, 12 * kMiB}});
  const auto file = rig.Open("f");
  ASSERT_TRUE(rig.Want(file, 0).ok());
  EXPECT_EQ(rig.faults.BytesRead("f"), 0u);
  EXPECT_EQ(rig.Read(file, {kMiB, 2 * kMiB}).value(), content.substr(kMiB, kMiB));
  EXPECT_EQ(rig.Read(file, {6 * kMiB, 7 * kMiB}).value(), content.substr(6 * kMiB, kMiB));
  EXPECT_EQ(rig.Read(file, {4 * kMiB, 6 * kMiB}).value(), content.substr(4 * kMiB, 2 * kMiB));
  EXPECT_EQ(rig.Read(file, {8 * kMiB + 1, 12 * kMiB}).value(), content.substr(8 * kMiB + 1));
  ASSERT_TRUE(rig.Idle());
  EXPECT_TRUE(file->object().complete());
  EXPECT_LE(rig.faults.BytesRead("f"), 2 * kMiB);
  for (uint32_t part = 0; part < 3; ++part)
    EXPECT_TRUE(rig.store->Verify(file->object(), PartIndex{part}).ok());
  struct stat st {};
  ASSERT_EQ(::fstat((*file->object().File())->get(), &st), 0);
  EXPECT_EQ(static_cast<uint64_t>(st.st_size), content.size());
  EXPECT_LE(static_cast<uint64_t>(st.st_blocks) * 512, 2 * kMiB);
}

TEST(FetchEngineTest, LeftoversInTheCacheFileDoNotShineThroughHoles) {
  FetchRig rig(FetchRig::DefaultOptions(), 256 * kMiB, 4 * kMiB);
  rig.mem.Put("f", std::string(8 * kMiB, '\0'), {{0, 8 * kMiB}});
  const auto file = rig.Open("f");
  const auto fd = file->object().File();
  ASSERT_TRUE(fd.ok());
  ASSERT_EQ(::pwrite((*fd)->get(), "garbage", 7, 5 * kMiB), 7);
  ASSERT_TRUE(rig.Want(file, 0).ok());
  ASSERT_TRUE(rig.Want(file, 1).ok());
  EXPECT_EQ(rig.Read(file, {5 * kMiB, 5 * kMiB + 7}).value(), std::string(7, '\0'));
  EXPECT_TRUE(rig.store->Verify(file->object(), PartIndex{1}).ok());
}

TEST(FetchEngineTest, BudgetIsNeverExceededAndOnePartAlwaysFits) {
  for (const uint64_t budget : {uint64_t{1}, kPart, 3 * kPart, 5 * kPart}) {
    FetchEngineOptions options = FetchRig::DefaultOptions();
    options.threads = 8;
    options.budget_bytes = budget;
    FetchRig rig(options);
    const std::string content = PatternBytes(20 * kPart, 10);
    rig.mem.Put("f", content);
    const auto file = rig.Open("f");
    std::atomic<bool> stop{false};
    std::atomic<int64_t> most{0};
    std::thread sampler([&] {
      while (!stop) {
        const int64_t now = rig.metrics.fetch_in_flight_bytes.value();
        if (now > most) most = now;
        std::this_thread::yield();
      }
    });
    std::vector<std::future<Status>> warm;
    for (uint32_t part = 10; part < 20; ++part) warm.push_back(rig.WantLater(file, part));
    std::vector<std::future<Result<std::string>>> reads;
    for (uint64_t part = 0; part < 9; ++part) {
      reads.push_back(
          rig.ReadLater(file, {part * kPart + 5, (part + 2) * kPart - 7}));  // over two parts each
    }
    for (size_t i = 0; i < reads.size(); ++i) {
      EXPECT_EQ(reads[i].get().value(), content.substr(i * kPart + 5, 2 * kPart - 12));
    }
    for (std::future<Status>& done : warm) EXPECT_TRUE(done.get().ok());
    stop = true;
    sampler.join();
    EXPECT_LE(static_cast<uint64_t>(most), std::max(budget, kPart));
    EXPECT_TRUE(rig.Idle());
  }
}

TEST(FetchEngineTest, BytesStayWhileAReplyHoldsThem) {
  FetchRig rig;
  const std::string content = PatternBytes(kPart, 11);
  rig.mem.Put("f", content);
  const auto file = rig.Open("f");
  std::promise<FetchedBytes> promise;
  rig.engine->Read(file, {0, kPart},
                   [&](Result<FetchedBytes> got) { promise.set_value(std::move(got).value()); });
  FetchedBytes held = promise.get_future().get();
  ASSERT_FALSE(held.resident);
  ASSERT_TRUE(rig.Want(file, 0).ok());
  EXPECT_EQ(rig.metrics.fetch_in_flight_bytes.value(), static_cast<int64_t>(kPart));
  EXPECT_EQ(std::memcmp(held.pieces.at(0).data(), content.data(), kPart), 0);
  rig.engine->Stop(std::chrono::seconds(5));
  EXPECT_EQ(std::memcmp(held.pieces.at(0).data(), content.data(), kPart), 0);
  held = FetchedBytes{};
  EXPECT_TRUE(rig.Idle());
}

TEST(FetchEngineTest, StopAnswersEveryoneOnce) {
  FetchRig rig;
  rig.mem.Put("f", PatternBytes(20 * kPart, 12));
  rig.faults.Add({.op = Op::kRead, .times = 1000, .hang = true});
  const auto file = rig.Open("f");
  std::vector<std::future<Result<std::string>>> reads;
  std::vector<std::future<Status>> warm;
  for (uint32_t part = 0; part < 20; ++part) {
    reads.push_back(rig.ReadLater(file, {part * kPart, part * kPart + 1}));
    warm.push_back(rig.WantLater(file, part));
  }
  ASSERT_TRUE(rig.faults.WaitForHanging(4));
  rig.engine->Stop(std::chrono::seconds(10));
  for (auto& read : reads) EXPECT_EQ(read.get().status().code(), Code::kCancelled);
  for (auto& done : warm) EXPECT_EQ(done.get().code(), Code::kCancelled);
  EXPECT_EQ(rig.engine->State().stuck_threads, 0u);
  EXPECT_EQ(rig.metrics.fetch_queued.value(), 0);
  EXPECT_EQ(rig.metrics.fetch_in_flight_bytes.value(), 0);
  EXPECT_EQ(rig.Read(file, {0, 1}).status().code(), Code::kCancelled);
  EXPECT_EQ(rig.Want(file, 0).code(), Code::kCancelled);
}

TEST(FetchEngineTest, ReadsThroughDescriptorsEitherWay) {
  for (const IoMode mode : {IoMode::kAuto, IoMode::kPread}) {
    FetchEngineOptions options = FetchRig::DefaultOptions();
    options.io = mode;
    FetchRig rig(options, 256 * kMiB, 4 * kMiB);
    testing::TempDir dir;
    const std::string content = PatternBytes(9 * kMiB + 77, 13);
    std::ofstream(dir / "f", std::ios::binary) << content;
    {
      const Fd sparse(::open((dir / "sparse").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
      ASSERT_EQ(::ftruncate(sparse.get(), 20 * kMiB), 0);
      ASSERT_EQ(::pwrite(sparse.get(), content.data(), kMiB, 6 * kMiB), static_cast<ssize_t>(kMiB));
    }
    const auto ufs = std::move(MakeUfs(dir.path(), rig.metrics)).value();
    {
      const auto file = rig.Open(*ufs, "f");
      EXPECT_EQ(rig.Read(file, {5 * kMiB + 3, 6 * kMiB}).value(), content.substr(5 * kMiB + 3, kMiB - 3));
      for (uint32_t part = 0; part < 3; ++part) EXPECT_TRUE(rig.Want(file, part).ok());
      EXPECT_TRUE(file->object().complete());
      for (uint32_t part = 0; part < 3; ++part)
        EXPECT_TRUE(rig.store->Verify(file->object(), PartIndex{part}).ok());
      EXPECT_EQ(rig.Read(file, {0, content.size()}).value(), content);
      EXPECT_EQ(rig.metrics.ufs_bytes.value(), content.size());
      const auto sparse = rig.Open(*ufs, "sparse");
      for (uint32_t part = 0; part < 5; ++part) EXPECT_TRUE(rig.Want(sparse, part).ok());
      EXPECT_EQ(rig.Read(sparse, {6 * kMiB, 7 * kMiB}).value(), content.substr(0, kMiB));
      struct stat st {};
      ASSERT_EQ(::fstat((*sparse->object().File())->get(), &st), 0);
      EXPECT_LE(static_cast<uint64_t>(st.st_blocks) * 512, 2 * kMiB + 64 * kKiB);
      for (uint32_t part = 0; part < 5; ++part)
        EXPECT_TRUE(rig.store->Verify(sparse->object(), PartIndex{part}).ok());
      // A file that changes while it is open: no byte of it any more.
      const auto changed = rig.Open(*ufs, "f");
      rig.store->Invalidate(changed->object().id());
    }
    const FetchEngineState state = rig.engine->State();
    if (mode == IoMode::kPread) {
      EXPECT_EQ(state.io, "pread");
      EXPECT_EQ(state.io_reason, "prefetch.io is pread");
    } else {
      EXPECT_TRUE(state.io == "io_uring" || !state.io_reason.empty());
    }
    rig.engine->Stop(std::chrono::seconds(5));
  }
}

TEST(FetchEngineTest, RefusesImpossibleOptions) {
  FetchRig rig;
  FetchEngineOptions options;
  options.threads = 0;
  EXPECT_EQ(FetchEngine::Start(options, *rig.store, rig.metrics, rig.clock).status().message(),
            "prefetch.threads is 0: it must be at least 1");
  options = {};
  options.budget_bytes = 0;
  EXPECT_EQ(FetchEngine::Start(options, *rig.store, rig.metrics, rig.clock).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace stoker
