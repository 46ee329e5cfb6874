#include "prefetch/fetch_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "prefetch/lingering.h"

namespace stoker::fetch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kPartBytes = 64 * kKiB;

ObjectId Id(uint64_t serial) {
  return MakeObjectId({kPartBytes, "test:" + std::to_string(serial)});
}

std::shared_ptr<Fetch> Make(const ObjectId& object, uint32_t part, FetchPriority priority) {
  auto fetch = std::make_shared<Fetch>(PartKey{object, PartIndex{part}}, PartIndex{part},
                                       ByteRange{part * kPartBytes, (part + 1) * kPartBytes});
  fetch->priority = priority;
  return fetch;
}

class FetchQueueTest : public ::testing::Test {
 protected:
  std::shared_ptr<Fetch> Add(uint32_t part, FetchPriority priority) {
    auto fetch = Make(object_, part, priority);
    queue_.Add(fetch);
    return fetch;
  }
  /// Starts all that wait, in the queue's order.
  std::vector<uint32_t> Drain() {
    std::vector<uint32_t> order;
    while (const std::shared_ptr<Fetch> head = queue_.Head()) {
      order.push_back(ToInt(head->part));
      queue_.Start(head);
    }
    return order;
  }
  const ObjectId object_ = Id(1);
  FetchQueue queue_{4};
};

TEST_F(FetchQueueTest, UrgentFirstThenInTheOrderTheyCame) {
  Add(0, FetchPriority::kWarm);
  Add(1, FetchPriority::kReadAhead);
  Add(2, FetchPriority::kDemand);
  Add(3, FetchPriority::kReadAhead);
  Add(4, FetchPriority::kHint);
  Add(5, FetchPriority::kDemand);
  EXPECT_THAT(Drain(), ElementsAre(2, 5, 1, 3, 4, 0));
  EXPECT_EQ(queue_.waiting(), 0u);
  EXPECT_EQ(queue_.Head(), nullptr);
}

TEST_F(FetchQueueTest, WhatIsRaisedGoesBehindThoseOfItsNewPriority) {
  const auto warm = Add(0, FetchPriority::kWarm);
  Add(1, FetchPriority::kWarm);
  Add(2, FetchPriority::kDemand);
  EXPECT_TRUE(queue_.SetPriority(warm, FetchPriority::kDemand));
  EXPECT_FALSE(queue_.SetPriority(warm, FetchPriority::kDemand));
  EXPECT_THAT(Drain(), ElementsAre(2, 0, 1));
}

TEST_F(FetchQueueTest, WhatIsLoweredWaitsWithTheOthers) {
  const auto demand = Add(0, FetchPriority::kDemand);
  Add(1, FetchPriority::kHint);
  Add(2, FetchPriority::kWarm);
  EXPECT_TRUE(queue_.SetPriority(demand, FetchPriority::kWarm));
  EXPECT_THAT(Drain(), ElementsAre(1, 2, 0));
}

TEST_F(FetchQueueTest, OneFetchPerPartUntilItIsRemoved) {
  const auto fetch = Add(7, FetchPriority::kWarm);
  EXPECT_EQ(queue_.Find(fetch->key), fetch);
  EXPECT_EQ(queue_.Find({object_, PartIndex{8}}), nullptr);
  EXPECT_EQ(queue_.Find({Id(2), PartIndex{7}}), nullptr);
  EXPECT_DEATH(queue_.Add(Make(object_, 7, FetchPriority::kDemand)), "broken invariant");
  queue_.Start(fetch);
  EXPECT_TRUE(fetch->running);
  EXPECT_EQ(queue_.waiting(), 0u);
  EXPECT_EQ(queue_.Find(fetch->key), fetch);  // who comes now joins it
  queue_.Remove(fetch);
  EXPECT_FALSE(fetch->running);
  EXPECT_EQ(queue_.Find(fetch->key), nullptr);
  const auto again = Add(7, FetchPriority::kWarm);
  EXPECT_EQ(queue_.Head(), again);
}

TEST_F(FetchQueueTest, CountsWhatRunsForNobodyWhoWaits) {
  const auto demand = Add(0, FetchPriority::kDemand);
  const auto ahead = Add(1, FetchPriority::kReadAhead);
  const auto warm = Add(2, FetchPriority::kWarm);
  queue_.Start(demand);
  EXPECT_EQ(queue_.low_running(), 0u);
  queue_.Start(ahead);
  queue_.Start(warm);
  EXPECT_EQ(queue_.low_running(), 2u);
  EXPECT_FALSE(queue_.SetPriority(warm, FetchPriority::kHint));  // nothing comes free by it
  EXPECT_EQ(queue_.low_running(), 2u);
  EXPECT_TRUE(queue_.SetPriority(ahead, FetchPriority::kDemand));
  EXPECT_EQ(queue_.low_running(), 1u);
  EXPECT_FALSE(queue_.SetPriority(ahead, FetchPriority::kWarm));  // its thread was lent for good
  EXPECT_EQ(queue_.low_running(), 1u);
  queue_.Remove(ahead);
  EXPECT_EQ(queue_.low_running(), 1u);
  queue_.Remove(warm);
  queue_.Remove(demand);
  EXPECT_EQ(queue_.low_running(), 0u);
  EXPECT_THAT(queue_.All(), IsEmpty());
}

TEST_F(FetchQueueTest, FullCountsOnlyWhatWaits) {
  for (uint32_t part = 0; part < 4; ++part) {
    EXPECT_FALSE(queue_.full());
    Add(part, FetchPriority::kWarm);
  }
  EXPECT_TRUE(queue_.full());
  queue_.Start(queue_.Head());
  EXPECT_FALSE(queue_.full());
  Add(4, FetchPriority::kWarm);
  queue_.Remove(queue_.Head());
  EXPECT_FALSE(queue_.full());
}

TEST_F(FetchQueueTest, FindsTheWaitingOnesOfAnObjectByPartAndAlongTheQueue) {
  const auto running = Add(0, FetchPriority::kDemand);
  queue_.Start(running);
  const auto first = Add(1, FetchPriority::kWarm);
  const auto second = Add(5, FetchPriority::kHint);
  queue_.Add(Make(Id(2), 1, FetchPriority::kWarm));
  EXPECT_THAT(queue_.WaitingOf(object_, 1000), UnorderedElementsAre(first, second));  // along the queue
  EXPECT_THAT(queue_.WaitingOf(object_, 2), UnorderedElementsAre(first));             // its two parts
  EXPECT_THAT(queue_.WaitingOf(Id(3), 2), IsEmpty());
  EXPECT_THAT(queue_.WaitingOf(Id(3), 1000), IsEmpty());
}

/// Takes blocks back and counts them.
class CountingOwner final : public PartBufferOwner {
 public:
  void GiveBack(PartBuffer& buffer) override { given_back_ += buffer.block.bytes; }
  uint64_t given_back() const { return given_back_; }

 private:
  uint64_t given_back_ = 0;
};

class LingeringTest : public ::testing::Test {
 protected:
  static PartKey Key(uint32_t part) { return {Id(1), PartIndex{part}}; }
  void Add(uint32_t part, int64_t at) {
    lingering_.Add(Key(part), {part * kPartBytes, (part + 1) * kPartBytes},
                   std::make_shared<PartBuffer>(owner_, PartMemory::Block{nullptr, kPartBytes}), Nanos(at));
  }
  std::vector<bool> Held(uint32_t parts) const {
    std::vector<bool> held;
    for (uint32_t part = 0; part < parts; ++part) held.push_back(lingering_.Has(Key(part)));
    return held;
  }
  const std::shared_ptr<CountingOwner> owner_ = std::make_shared<CountingOwner>();
  Lingering lingering_{3 * kPartBytes};
};

TEST_F(LingeringTest, TheLeastRecentlyUsedGoesFirst) {
  for (uint32_t part = 0; part < 3; ++part) Add(part, part + 1);
  EXPECT_EQ(lingering_.oldest_use(), Nanos(1));
  const Lingering::Entry* used = lingering_.Use(Key(0), Nanos(10));
  ASSERT_NE(used, nullptr);
  EXPECT_EQ(used->part.begin, 0u);
  EXPECT_EQ(used->part.end, kPartBytes);
  EXPECT_EQ(used->last_use, Nanos(10));
  EXPECT_EQ(lingering_.Use(Key(9), Nanos(11)), nullptr);
  EXPECT_EQ(lingering_.oldest_use(), Nanos(2));
  lingering_.TakeOldest();
  EXPECT_THAT(Held(3), ElementsAre(true, false, true));
  lingering_.TakeOldest();
  EXPECT_THAT(Held(3), ElementsAre(true, false, false));
  lingering_.TakeOldest();
  EXPECT_TRUE(lingering_.empty());
}

TEST_F(LingeringTest, TheLimitIsInBytesAndTheNewestMayExceedIt) {
  EXPECT_TRUE(lingering_.HasRoomFor(3 * kPartBytes));
  EXPECT_FALSE(lingering_.HasRoomFor(3 * kPartBytes + 1));
  for (uint32_t part = 0; part < 3; ++part) Add(part, 1);
  EXPECT_FALSE(lingering_.over_limit());
  EXPECT_FALSE(lingering_.HasRoomFor(1));
  Add(3, 2);
  EXPECT_TRUE(lingering_.over_limit());
  lingering_.TakeOldest();
  EXPECT_FALSE(lingering_.over_limit());
  lingering_.TakeOldest();
  EXPECT_TRUE(lingering_.HasRoomFor(kPartBytes));
}

TEST_F(LingeringTest, WhatLeavesIsHandedOutAndGivenBackWithItsLastHolder) {
  Add(0, 1);
  const std::shared_ptr<PartBuffer> reply = lingering_.Use(Key(0), Nanos(2))->buffer;
  std::shared_ptr<PartBuffer> taken = lingering_.TakeOldest().buffer;
  EXPECT_EQ(taken.use_count(), 2);
  taken.reset();
  EXPECT_EQ(owner_->given_back(), 0u);  // the reply still reads it
  Add(1, 3);
  taken = lingering_.TakeOldest().buffer;
  EXPECT_EQ(taken.use_count(), 1);  // nothing inside keeps it
  taken.reset();
  EXPECT_EQ(owner_->given_back(), kPartBytes);
}

}  // namespace
}  // namespace stoker::fetch
