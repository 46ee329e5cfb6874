#include "fuse/wait_list.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace stoker {
namespace {

TEST(WaitList, AnswersOnceWhoeverComesFirst) {
  WaitList waits;
  int failed = 0;
  const WaitId id = waits.Add([&](const Status&) { ++failed; });
  EXPECT_TRUE(waits.Waiting(id));
  EXPECT_TRUE(waits.Take(id));
  EXPECT_FALSE(waits.Take(id));
  waits.Fail(id, Status(Code::kCancelled, "late"));
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(waits.size(), 0U);
}

TEST(WaitList, GivingUpAnswersThenCleansUp) {
  WaitList waits;
  std::vector<std::string> order;
  const WaitId id = waits.Add([&](const Status& why) { order.push_back(why.message()); });
  waits.OnGivenUp(id, [&] { order.push_back("cleanup"); });
  waits.Fail(id, Status(Code::kCancelled, "interrupted"));
  EXPECT_EQ(order, (std::vector<std::string>{"interrupted", "cleanup"}));
  EXPECT_FALSE(waits.Take(id));
}

TEST(WaitList, CleanupRunsAtOnceWhenNobodyWaitsAnyMore) {
  WaitList waits;
  const WaitId id = waits.Add([](const Status&) {});
  waits.Fail(id, Status(Code::kCancelled, "x"));
  bool cleaned = false;
  waits.OnGivenUp(id, [&] { cleaned = true; });
  EXPECT_TRUE(cleaned);
}

TEST(WaitList, CloseAnswersAllAndRefusesTheRest) {
  WaitList waits;
  int failed = 0;
  for (int i = 0; i < 3; ++i)
    waits.Add([&](const Status& why) { failed += why.code() == Code::kUnavailable; });
  waits.Close(Status(Code::kUnavailable, "end"));
  EXPECT_EQ(failed, 3);
  EXPECT_EQ(waits.Add([](const Status&) {}), 0U);
  waits.Close(Status(Code::kUnavailable, "again"));
  EXPECT_EQ(failed, 3);
}

TEST(WaitList, NobodyAnswersWhileARequestIsAnnounced) {
  WaitList waits;
  std::vector<std::string> order;
  const auto fail = [&](const Status& why) { order.push_back(why.message()); };
  // Whoever wants the request gone in the middle of the announcement: told, not obeyed until it is over.
  EXPECT_EQ(waits.Add(fail,
                      [&](WaitId id) {
                        EXPECT_TRUE(waits.Waiting(id));
                        std::thread([&] { waits.Fail(id, Status(Code::kCancelled, "interrupted")); }).join();
                        EXPECT_TRUE(waits.Waiting(id));
                        order.push_back("announced");
                      }),
            0U);
  EXPECT_EQ(waits.Add(fail,
                      [&](WaitId) {
                        std::thread([&] { waits.Close(Status(Code::kUnavailable, "end")); }).join();
                        order.push_back("announced");
                      }),
            0U);
  EXPECT_EQ(order, (std::vector<std::string>{"announced", "interrupted", "announced", "end"}));
  EXPECT_EQ(waits.size(), 0U);
  EXPECT_EQ(waits.Add(fail, [&](WaitId) { FAIL() << "announced after the end"; }), 0U);
  EXPECT_EQ(order.back(), "end");
}

TEST(WaitList, AnAnnouncedRequestWaitsLikeAnyOther) {
  WaitList waits;
  WaitId told = 0;
  const WaitId id = waits.Add([](const Status&) { FAIL(); }, [&](WaitId announced) { told = announced; });
  EXPECT_EQ(told, id);
  EXPECT_TRUE(waits.Take(id));
}

TEST(WaitList, RacingTakersAndInterruptsAnswerEachRequestOnce) {
  WaitList waits;
  constexpr int kRequests = 2000;
  std::vector<std::atomic<int>> answers(kRequests);
  std::vector<WaitId> ids;
  for (int i = 0; i < kRequests; ++i)
    ids.push_back(waits.Add([&answers, i](const Status&) { ++answers[i]; }));
  std::thread taker([&] {
    for (int i = 0; i < kRequests; ++i) {
      if (waits.Take(ids[i])) ++answers[i];
    }
  });
  std::thread interrupter([&] {
    for (int i = kRequests - 1; i >= 0; --i) waits.Fail(ids[i], Status(Code::kCancelled, "x"));
  });
  std::thread closer([&] { waits.Close(Status(Code::kUnavailable, "x")); });
  taker.join();
  interrupter.join();
  closer.join();
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(answers[i].load(), 1) << i;
}

}  // namespace
}  // namespace stoker
