#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cache/base/random.h"
#include "prefetch/access_pattern.h"
#include "prefetch/part_memory.h"
#include "prefetch/part_progress.h"
#include "prefetch/thrift.h"
#include "prefetch/window.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// --- AccessPattern ----------------------------------------------------------------------------------------

TEST(AccessPatternTest, WholeFileFromTheStartIsSequentialAtOnce) {
  AccessPattern pattern;
  EXPECT_TRUE(pattern.Observe({0, 128 * kKiB}).sequential);
  const AccessPattern::Seen seen = pattern.Observe({128 * kKiB, 256 * kKiB});
  EXPECT_TRUE(seen.sequential);
  EXPECT_EQ(seen.frontier, 256 * kKiB);
}

TEST(AccessPatternTest, APeekAtTheHeaderIsNotSequential) {
  AccessPattern pattern;
  EXPECT_FALSE(pattern.Observe({0, 4096}).sequential);
  EXPECT_FALSE(pattern.Observe({0, 4096}).sequential);
}

TEST(AccessPatternTest, InTheMiddleItTakesASecondRead) {
  AccessPattern pattern;
  EXPECT_FALSE(pattern.Observe({100 * kMiB, 101 * kMiB}).sequential);
  EXPECT_TRUE(pattern.Observe({101 * kMiB, 102 * kMiB}).sequential);
}

TEST(AccessPatternTest, ReadaheadOutOfOrderStaysOneStream) {
  AccessPattern pattern;
  Random random(testing::TestSeed());
  constexpr uint64_t kRequest = 512 * kKiB;
  std::vector<uint64_t> order;
  for (uint64_t window = 0; window < 32; ++window) {
    std::vector<uint64_t> four = {4 * window, 4 * window + 1, 4 * window + 2, 4 * window + 3};
    random.Shuffle(four);
    order.insert(order.end(), four.begin(), four.end());
  }
  uint64_t stream = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const AccessPattern::Seen seen = pattern.Observe({order[i] * kRequest, (order[i] + 1) * kRequest});
    if (i == 0) stream = seen.stream;
    EXPECT_EQ(seen.stream, stream) << i;
    EXPECT_THAT(seen.ended, IsEmpty());
    EXPECT_TRUE(seen.sequential || i < 4) << i;
  }
}

TEST(AccessPatternTest, InterleavedStreamsAreToldApart) {
  AccessPattern pattern;
  constexpr uint64_t kStreams = 6;
  std::vector<uint64_t> names(kStreams);
  for (uint64_t step = 0; step < 100; ++step) {
    for (uint64_t s = 0; s < kStreams; ++s) {
      const uint64_t at = s * 500 * kMiB + step * 128 * kKiB;
      const AccessPattern::Seen seen = pattern.Observe({at, at + 128 * kKiB});
      if (step == 0) names[s] = seen.stream;
      EXPECT_EQ(seen.stream, names[s]);
      EXPECT_TRUE(seen.sequential || step == 0);
      EXPECT_EQ(seen.frontier, at + 128 * kKiB);
    }
  }
}

TEST(AccessPatternTest, RandomReadsAreNever) {
  for (const uint64_t size : {10 * kMiB, kGiB, 1024 * kGiB}) {
    AccessPattern pattern;
    Random random(testing::TestSeed());
    int sequential = 0;
    for (int i = 0; i < 2000; ++i) {
      const uint64_t at = random.Below(size / 4096) * 4096;
      sequential += pattern.Observe({at, at + 4096}).sequential ? 1 : 0;
    }
    EXPECT_LE(sequential, 2) << size;
  }
}

TEST(AccessPatternTest, StridesWithGapsAreNotSequential) {
  AccessPattern pattern;
  for (uint64_t i = 0; i < 200; ++i) {
    EXPECT_FALSE(pattern.Observe({i * kMiB + 4096, i * kMiB + 4096 + 64 * kKiB}).sequential) << i;
  }
}

TEST(AccessPatternTest, AStreamThatIsLeftEnds) {
  AccessPattern pattern;
  const uint64_t left = pattern.Observe({0, 128 * kKiB}).stream;
  std::vector<uint64_t> ended;
  for (uint64_t i = 0; i < AccessPattern::kStaleReads + 1; ++i) {
    const uint64_t at = 900 * kMiB + i * 128 * kKiB;
    const AccessPattern::Seen seen = pattern.Observe({at, at + 128 * kKiB});
    ended.insert(ended.end(), seen.ended.begin(), seen.ended.end());
  }
  EXPECT_THAT(ended, ElementsAre(left));
}

// --- Window -----------------------------------------------------------------------------------------------

TEST(WindowTest, OpensAtOneDoublesOnProgressAndCloses) {
  Window window(8);
  EXPECT_EQ(window.parts(), 0u);
  window.OnRead(false, 0, false);
  EXPECT_EQ(window.parts(), 0u);
  window.OnRead(true, 0, true);
  EXPECT_EQ(window.parts(), 1u);
  window.OnRead(true, 0, true);  // the same stall
  EXPECT_EQ(window.parts(), 1u);
  window.OnRead(true, 1, false);
  EXPECT_EQ(window.parts(), 2u);
  window.OnRead(true, 1, false);
  EXPECT_EQ(window.parts(), 2u);
  window.OnRead(true, 1, true);  // waits although ahead: faster
  EXPECT_EQ(window.parts(), 4u);
  window.OnRead(true, 2, false);
  window.OnRead(true, 3, false);
  EXPECT_EQ(window.parts(), 8u);  // and no more
  window.OnRead(true, 4, true);
  EXPECT_EQ(window.parts(), 8u);
  window.OnRead(false, 4, false);
  EXPECT_EQ(window.parts(), 0u);
}

TEST(WindowTest, LimitsThatAreNoPowerOfTwo) {
  Window three(3);
  for (uint32_t part = 0; part < 5; ++part) three.OnRead(true, part, false);
  EXPECT_EQ(three.parts(), 3u);
  Window none(0);
  none.OnRead(true, 0, true);
  EXPECT_EQ(none.parts(), 0u);
}

// --- PartProgress -----------------------------------------------------------------------------------------

TEST(PartProgressTest, WantedBytesComeFirstThenTheRestInOrderWrapping) {
  PartProgress progress(4 * kMiB);
  const ByteRange wanted{2 * kMiB + 4096, 2 * kMiB + 8192};
  EXPECT_EQ(progress.TakeWanted(wanted), (ByteRange{2 * kMiB, 2 * kMiB + 256 * kKiB}));
  EXPECT_TRUE(progress.TakeWanted(wanted).empty());
  EXPECT_EQ(progress.TakeAny(), (ByteRange{2 * kMiB + 256 * kKiB, 3 * kMiB + 256 * kKiB}));
  EXPECT_EQ(progress.TakeAny(), (ByteRange{3 * kMiB + 256 * kKiB, 4 * kMiB}));
  EXPECT_EQ(progress.TakeAny(), (ByteRange{0, kMiB}));
  EXPECT_EQ(progress.TakeAny(), (ByteRange{kMiB, 2 * kMiB}));
  EXPECT_TRUE(progress.TakeAny().empty());
}

TEST(PartProgressTest, OneRequestAnswersALargerReader) {
  PartProgress progress(4 * kMiB);
  EXPECT_EQ(progress.TakeWanted({kMiB, kMiB + 512 * kKiB}), (ByteRange{kMiB, kMiB + 512 * kKiB}));
}

TEST(PartProgressTest, VerifiedOnlyWhatHadLanded) {
  PartProgress progress(200 * kKiB);
  const ByteRange first = progress.TakeWanted({0, 1});
  EXPECT_EQ(first, (ByteRange{0, 200 * kKiB}));
  EXPECT_FALSE(progress.HasLanded({0, 1}));
  progress.Lost(first);
  EXPECT_EQ(progress.TakeAny(), first);
  progress.Landed(first);
  EXPECT_TRUE(progress.AllLanded());
  EXPECT_FALSE(progress.IsVerified({0, 1}));
  progress.VerifyLanded();
  EXPECT_TRUE(progress.IsVerified({199 * kKiB, 200 * kKiB}));
}

TEST(PartProgressTest, EveryByteIsTakenOnceInPiecesOfAtMostOneMiB) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const uint64_t size = random.Below(6 * kMiB) + 1;
    PartProgress progress(size);
    std::vector<ByteRange> taken;
    uint64_t bytes = 0;
    while (true) {
      const uint64_t begin = random.Below(size);
      const ByteRange wanted{begin, std::min(size, begin + random.Below(kMiB) + 1)};
      ByteRange piece = random.OneIn(2) ? progress.TakeWanted(wanted) : progress.TakeAny();
      if (piece.empty()) piece = progress.TakeAny();
      if (piece.empty()) break;
      EXPECT_LE(piece.size(), PartProgress::kMaxPieceBytes);
      EXPECT_LE(piece.end, size);
      if (random.OneIn(4)) {
        progress.Lost(piece);
        continue;
      }
      progress.Landed(piece);
      for (const ByteRange& other : taken) EXPECT_TRUE(Intersect(other, piece).empty());
      taken.push_back(piece);
      bytes += piece.size();
    }
    EXPECT_EQ(bytes, size);
    EXPECT_TRUE(progress.AllLanded());
  }
}

// --- PartMemory -------------------------------------------------------------------------------------------

TEST(ThriftTest, WasteIsEarnedBackEightTimesBeforeWholePartsAreFetchedAgain) {
  fetch::Thrift thrift;
  EXPECT_FALSE(thrift.saving());
  thrift.Exact(kMiB);  // nothing can be earned in advance
  thrift.Wasted(0);
  EXPECT_FALSE(thrift.saving());
  thrift.Wasted(kMiB);
  uint64_t exact = 0;
  for (; thrift.saving(); exact += 128 * kKiB) thrift.Exact(128 * kKiB);
  EXPECT_EQ(exact, fetch::Thrift::kEarned * kMiB);
  thrift.Wasted(1);
  thrift.Wasted(1);
  thrift.Exact(2 * fetch::Thrift::kEarned - 1);
  EXPECT_TRUE(thrift.saving());
  thrift.Exact(kMiB);
  EXPECT_FALSE(thrift.saving());
}

TEST(PartMemoryTest, LowPriorityLeavesRoomForOneMore) {
  PartMemory memory(4 * kMiB);
  std::vector<PartMemory::Block> garbage;
  std::vector<PartMemory::Block> held;
  while (memory.CanTake(kMiB, false)) held.push_back(memory.Take(kMiB, false, garbage));
  EXPECT_EQ(held.size(), 3u);
  held.push_back(memory.Take(kMiB, true, garbage));
  EXPECT_EQ(held.back().bytes, kMiB);
  EXPECT_EQ(memory.Take(1, true, garbage).bytes, 0u);
  for (const PartMemory::Block& block : held) memory.Give(block);
  EXPECT_EQ(memory.used_bytes(), 0u);
}

TEST(PartMemoryTest, TheFirstAlwaysFits) {
  PartMemory memory(1);
  std::vector<PartMemory::Block> garbage;
  const PartMemory::Block block = memory.Take(4 * kMiB, false, garbage);
  EXPECT_EQ(block.bytes, 4 * kMiB);
  EXPECT_FALSE(memory.CanTake(1, true));
  memory.Give(block);
  EXPECT_TRUE(memory.CanTake(1, false));
}

TEST(PartMemoryTest, UsedAndIdleTogetherStayWithinTheBudget) {
  constexpr uint64_t kBudget = 8 * kMiB;
  PartMemory memory(kBudget);
  Random random(testing::TestSeed());
  std::vector<PartMemory::Block> held;
  for (int i = 0; i < 2000; ++i) {
    std::vector<PartMemory::Block> garbage;
    if (!held.empty() && random.OneIn(2)) {
      memory.Give(held.back());
      held.pop_back();
    } else {
      PartMemory::Block block = memory.Take(random.Below(2 * kMiB) + 1, random.OneIn(2), garbage);
      if (block.bytes != 0) {
        ASSERT_TRUE(block.data != nullptr || PartMemory::MapBlock(block));
        held.push_back(block);
      }
    }
    PartMemory::UnmapBlocks(garbage);
    uint64_t sum = 0;
    for (const PartMemory::Block& block : held) sum += block.bytes;
    ASSERT_EQ(memory.used_bytes(), sum);
    ASSERT_LE(memory.used_bytes() + memory.idle_bytes(), kBudget);
  }
  for (const PartMemory::Block& block : held) memory.Give(block);
  std::vector<PartMemory::Block> garbage;
  memory.TakeIdle(garbage);
  PartMemory::UnmapBlocks(garbage);
  EXPECT_EQ(memory.idle_bytes(), 0u);
}

TEST(PartMemoryTest, SmallFilesHoldLittle) {
  EXPECT_EQ(PartMemory::BlockBytes(1), 64 * kKiB);
  EXPECT_EQ(PartMemory::BlockBytes(110 * kKiB), 128 * kKiB);
  EXPECT_EQ(PartMemory::BlockBytes(4 * kMiB), 4 * kMiB);
}

}  // namespace
}  // namespace stoker
