#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cache/base/checksum.h"
#include "cache/base/gate.h"
#include "cache/base/ids.h"
#include "cache/base/log.h"
#include "cache/base/metrics.h"
#include "cache/base/random.h"
#include "cache/base/result.h"
#include "cache/base/spelling.h"
#include "cache/base/units.h"
#include "cache/base/worker_pool.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

using std::chrono::nanoseconds;

TEST(Units, ParsesSizes) {
  EXPECT_EQ(ParseBytes("4MiB").value(), 4 * kMiB);
  EXPECT_EQ(ParseBytes(" 512 KiB ").value(), 512 * kKiB);
  EXPECT_EQ(ParseBytes("1.5GiB").value(), kGiB + kGiB / 2);
  EXPECT_EQ(ParseBytes("4MB").value(), 4'000'000u);
  EXPECT_EQ(ParseBytes("0").value(), 0u);
  EXPECT_EQ(ParseBytes("4096B").value(), 4096u);
}

TEST(Units, RefusesSizesAndSaysWhy) {
  EXPECT_NE(ParseBytes("3").status().message().find("the unit is missing"), std::string::npos);
  EXPECT_NE(ParseBytes("3 bananas").status().message().find("unknown unit 'bananas'"), std::string::npos);
  for (const char* bad :
       {"", "MiB", "-1MiB", "nan", "inf", "1e400B", "0.3B", "9999999PiB", "4MiBx", "0x10B"}) {
    EXPECT_EQ(ParseBytes(bad).status().code(), Code::kInvalidArgument) << bad;
  }
}

TEST(Units, SizesComeBackExactly) {
  Random random(testing::TestSeed());
  for (int i = 0; i < 2000; ++i) {
    const uint64_t bytes = (random.Next() >> (random.Below(50) + 14)) << random.Below(13);
    EXPECT_EQ(ParseBytes(FormatBytesExact(bytes)).value(), bytes);
  }
}

TEST(Units, ParsesDurations) {
  using namespace std::chrono_literals;
  EXPECT_EQ(ParseDuration("30s").value(), nanoseconds(30s));
  EXPECT_EQ(ParseDuration("250ms").value(), nanoseconds(250ms));
  EXPECT_EQ(ParseDuration("1.5h").value(), nanoseconds(90min));
  for (const char* bad : {"30", "s", "-5s", "5 weeks", "1e30d"}) EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  for (const nanoseconds value : {nanoseconds(0), nanoseconds(90s), nanoseconds(1), nanoseconds(48h)}) {
    EXPECT_EQ(ParseDuration(FormatDuration(value)).value(), value);
  }
}

TEST(ByteRanges, Intersect) {
  EXPECT_EQ(Intersect({0, 10}, {5, 20}), (ByteRange{5, 10}));
  EXPECT_TRUE(Intersect({0, 5}, {5, 20}).empty());
  EXPECT_EQ(AlignUp(4097, 4096), 8192u);
  EXPECT_EQ(CeilDiv(8193, 4096), 3u);
}

TEST(Random, SameSeedSameNumbersEverywhere) {
  // Frozen on purpose: datasets and orders made with a seed must not change with the compiler.
  Random random(123);
  const uint64_t first = random.Next();
  Random again(123);
  EXPECT_EQ(first, again.Next());
  std::vector<int> order(8);
  std::iota(order.begin(), order.end(), 0);
  Random shuffler(10);
  shuffler.Shuffle(order);
  std::set<int> all(order.begin(), order.end());
  EXPECT_EQ(all.size(), 8u);
}

TEST(Random, BelowIsEvenAndNormalHasItsMoments) {
  Random random(testing::TestSeed());
  std::vector<int> seen(7);
  for (int i = 0; i < 70000; ++i) ++seen[random.Below(7)];
  for (const int n : seen) EXPECT_NEAR(n, 10000, 600);
  double sum = 0, squares = 0;
  for (int i = 0; i < 50000; ++i) {
    const double x = random.Normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 50000, 0, 0.03);
  EXPECT_NEAR(squares / 50000, 1, 0.05);
}

TEST(Checksum, StreamEqualsWhole) {
  std::vector<std::byte> bytes(100'000);
  Random random(testing::TestSeed());
  for (auto& b : bytes) b = static_cast<std::byte>(random.Next());
  Checksum64Stream stream;
  for (size_t at = 0; at < bytes.size();) {
    const size_t n = std::min<size_t>(random.Below(5000) + 1, bytes.size() - at);
    stream.Update(std::span(bytes).subspan(at, n));
    at += n;
  }
  EXPECT_EQ(stream.Digest(), Checksum64(bytes));
  bytes[50'000] ^= std::byte{1};
  EXPECT_NE(stream.Digest(), Checksum64(bytes));
}

TEST(Ids, VersionDecidesTheObject) {
  const ObjectId a = MakeObjectId({10, "t"});
  EXPECT_EQ(a, MakeObjectId({10, "t"}));
  EXPECT_NE(a, MakeObjectId({11, "t"}));
  EXPECT_NE(a, MakeObjectId({10, "u"}));
  EXPECT_EQ(a.ToHex().size(), 32u);
}

TEST(Spelling, FindsTheNearest) {
  const std::vector<std::string> keys{"prefetch.threads", "prefetch.part_length", "cache.size"};
  EXPECT_EQ(NearestSpelling("prefetch.thread", keys), "prefetch.threads");
  EXPECT_EQ(NearestSpelling("cache.sise", keys), "cache.size");
  EXPECT_EQ(NearestSpelling("completely.different.thing", keys), "");
}

TEST(Status, KeepsTheErrno) {
  const Status status = Status::FromErrno(ENOENT, "open /x");
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.os_errno(), ENOENT);
  EXPECT_EQ(status.message(), "open /x: No such file or directory");
}

TEST(WorkerPool, RunsAllAndRefusesWhenFull) {
  std::atomic<int> ran{0};
  std::atomic<bool> go{false};
  {
    WorkerPool pool("test", 2, 4);
    int taken = 0;
    for (int i = 0; i < 20; ++i) {
      taken += pool.Submit([&] {
        while (!go) std::this_thread::yield();
        ++ran;
      });
    }
    EXPECT_GE(taken, 4);
    EXPECT_LE(taken, 6);
    go = true;
    pool.Stop();
    EXPECT_FALSE(pool.Submit([] {}));
  }
  EXPECT_GE(ran.load(), 4);
}

TEST(Gate, WaitsForThoseInside) {
  Gate gate;
  auto pass = gate.Enter();
  EXPECT_TRUE(static_cast<bool>(pass));
  gate.Close();
  EXPECT_FALSE(static_cast<bool>(gate.Enter()));
  EXPECT_FALSE(gate.Wait(std::chrono::milliseconds(1)));
  { auto gone = std::move(pass); }
  EXPECT_TRUE(gate.Wait(std::chrono::seconds(1)));
}

TEST(LogLimiter, LetsSoManyThroughASecondAndCountsTheRest) {
  const testing::TempDir dir;
  ManualClock clock;
  ASSERT_TRUE(ConfigureLog("info", dir / "log").ok());
  LogLimiter log(2, clock);
  for (int i = 0; i < 5; ++i) log.Log(LogLevel::kWarn, "store", "first " + std::to_string(i));
  clock.Advance(std::chrono::milliseconds(999));
  log.Log(LogLevel::kWarn, "store", "same second");
  clock.Advance(std::chrono::milliseconds(1));
  log.Log(LogLevel::kWarn, "store", "next");
  log.Log(LogLevel::kWarn, "store", "one more");
  ASSERT_TRUE(ConfigureLog("info", "").ok());  // back to stderr; the file is complete
  std::ifstream file(dir / "log");
  std::vector<std::string> messages;
  for (std::string line; std::getline(file, line);) messages.push_back(line.substr(line.find("store: ")));
  EXPECT_EQ(messages,
            (std::vector<std::string>{"store: first 0", "store: first 1",
                                      "store: next (lines like this one left out: 4)", "store: one more"}));
}

TEST(LogLimiter, ManyThreadsLoseNoCount) {
  const testing::TempDir dir;
  ManualClock clock;
  ASSERT_TRUE(ConfigureLog("info", dir / "log").ok());
  LogLimiter log(1, clock);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&log] {
      for (int n = 0; n < 250; ++n) log.Log(LogLevel::kWarn, "store", "again");
    });
  }
  for (std::thread& thread : threads) thread.join();
  clock.Advance(std::chrono::seconds(1));
  log.Log(LogLevel::kWarn, "store", "last");
  ASSERT_TRUE(ConfigureLog("info", "").ok());
  std::ifstream file(dir / "log");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_NE(text.find("last (lines like this one left out: 999)"), std::string::npos) << text;
}

TEST(Metrics, EveryNameOnceAndRendered) {
  Metrics metrics;
  metrics.read_hits.Add(3);
  const auto samples = Snapshot(metrics);
  std::set<std::string_view> names;
  for (const auto& sample : samples) {
    EXPECT_TRUE(names.insert(sample.name).second) << sample.name;
    EXPECT_EQ(sample.name.starts_with("stoker_"), true) << sample.name;
    EXPECT_EQ(sample.is_counter, sample.name.ends_with("_total")) << sample.name;
  }
  EXPECT_NE(RenderPrometheus(samples).find("stoker_read_hits_total 3"), std::string::npos);
}

}  // namespace
}  // namespace stoker
