#include "workload/io/offsets.h"

#include <gmock/gmock.h>
#include <map>
#include <set>
#include <vector>

#include "tests/support/seed.h"
#include "workload/io/io_options.h"

namespace stoker::bench {
namespace {

TEST(Permutation, IsOneToOneForEverySmallSize) {
  for (uint64_t n = 1; n < 300; ++n) {
    const Permutation order(n * 7, n);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < n; ++i) {
      ASSERT_LT(order(i), n);
      seen.insert(order(i));
    }
    ASSERT_EQ(seen.size(), n);
  }
}

TEST(Permutation, SeedsGiveOtherOrdersAndTheSameSeedTheSame) {
  const Permutation one(1, 1000);
  const Permutation again(1, 1000);
  const Permutation other(2, 1000);
  uint64_t same = 0;
  uint64_t fixed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(one(i), again(i));
    same += one(i) == other(i);
    fixed += one(i) == i;
  }
  EXPECT_LT(same, 20u);  // a random pair agrees in about one place
  EXPECT_LT(fixed, 20u);
}

TEST(Offsets, SharedFileHasTheBlockOfATaskInEachSegment) {
  const JobLayout layout{.tasks = 3, .segments = 2, .block_bytes = 40, .transfer_bytes = 20};
  const OffsetSequence second(layout, 1, 0);
  ASSERT_EQ(second.count(), 4u);
  EXPECT_EQ(second.At(0), 40u);  // (0 * 3 + 1) * 40
  EXPECT_EQ(second.At(1), 60u);
  EXPECT_EQ(second.At(2), 160u);  // (1 * 3 + 1) * 40
  EXPECT_EQ(second.At(3), 180u);
}

TEST(Offsets, OwnFileIsContiguous) {
  const JobLayout layout{
      .tasks = 3, .segments = 2, .block_bytes = 40, .transfer_bytes = 20, .file_per_process = true};
  const OffsetSequence sequence(layout, 2, 0);
  EXPECT_EQ(std::vector<uint64_t>({sequence.At(0), sequence.At(1), sequence.At(2), sequence.At(3)}),
            std::vector<uint64_t>({0, 20, 40, 60}));
}

/// Every transfer of every file comes exactly once, whatever the options.
TEST(Offsets, EveryByteOfEveryFileOnce) {
  const uint64_t seed = stoker::testing::TestSeed();
  for (const uint64_t tasks : {1, 2, 3, 8}) {
    for (const uint64_t segments : {1, 2, 5}) {
      for (const uint64_t per_block : {1, 2, 3, 16}) {
        for (const bool own : {false, true}) {
          for (const bool random : {false, true}) {
            const JobLayout layout{.tasks = tasks,
                                   .segments = segments,
                                   .block_bytes = per_block * 24,
                                   .transfer_bytes = 24,
                                   .file_per_process = own,
                                   .random = random};
            std::map<uint64_t, std::vector<int>> hits;  // file -> times each transfer came
            for (uint64_t task = 0; task < tasks; ++task) {
              const OffsetSequence sequence(layout, task, seed);
              ASSERT_EQ(sequence.count(), segments * per_block);
              std::vector<int>& file = hits[own ? task : 0];
              file.resize(layout.file_bytes() / 24);
              for (uint64_t i = 0; i < sequence.count(); ++i) {
                const uint64_t offset = sequence.At(i);
                ASSERT_EQ(offset % 24, 0u);
                ASSERT_LE(offset + 24, layout.file_bytes());
                ++file[offset / 24];
              }
            }
            for (const auto& [file, times] : hits) {
              ASSERT_THAT(times, ::testing::Each(1)) << "file " << file << " tasks " << tasks << " -s "
                                                     << segments << " own " << own << " random " << random;
            }
          }
        }
      }
    }
  }
}

TEST(Offsets, RandomFilesDoNotShareAnOrder) {
  const JobLayout layout{
      .tasks = 2, .block_bytes = 8 * 256, .transfer_bytes = 8, .file_per_process = true, .random = true};
  const OffsetSequence a(layout, 0, 5);
  const OffsetSequence b(layout, 1, 5);
  uint64_t same = 0;
  for (uint64_t i = 0; i < a.count(); ++i) same += a.At(i) == b.At(i);
  EXPECT_LT(same, 20u);
}

TEST(ReadsFrom, ShiftsByQ) {
  IoOptions options;
  options.tasks = 4;
  EXPECT_EQ(ReadsFrom(options, 3, 0), 3u);
  options.shift_tasks = true;
  EXPECT_EQ(ReadsFrom(options, 3, 0), 0u);
  options.task_offset = 6;
  EXPECT_EQ(ReadsFrom(options, 1, 0), 3u);
  EXPECT_EQ(ChecksFrom(options, 3), 1u);
}

TEST(ReadsFrom, OnSeveralHostsFromAnotherHost) {
  IoOptions options;  // 3 hosts with 4 tasks each, numbered in rows
  options.tasks = 12;
  options.hosts = 3;
  options.tasks_per_host = options.host_stride = 4;
  options.shift_tasks = true;
  EXPECT_EQ(ReadsFrom(options, 1, 0), 5u);
  EXPECT_EQ(ChecksFrom(options, 1), 9u);
  options.shift_tasks = false;
  options.random_tasks = true;
  for (uint64_t task = 0; task < 12; ++task) {
    const uint64_t on = (ReadsFrom(options, task, 0) + 12 - task) % 12;
    EXPECT_GE(on, 4u);
  }
}

TEST(ReadsFrom, RandomIsFixedByTheSeedAndMovesWithNegativeOnes) {
  IoOptions options;
  options.tasks = 64;
  options.random_tasks = true;
  options.random_tasks_seed = 9;
  const auto all = [&](uint64_t repetition) {
    std::vector<uint64_t> owners;
    for (uint64_t task = 0; task < options.tasks; ++task)
      owners.push_back(ReadsFrom(options, task, repetition));
    return owners;
  };
  EXPECT_EQ(all(0), all(1));
  EXPECT_THAT(all(0), ::testing::Each(::testing::Lt(64u)));
  options.random_tasks_seed = -9;
  EXPECT_NE(all(0), all(1));
}

}  // namespace
}  // namespace stoker::bench
