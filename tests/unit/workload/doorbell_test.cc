#include "workload/train/doorbell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Doorbell, ARingBeforeTheWaitIsNotLost) {
  Doorbell bell;
  const uint32_t seen = bell.rings();
  bell.Ring();
  const Nanos start = SteadyNow();
  bell.Wait(seen, start + hours(1));
  EXPECT_LT(SteadyNow(), start + hours(1));
}

TEST(Doorbell, EveryRingIsSeen) {
  Doorbell bell;
  std::atomic<uint64_t> made{0};
  uint64_t taken = 0;
  std::thread ringer([&] {
    for (int i = 0; i < 50'000; ++i) {
      made.fetch_add(1);
      bell.Ring();
    }
  });
  while (taken < 50'000) {
    const uint32_t seen = bell.rings();
    taken = made.load();
    if (taken < 50'000) bell.Wait(seen, SteadyNow() + hours(1));  // a lost ring would end here
  }
  ringer.join();
}

TEST(Doorbell, WaitEndsAtTheDeadline) {
  Doorbell bell;
  const Nanos deadline = SteadyNow() + milliseconds(5);
  while (SteadyNow() < deadline) bell.Wait(bell.rings(), deadline);
  EXPECT_EQ(bell.rings(), 0u);
}

TEST(PreciseWaiter, NeverReturnsEarlyWithoutARing) {
  UseFineTimers();
  Doorbell bell;
  PreciseWaiter waiter(microseconds(100));
  for (int i = 0; i < 200; ++i) {
    const Nanos deadline = SteadyNow() + microseconds(300);
    while (SteadyNow() < deadline) waiter.Wait(bell, bell.rings(), deadline);
    EXPECT_LE(waiter.watch(), microseconds(100));
    EXPECT_GE(waiter.watch(), Nanos(0));
  }
}

TEST(PreciseWaiter, ARingEndsTheWait) {
  Doorbell bell;
  PreciseWaiter waiter(microseconds(100));
  const uint32_t seen = bell.rings();
  std::thread ringer([&] { bell.Ring(); });
  const Nanos deadline = SteadyNow() + hours(1);
  while (bell.rings() == seen) waiter.Wait(bell, seen, deadline);
  EXPECT_LT(SteadyNow(), deadline);
  ringer.join();
}

}  // namespace
}  // namespace stoker::bench
