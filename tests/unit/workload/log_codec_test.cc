#include "workload/train/log_codec.h"

#include <gtest/gtest.h>

#include "workload/run/share_codec.h"

namespace stoker::bench {
namespace {

TrainingLog Log(uint64_t ranks, double first_stamp) {
  TrainingLog log;
  log.steady_start = std::chrono::seconds(1000);
  log.epochs_planned = 2;
  for (int e = 0; e < 2; ++e) {
    EpochLog epoch;
    epoch.unix_start = 1e9 + e;
    epoch.unix_end = 1e9 + e + 0.5;
    epoch.complete = true;
    for (uint64_t r = 0; r < ranks; ++r) {
      RankEpoch rank;
      rank.block_start = first_stamp + e;
      rank.iter_start = rank.block_start + 0.1;
      rank.steps = {{rank.iter_start + 0.1, rank.iter_start + 0.2, rank.iter_start + 0.3}};
      rank.block_end = rank.steps[0].barrier_end;
      rank.loader_end = rank.block_end + 0.1;
      epoch.ranks.push_back(rank);
    }
    log.epochs.push_back(epoch);
  }
  log.reads.files = 10;
  log.reads.bytes = 1234;
  log.reads.calls = 20;
  for (uint64_t ns = 1; ns < 1'000'000'000; ns *= 3) log.reads.file_ns.Add(ns);
  log.reads.call_ns.Add(77);
  log.cpu_user_s = 1.5;
  log.cpu_system_s = 0.25;
  return log;
}

TEST(LogCodec, TravelsWhole) {
  TrainingLog log = Log(3, 0.5);
  log.reads.errors = 2;
  log.reads.first_error = "gone";
  log.interrupted = true;
  log.failure = Status(Code::kIo, "broken", 5);
  const std::string bytes = EncodeTrainingLog(log);
  const auto back = DecodeTrainingLog(bytes);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(EncodeTrainingLog(*back), bytes);
  EXPECT_EQ(back->steady_start, log.steady_start);
  ASSERT_EQ(back->epochs.size(), 2u);
  ASSERT_EQ(back->epochs[1].ranks.size(), 3u);
  EXPECT_EQ(back->epochs[1].ranks[2].steps[0].compute_end, log.epochs[1].ranks[2].steps[0].compute_end);
  EXPECT_EQ(back->epochs[1].ranks[2].loader_end, log.epochs[1].ranks[2].loader_end);
  EXPECT_TRUE(back->epochs[0].complete);
  EXPECT_EQ(back->epochs_planned, 2u);
  EXPECT_EQ(back->reads.bytes, 1234u);
  EXPECT_EQ(back->reads.first_error, "gone");
  EXPECT_EQ(back->reads.file_ns.count(), log.reads.file_ns.count());
  EXPECT_EQ(back->reads.file_ns.max(), log.reads.file_ns.max());
  EXPECT_EQ(back->reads.file_ns.Quantile(0.9), log.reads.file_ns.Quantile(0.9));
  EXPECT_EQ(back->cpu_system_s, 0.25);
  EXPECT_TRUE(back->interrupted);
  EXPECT_EQ(back->failure.code(), Code::kIo);
  EXPECT_EQ(back->failure.os_errno(), 5);
  EXPECT_EQ(back->failure.message(), "broken");
}

TEST(LogCodec, RefusesWhatIsNoLog) {
  const std::string bytes = EncodeTrainingLog(Log(2, 0));
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 16) {
    EXPECT_FALSE(DecodeTrainingLog(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeTrainingLog(bytes + "x").ok());
  EXPECT_FALSE(DecodeTrainingLog(std::string(4096, '\xff')).ok());
}

std::vector<LogPart> TwoParts() {
  std::vector<LogPart> parts(2);
  parts[0] = {"process 0 on host a", 0, 2, 0, true, Log(2, 0.5)};
  // Began 0.25 s later, on a clock that is 100 s ahead.
  parts[1] = {"process 1 on host b", 2, 2, 100, true, Log(2, 0.25)};
  parts[1].log.steady_start += std::chrono::milliseconds(100'250);
  return parts;
}

TEST(MergeLogs, PutsAllRanksOnTheFirstClock) {
  const TrainingLog all = MergeLogs(TwoParts());
  ASSERT_EQ(all.epochs.size(), 2u);
  ASSERT_EQ(all.epochs[0].ranks.size(), 4u);
  for (const RankEpoch& rank : all.epochs[0].ranks) {
    EXPECT_NEAR(rank.block_start, 0.5, 1e-9);
    EXPECT_NEAR(rank.steps[0].barrier_end, 0.9, 1e-9);
    EXPECT_NEAR(rank.loader_end, 1.0, 1e-9);
  }
  EXPECT_TRUE(all.epochs[0].complete);
  EXPECT_EQ(all.reads.files, 20u);
  EXPECT_EQ(all.reads.call_ns.count(), 2u);
  EXPECT_DOUBLE_EQ(all.cpu_user_s, 3.0);
  EXPECT_TRUE(all.failure.ok());
  EXPECT_EQ(all.epochs_planned, 2u);
}

TEST(MergeLogs, AnEpochIsCompleteOnlyWhenItIsSoEverywhere) {
  std::vector<LogPart> parts = TwoParts();
  parts[1].log.epochs.pop_back();
  parts[1].log.interrupted = true;
  const TrainingLog all = MergeLogs(parts);
  ASSERT_EQ(all.epochs.size(), 2u);
  EXPECT_TRUE(all.epochs[0].complete);
  EXPECT_FALSE(all.epochs[1].complete);
  EXPECT_EQ(all.epochs[1].ranks.size(), 4u);
  EXPECT_TRUE(all.epochs[1].ranks[3].steps.empty());
  EXPECT_TRUE(all.interrupted);
}

TEST(MergeLogs, NamesWhereItFailed) {
  std::vector<LogPart> parts = TwoParts();
  parts[1].log.failure = Status(Code::kIo, "disk gone");
  parts[1].log.reads.errors = 1;
  parts[1].log.reads.first_error = "x: Input/output error";
  TrainingLog all = MergeLogs(parts);
  EXPECT_EQ(all.failure.message(), "process 1 on host b: disk gone");
  EXPECT_EQ(all.reads.first_error, "process 1 on host b: x: Input/output error");
  // The first part's own words, or what it heard, come first.
  parts[0].log.failure = Status(Code::kIo, "process 1 on host b: disk gone");
  EXPECT_EQ(MergeLogs(parts).failure.message(), "process 1 on host b: disk gone");
}

TEST(MergeLogs, AMissingLogIsAFailure) {
  std::vector<LogPart> parts = TwoParts();
  parts[1].received = false;
  parts[1].log = {};
  const TrainingLog all = MergeLogs(parts);
  EXPECT_EQ(all.failure.message(), "process 1 on host b did not send what it had measured");
  EXPECT_FALSE(all.epochs[0].complete);
  EXPECT_EQ(all.epochs[0].ranks.size(), 4u);
}

TEST(ShareCodec, TravelsWhole) {
  RunRecord record;
  record.host.hostname = "b";
  record.host.cpus = 8;
  record.host.memory_bytes = 1 << 30;
  record.host.processor = "fast";
  record.cpu.cores = 1.5;
  record.cpu.process = 0.25;
  record.cpu.machine = 0.5;
  record.cache.sampled_files = 16;
  record.cache.page_cache_after = 0.75;
  record.cache.mount = MountInfo{"/mnt", "fuse.stoker", "stoker"};
  record.cache.daemon = DaemonCounters{.pid = 7, .version = "1", .bytes_ufs = 99};
  record.log = Log(1, 0);
  const std::string bytes = EncodeShare(record);
  const auto back = DecodeShare(bytes);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(EncodeShare(*back), bytes);
  EXPECT_EQ(back->host.memory_bytes, record.host.memory_bytes);
  EXPECT_EQ(back->cpu.process, 0.25);
  EXPECT_FALSE(back->cache.page_cache_before.has_value());
  EXPECT_EQ(back->cache.page_cache_after, 0.75);
  EXPECT_EQ(back->cache.mount->fstype, "fuse.stoker");
  EXPECT_EQ(back->cache.daemon->bytes_ufs, 99u);
  EXPECT_FALSE(DecodeShare("").ok());
  EXPECT_FALSE(DecodeShare(bytes.substr(0, 30)).ok());
}

}  // namespace
}  // namespace stoker::bench
