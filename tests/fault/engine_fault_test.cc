// The fetch engine above a UFS that fails at random: right bytes or the right error, nothing lost, nothing
// leaked.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cache/base/random.h"
#include "prefetch/fetch_engine.h"
#include "prefetch/read_ahead.h"
#include "tests/support/fetch_rig.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using testing::FetchRig;
using testing::PatternBytes;
constexpr uint64_t kPart = FetchRig::kPart;

/// Readers in several threads over a few files; the seed decides what fails. Returns how many reads failed.
uint64_t ReadAtRandom(FetchRig& rig, const std::vector<std::string>& paths, uint64_t seed, int threads,
                      int reads) {
  std::vector<std::shared_ptr<FetchFile>> files;
  std::vector<std::string> contents;
  for (const std::string& path : paths) {
    files.push_back(rig.Open(path));
    contents.push_back(rig.mem.Content(path));
  }
  std::atomic<uint64_t> failed{0};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < threads; ++t) {
    readers.emplace_back([&, t] {
      Random random(seed * 1000 + static_cast<uint64_t>(t));
      std::vector<std::unique_ptr<ReadAhead>> ahead;
      for (const auto& file : files) {
        ahead.push_back(std::make_unique<ReadAhead>(ReadAheadOptions{}, *rig.engine, file, rig.metrics));
      }
      uint64_t sequential = 0;
      for (int i = 0; i < reads; ++i) {
        const size_t which = random.Below(files.size());
        const std::string& content = contents[which];
        uint64_t begin = random.Below(content.size());
        if (random.OneIn(2)) begin = sequential % content.size();
        const ByteRange range{begin, std::min<uint64_t>(content.size(), begin + 1 + random.Below(150000))};
        sequential = range.end;
        ahead[which]->OnRead(range, !files[which]->object().IsResident(range));
        uint64_t ticket = 0;
        std::future<Result<std::string>> read = rig.ReadLater(files[which], range, &ticket);
        if (random.OneIn(20)) rig.engine->CancelRead(ticket);
        if (random.OneIn(20)) rig.engine->Forget(*files[which], FetchPriority::kReadAhead);
        const Result<std::string> got = read.get();
        if (got.ok()) {
          if (*got != content.substr(range.begin, range.size())) ++wrong;
        } else {
          ++failed;
          const bool clean = paths[which].rfind("clean", 0) == 0;
          if (got.status().code() != Code::kCancelled && (clean || got.status().code() != Code::kIo)) ++wrong;
        }
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
  return failed;
}

void CheckStored(FetchRig& rig, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const auto file = rig.Open(path);
    for (uint32_t part = 0; part < file->object().part_count(); ++part) {
      if (file->object().IsResident(PartIndex{part})) {
        EXPECT_TRUE(rig.store->Verify(file->object(), PartIndex{part}).ok()) << path << " " << part;
      }
    }
  }
}

TEST(EngineFaultTest, RightBytesOrTheRightErrorWhateverFails) {
  for (uint64_t round = 0; round < 6; ++round) {
    const uint64_t seed = testing::TestSeed() + round;
    SCOPED_TRACE("round " + std::to_string(round));
    FetchEngineOptions options = FetchRig::DefaultOptions();
    options.threads = 1 + round * 2;
    options.budget_bytes = (1 + round * 3) * kPart;
    FetchRig rig(options);
    std::vector<std::string> paths;
    for (int i = 0; i < 4; ++i) {
      paths.push_back((i < 3 ? "f" : "clean") + std::to_string(i));
      rig.mem.Put(paths.back(),
                  PatternBytes(6 * kPart + 1000 * static_cast<uint64_t>(i), seed + static_cast<uint64_t>(i)));
    }
    rig.faults.Seed(seed, round % 2 == 0 ? 4 : 20);
    ReadAtRandom(rig, paths, seed, 6, 40);
    ASSERT_TRUE(rig.Idle());
    CheckStored(rig, paths);
    // Once the UFS is well again, so is everything.
    rig.faults.Release();
    for (const std::string& path : paths) {
      EXPECT_EQ(rig.Read(rig.Open(path), {0, 1ULL << 40}).value(), rig.mem.Content(path));
    }
    ASSERT_TRUE(rig.Idle());
    EXPECT_EQ(rig.metrics.fetch_queued.value(), 0);
  }
}

TEST(EngineFaultTest, WithoutErrorsEveryPartIsFetchedOnceHoweverSlow) {
  FetchRig rig;
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i) {
    paths.push_back("clean" + std::to_string(i));
    rig.mem.Put(paths.back(), PatternBytes(8 * kPart, static_cast<uint64_t>(i)));
  }
  for (uint64_t nth = 3; nth < 40; nth += 5) {
    rig.faults.Add({.op = testing::FaultUfs::Op::kRead, .first = nth, .delay = std::chrono::milliseconds(5)});
  }
  ReadAtRandom(rig, paths, testing::TestSeed(), 8, 60);
  ASSERT_TRUE(rig.Idle());
  for (const std::string& path : paths) EXPECT_LE(rig.faults.BytesRead(path), 8 * kPart);
  EXPECT_EQ(rig.metrics.ufs_bytes.value(), rig.metrics.fetch_parts.value() * kPart);
  EXPECT_EQ(rig.metrics.fetch_failed.value(), 0u);
}

TEST(EngineFaultTest, AHangingFileHoldsNobodyElse) {
  FetchRig rig;
  rig.mem.Put("hangs", PatternBytes(2 * kPart, 1));
  rig.mem.Put("clean", PatternBytes(20 * kPart, 2));
  rig.faults.Add({.op = testing::FaultUfs::Op::kRead, .path = "hangs", .times = 1000, .hang = true});
  const auto hangs = rig.Open("hangs");
  auto first = rig.ReadLater(hangs, {0, 10});
  auto second = rig.ReadLater(hangs, {kPart, kPart + 10});
  ASSERT_TRUE(rig.faults.WaitForHanging(2));
  EXPECT_EQ(rig.Read(rig.Open("clean"), {0, 20 * kPart}).value(), rig.mem.Content("clean"));
  EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  rig.engine->Stop(std::chrono::seconds(10));
  EXPECT_EQ(first.get().status().code(), Code::kCancelled);
  EXPECT_EQ(second.get().status().code(), Code::kCancelled);
}

TEST(EngineFaultTest, AnUncancellableHangIsLeftBehind) {
  FetchRig rig;
  rig.mem.Put("f", PatternBytes(kPart, 1));
  rig.faults.Add({.op = testing::FaultUfs::Op::kOpen, .path = "f", .hang = true});
  const auto file = rig.Open("f");
  auto read = rig.ReadLater(file, {0, 10});
  ASSERT_TRUE(rig.faults.WaitForHanging(1));
  const auto begin = std::chrono::steady_clock::now();
  rig.engine->Stop(std::chrono::milliseconds(100));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(read.get().status().code(), Code::kCancelled);
  EXPECT_EQ(rig.engine->State().stuck_threads, 1u);
  EXPECT_EQ(rig.metrics.fetch_queued.value(), 0);
  // The test's own end needs the thread gone: what it was working with must not be pinned for ever here.
  rig.faults.Release();
  rig.engine->Stop(std::chrono::seconds(10));
  EXPECT_EQ(rig.engine->State().stuck_threads, 0u);
}

}  // namespace
}  // namespace stoker
