#include "cache/store/space.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "cache/store/file_cache.h"

namespace stoker {
namespace {

TEST(Space, ReservationsNeverPassTheLimit) {
  Gauge used;
  Space space(100, used);
  EXPECT_TRUE(space.TryReserve(60));
  EXPECT_FALSE(space.TryReserve(41));
  EXPECT_TRUE(space.TryReserve(40));
  space.Convert(60, 50);
  EXPECT_EQ(space.used(), 50u);
  EXPECT_EQ(used.value(), 50);
  EXPECT_EQ(space.reserved(), 40u);
  EXPECT_TRUE(space.TryReserve(10));
  EXPECT_FALSE(space.TryReserve(1));
  space.Unreserve(50);
  space.Charge(-50);
  EXPECT_EQ(space.used(), 0u);
  EXPECT_EQ(used.value(), 0);
  EXPECT_FALSE(space.TryReserve(UINT64_MAX));
}

TEST(Space, TheDiskMayAllowLessThanTheLimit) {
  Gauge used;
  Space space(1000, used);
  space.Charge(300);
  space.SetDiskRoom(300, 150, 50);  // 100 of what is free may be used: 400 in all
  EXPECT_FALSE(space.TryReserve(101));
  EXPECT_TRUE(space.TryReserve(100));
  EXPECT_EQ(space.Shortage(10, 1.0), 10u);
  space.SetDiskRoom(300, 10, 50);  // 40 too little: objects must go
  EXPECT_EQ(space.Shortage(0, 1.0), 140u);
  space.SetDiskRoom(0, 10, 50);
  EXPECT_FALSE(space.TryReserve(1));
}

TEST(Space, ShortageCountsWhatIsOnItsWayOut) {
  Gauge used;
  Space space(100, used);
  space.Charge(100);
  EXPECT_EQ(space.Shortage(10, 1.0), 10u);
  EXPECT_EQ(space.Shortage(10, 0.5), 60u);
  space.BeginEviction(70);
  EXPECT_EQ(space.Shortage(10, 0.5), 0u);
  EXPECT_EQ(space.evicting(), 70u);
  space.Charge(-70);
  space.EndEviction(70);
  EXPECT_EQ(space.used(), 30u);
  EXPECT_EQ(space.Shortage(10, 0.5), 0u);
}

TEST(Space, ThreadsTogetherStayUnderTheLimit) {
  Gauge used;
  Space space(1000, used);
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        if (!space.TryReserve(300)) continue;
        if (space.reserved() > 1000) over = true;
        space.Convert(300, 100);
        space.Charge(-100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(over.load());
  EXPECT_EQ(space.used(), 0u);
  EXPECT_EQ(space.reserved(), 0u);
}

ObjectId Id(uint64_t n) {
  return MakeObjectId({n, "file-cache-test"});
}

TEST(FileCache, KeepsTheNewestAndClosesTheRest) {
  FileCache cache(2);
  std::vector<std::weak_ptr<const Fd>> files;
  for (uint64_t n = 0; n < 3; ++n) {
    auto file = std::make_shared<const Fd>();
    files.push_back(file);
    if (n == 2) {
      EXPECT_NE(cache.Find(Id(0)), nullptr);  // used: 1 is the oldest now
    }
    cache.Put(Id(n), std::move(file));
  }
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_FALSE(files[0].expired());
  EXPECT_TRUE(files[1].expired());
  EXPECT_EQ(cache.Find(Id(1)), nullptr);
  cache.Erase(Id(0));
  cache.Erase(Id(77));
  EXPECT_TRUE(files[0].expired());
  cache.Put(Id(2), std::make_shared<const Fd>());
  EXPECT_TRUE(files[2].expired());
  EXPECT_EQ(cache.size(), 1u);
}

TEST(FileCache, OfNoneKeepsNone) {
  FileCache cache(0);
  cache.Put(Id(1), std::make_shared<const Fd>());
  EXPECT_EQ(cache.Find(Id(1)), nullptr);
}

}  // namespace
}  // namespace stoker
