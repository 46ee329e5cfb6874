#include "workload/train/input_pipeline.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "cache/base/random.h"
#include "tests/support/seed.h"
#include "workload/train/stream_plan.h"

namespace stoker::bench {
namespace {

/// Plays the reading threads: each file has `records` records, a chunk completes `per_chunk` of them, and the
/// end is learnt by one read more.
class Player {
 public:
  Player(InputPipeline& pipeline, uint64_t records, uint64_t per_chunk)
      : pipeline_(pipeline), records_(records), per_chunk_(per_chunk), at_(pipeline.slots()) {}

  /// One read of a slot that wants one, chosen by `random`; false when none does.
  bool Read(Random& random) {
    std::vector<uint64_t> wanting;
    for (uint64_t slot = 0; slot < pipeline_.slots(); ++slot) {
      if (pipeline_.Wanted(slot)) wanting.push_back(slot);
    }
    if (wanting.empty()) return false;
    const uint64_t slot = wanting[random.Below(wanting.size())];
    const InputPipeline::Work work = *pipeline_.Wanted(slot);
    if (at_[slot].opening != work.opening) {
      at_[slot] = {work.opening, 0};
      opened.push_back(work.file);
    }
    const uint64_t found = std::min(per_chunk_, records_ - at_[slot].records);
    at_[slot].records += found;
    ++reads;
    pipeline_.Found(slot, found, found == 0);
    return true;
  }
  void ReadAll(Random& random) {
    while (Read(random)) {
    }
  }

  std::vector<uint64_t> opened;  // files, in order
  uint64_t reads = 0;

 private:
  struct At {
    uint64_t opening = 0;
    uint64_t records = 0;
  };
  InputPipeline& pipeline_;
  const uint64_t records_;
  const uint64_t per_chunk_;
  std::vector<At> at_;
};

std::function<std::vector<uint32_t>(uint64_t)> Files(uint32_t count) {
  return [count](uint64_t) {
    std::vector<uint32_t> files(count);
    std::iota(files.begin(), files.end(), 0u);
    return files;
  };
}

TEST(InputPipeline, OneStreamOpensFilesOneAfterTheOther) {
  PipelineOptions options;
  options.batch_size = 4;
  options.batches = 5;
  InputPipeline pipeline(options, Files(2));
  Random random(1);
  Player player(pipeline, 10, 2);
  EXPECT_EQ(pipeline.slots(), 1u);
  player.ReadAll(random);
  EXPECT_TRUE(pipeline.ready());
  EXPECT_EQ(player.reads, 4u);  // 8 records: 4 of the batch, then as many as it may be ahead
  for (int batch = 0; batch < 5; ++batch) {
    player.ReadAll(random);
    EXPECT_TRUE(pipeline.Take()) << batch;
  }
  player.ReadAll(random);
  EXPECT_FALSE(pipeline.Take());
  EXPECT_EQ(player.opened, (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(pipeline.passes(), 1u);
  EXPECT_EQ(player.reads, 2u * (5 + 1));
}

TEST(InputPipeline, InterleaveHasItsFilesAndTheStagedOnesOpenAtOnce) {
  PipelineOptions options;
  options.cycle = 2;
  options.staged = 4;
  options.batch_size = 1;
  options.batches = 100;
  InputPipeline pipeline(options, Files(10));
  Random random(2);
  Player player(pipeline, 10, 1);
  EXPECT_EQ(pipeline.slots(), 6u);
  player.ReadAll(random);
  EXPECT_EQ(std::set<uint64_t>(player.opened.begin(), player.opened.end()),
            (std::set<uint64_t>{0, 1, 2, 3, 4, 5}));
  // One record was taken for the one batch in flight; every file is kRecordsAhead ahead of its use.
  EXPECT_EQ(player.reads, 6 * InputPipeline::kRecordsAhead + 1);
  // After 20 records files 0 and 1 are used up; for the next one file 2 takes the turn of file 0, and file 6
  // is staged.
  for (int taken = 0; taken < 20; ++taken) {
    player.ReadAll(random);
    ASSERT_TRUE(pipeline.Take());
  }
  player.ReadAll(random);
  EXPECT_TRUE(pipeline.ready());
  EXPECT_EQ(player.opened.size(), 7u);
  EXPECT_EQ(player.opened.back(), 6u);
}

TEST(InputPipeline, TheStreamGoesOnFromPassToPassAndDropsThePassesTail) {
  PipelineOptions options;
  options.batch_size = 7;
  options.batches = 6;
  InputPipeline pipeline(options, Files(2));  // 20 records a pass: 2 batches, 6 records dropped
  Random random(3);
  Player player(pipeline, 10, 3);
  uint64_t taken = 0;
  do player.ReadAll(random);
  while (pipeline.Take() && ++taken);
  EXPECT_EQ(taken, 6u);
  EXPECT_EQ(pipeline.passes(), 3u);
  EXPECT_EQ(player.opened, (std::vector<uint64_t>{0, 1, 0, 1, 0, 1}));
}

TEST(InputPipeline, TheShuffleBufferFillsBeforeTheFirstBatchAndDrainsAtThePassesEnd) {
  PipelineOptions options;
  options.batch_size = 2;
  options.batches = 10;
  options.shuffle = 8;
  InputPipeline pipeline(options, Files(1));
  uint64_t fed = 0;
  while (!pipeline.ready()) {
    ASSERT_TRUE(pipeline.Wanted(0));
    pipeline.Found(0, 1, false);
    ++fed;
  }
  EXPECT_EQ(fed, 9u);  // 8 in the buffer, one out; the ninth brings the second out
  // The pass's end at 12 records: all that is left comes out without any more reading.
  pipeline.Found(0, 3, true);
  for (int batch = 0; batch < 6; ++batch) EXPECT_TRUE(pipeline.Take()) << batch;
  EXPECT_FALSE(pipeline.ready());
  EXPECT_EQ(pipeline.passes(), 2u);
}

TEST(InputPipeline, NeverMoreBatchesMadeThanMayBeInFlight) {
  PipelineOptions options;
  options.batch_size = 3;
  options.batches = 50;
  options.in_flight = 4;
  options.cycle = 3;
  options.staged = 6;
  InputPipeline pipeline(options, Files(20));
  Random random(4);
  Player player(pipeline, 100, 5);
  player.ReadAll(random);
  EXPECT_TRUE(pipeline.ready());
  // 4 batches of 3 were taken from what was read; the 9 files are ahead by what is allowed and the chunk that
  // brought them there.
  EXPECT_GE(player.reads * 5, 4u * 3);
  EXPECT_LT(player.reads * 5, 4u * 3 + 9 * (InputPipeline::kRecordsAhead + 5));
}

/// Whatever order reads come back in, a pass reads every file once, and batches are floor(records / batch).
TEST(InputPipeline, EveryFileOnceAPassInAnyOrderOfReads) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 300; ++round) {
    PipelineOptions options;
    options.cycle = 1 + random.Below(4);
    options.staged = random.OneIn(2) ? 0 : 2 * options.cycle;
    options.batch_size = 1 + random.Below(6);
    options.in_flight = 1 + random.Below(4);
    options.shuffle = random.Below(3) * 5;
    options.shards = 1 + random.Below(3);
    options.shard = random.Below(options.shards);
    options.shard_first = random.OneIn(2);
    const auto files = static_cast<uint32_t>(1 + random.Below(12));
    const uint64_t records = 1 + random.Below(9);
    const uint64_t all = files * records;
    const uint64_t kept = all > options.shard ? (all - options.shard - 1) / options.shards + 1 : 0;
    const uint64_t per_pass = kept / options.batch_size;
    if (per_pass == 0) continue;
    const uint64_t passes = 1 + random.Below(3);
    options.batches = per_pass * passes;
    InputPipeline pipeline(options, Files(files));
    Player player(pipeline, records, 1 + random.Below(4));
    uint64_t taken = 0;
    for (int guard = 0; guard < 1'000'000; ++guard) {
      const bool read = player.Read(random);
      const bool took = (random.OneIn(3) || !read) && pipeline.Take();
      if (took) ++taken;
      if (!read && !took) break;
    }
    ASSERT_EQ(taken, options.batches) << "round " << round;
    ASSERT_EQ(pipeline.passes(), passes);
    std::map<uint64_t, uint64_t> opened;
    for (const uint64_t file : player.opened) ++opened[file];
    for (const auto& [file, times] : opened) ASSERT_LE(times, passes) << "file " << file;
    if (all == kept && all % options.batch_size == 0) {
      ASSERT_EQ(player.opened.size(), files * passes);
    }
  }
}

StreamJob Job(Edition loop, uint64_t files, uint64_t ranks) {
  StreamJob job;
  job.loop = loop;
  job.files = files;
  job.ranks = ranks;
  job.samples_per_file = 10;
  job.batch_size = 5;
  job.read_threads = 4;
  job.prefetch = 2;
  job.epochs = 3;
  return job;
}

TEST(StreamPlan, V05GivesEveryRankAllFilesAndEveryRanksthRecord) {
  StreamJob job = Job(Edition::kV05, 6, 2);
  const PipelineOptions options = PipelineOf(job, 1);
  EXPECT_EQ(options.cycle, 1u);
  EXPECT_EQ(options.staged, 0u);
  EXPECT_EQ(options.shards, 2u);
  EXPECT_EQ(options.shard, 1u);
  EXPECT_TRUE(options.shard_first);
  EXPECT_EQ(options.batches, 6u);  // of one epoch
  EXPECT_EQ(StreamThreads(job), 1u);
  EXPECT_FALSE(OutlivesEpoch(Edition::kV05));
  EXPECT_EQ(FilesOf(job, 1)(0), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
  job.file_shuffle = true;
  EXPECT_NE(FilesOf(job, 1)(0), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(FilesOf(job, 1)(0), FilesOf(job, 0)(0));
  EXPECT_EQ(FilesOf(job, 1)(0), FilesOf(job, 1)(1)) << "shuffled once";
}

TEST(StreamPlan, LaterRoundsShareOutTheFiles) {
  StreamJob job = Job(Edition::kV20, 7, 3);
  const PipelineOptions options = PipelineOf(job, 1);
  EXPECT_EQ(options.cycle, 4u);
  EXPECT_EQ(options.staged, 8u);
  EXPECT_EQ(options.shards, 1u);
  EXPECT_EQ(options.in_flight, 3u);
  EXPECT_EQ(options.batches, 3u * 5);  // ceil(70 / 15) an epoch
  EXPECT_EQ(FilesOf(job, 0)(0), (std::vector<uint32_t>{0, 3, 6}));
  EXPECT_EQ(FilesOf(job, 1)(2), (std::vector<uint32_t>{1, 4}));
  EXPECT_EQ(StreamThreads(job), 3u);
  EXPECT_TRUE(OutlivesEpoch(Edition::kV20));
}

TEST(StreamPlan, V10ShufflesTheListForEachPassAndRanksStayDisjoint) {
  StreamJob job = Job(Edition::kV10, 40, 4);
  job.order = AccessOrder::kV1;
  std::set<uint32_t> seen;
  for (uint64_t rank = 0; rank < 4; ++rank) {
    for (const uint32_t file : FilesOf(job, rank)(1)) EXPECT_TRUE(seen.insert(file).second);
    EXPECT_NE(FilesOf(job, rank)(0), FilesOf(job, rank)(1));
  }
  EXPECT_EQ(seen.size(), 40u);
}

TEST(StreamPlan, FewerFilesThanRanksAreReadByAll) {
  const PipelineOptions options = PipelineOf(Job(Edition::kV20, 2, 4), 3);
  EXPECT_EQ(options.shards, 4u);
  EXPECT_EQ(options.shard, 3u);
  EXPECT_FALSE(options.shard_first);
  EXPECT_EQ(FilesOf(Job(Edition::kV20, 2, 4), 3)(0), (std::vector<uint32_t>{0, 1}));
}

}  // namespace
}  // namespace stoker::bench
