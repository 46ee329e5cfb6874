// Cache policies alone and on traces: whom they forget, what they keep, how good their choice is.

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cache/base/random.h"
#include "cache/base/units.h"
#include "cache/store/auto_policy.h"
#include "cache/store/eviction_policy.h"
#include "cache/store/ghost_list.h"
#include "cache/store/name_cache.h"
#include "cache/store/queue_policy.h"
#include "tests/support/access_trace.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using testing::AccessTrace;
using testing::MakeTrace;
using testing::Replay;
using testing::TraceSizes;

constexpr CachePolicy kAll[] = {CachePolicy::kRetain, CachePolicy::kLru, CachePolicy::kS3Fifo,
                                CachePolicy::kAuto};

ObjectId Id(uint64_t n) {
  return MakeObjectId({n, "policy-test"});
}

/// Objects that can be candidates, with the ids that their nodes point to.
class Nodes {
 public:
  explicit Nodes(size_t count, uint64_t bytes = 1) : ids_(count), nodes_(count) {
    for (size_t i = 0; i < count; ++i) {
      ids_[i] = Id(i);
      nodes_[i].id = &ids_[i];
      nodes_[i].charged = bytes;
    }
  }
  EvictionNode& operator[](size_t i) { return nodes_[i]; }
  size_t IndexOf(const EvictionNode* node) const { return static_cast<size_t>(node - nodes_.data()); }

 private:
  std::vector<ObjectId> ids_;
  std::vector<EvictionNode> nodes_;
};

void UseAgain(EvictionPolicy& policy, EvictionNode& node) {
  policy.Erase(node);
  policy.Insert(node, true);
}

/// Forgets the next one as the store does; its index.
size_t ForgetOne(EvictionPolicy& policy, const Nodes& nodes, RoomFor what = RoomFor::kRead) {
  EvictionNode* const victim = policy.Victim(what);
  if (victim == nullptr) {
    ADD_FAILURE() << "nobody may go";
    return SIZE_MAX;
  }
  policy.Erase(*victim);
  policy.Forgotten(*victim);
  return nodes.IndexOf(victim);
}

TEST(LruPolicy, ForgetsTheOldestFirst) {
  QueuePolicy policy(CachePolicy::kLru);
  Nodes nodes(3);
  EXPECT_EQ(policy.Victim(RoomFor::kRead), nullptr);
  for (size_t i = 0; i < 3; ++i) policy.Insert(nodes[i], true);
  EXPECT_EQ(policy.Victim(RoomFor::kRead), &nodes[0]);
  EXPECT_EQ(policy.Victim(RoomFor::kRead), &nodes[0]);  // asking does not take
  UseAgain(policy, nodes[0]);
  EXPECT_EQ(policy.Victim(RoomFor::kRead), &nodes[1]);
  policy.Erase(nodes[2]);
  policy.Erase(nodes[1]);
  EXPECT_EQ(policy.Victim(RoomFor::kWarm), &nodes[0]);
  policy.Erase(nodes[0]);
  EXPECT_EQ(policy.Victim(RoomFor::kOverLimit), nullptr);
}

TEST(RetainPolicy, NobodyGoesForSomethingNew) {
  QueuePolicy policy(CachePolicy::kRetain);
  Nodes nodes(3);
  for (size_t i = 0; i < 3; ++i) policy.Insert(nodes[i], true);
  EXPECT_EQ(policy.Victim(RoomFor::kRead), nullptr);
  EXPECT_EQ(policy.Victim(RoomFor::kWarm), nullptr);
  // The limit has become smaller: then the oldest goes.
  EXPECT_EQ(policy.Victim(RoomFor::kOverLimit), &nodes[0]);
}

TEST(RetainPolicy, WhatWasNotUsedInThisEraMayGo) {
  QueuePolicy policy(CachePolicy::kRetain);
  Nodes nodes(4);
  for (size_t i = 0; i < 3; ++i) policy.Insert(nodes[i], true);
  policy.BeginEra();
  UseAgain(policy, nodes[0]);
  policy.Erase(nodes[1]);
  policy.Insert(nodes[1], false);  // the store itself had it: no use
  policy.Insert(nodes[3], true);
  EXPECT_EQ(std::set<size_t>({ForgetOne(policy, nodes), ForgetOne(policy, nodes)}), std::set<size_t>({1, 2}));
  EXPECT_EQ(policy.Victim(RoomFor::kRead), nullptr);
}

TEST(S3FifoPolicy, WhatWasUsedOnceGoesBeforeWhatWasUsedAgain) {
  QueuePolicy policy(CachePolicy::kS3Fifo);
  Nodes nodes(20);
  for (size_t i = 0; i < 10; ++i) policy.Insert(nodes[i], true);
  for (size_t i = 0; i < 5; ++i) UseAgain(policy, nodes[i]);
  for (size_t i = 10; i < 20; ++i) policy.Insert(nodes[i], true);
  std::set<size_t> gone;
  for (int i = 0; i < 13; ++i) gone.insert(ForgetOne(policy, nodes));
  for (size_t i = 0; i < 5; ++i) EXPECT_FALSE(gone.contains(i)) << i;
}

TEST(S3FifoPolicy, WhatComesBackSoonStays) {
  QueuePolicy policy(CachePolicy::kS3Fifo);
  Nodes nodes(100);
  for (size_t i = 0; i < 50; ++i) policy.Insert(nodes[i], true);
  const size_t first = ForgetOne(policy, nodes);
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(policy.State().ghosts, 1u);
  nodes[0].queue = 0;  // a new object of the same name
  nodes[0].uses = 0;
  policy.Insert(nodes[0], true);
  EXPECT_EQ(policy.State().ghost_hits, 1u);
  // A stream of objects that are used once passes it by.
  for (size_t i = 50; i < 100; ++i) {
    policy.Insert(nodes[i], true);
    EXPECT_NE(ForgetOne(policy, nodes), 0u);
  }
  EXPECT_LE(policy.State().ghosts, 50u) << "as many as there are candidates";
}

TEST(S3FifoPolicy, OneCallIsShortHoweverOftenAllWereUsed) {
  QueuePolicy policy(CachePolicy::kS3Fifo);
  Nodes nodes(10'000);
  for (size_t i = 0; i < 10'000; ++i) {
    policy.Insert(nodes[i], true);
    for (int use = 0; use < 5; ++use) UseAgain(policy, nodes[i]);
  }
  ASSERT_NE(policy.Victim(RoomFor::kRead), nullptr);
  size_t touched = 0;
  for (size_t i = 0; i < 10'000; ++i) touched += nodes[i].uses != 3;
  EXPECT_LE(touched, 64u);
}

// Whatever is done, in whatever order and under whichever rule: a victim is a candidate, every candidate can
// be got rid of when the limit asks for it, and none is named twice.
TEST(QueuePolicy, LosesNobodyWhateverTheRuleBecomes) {
  Random random(testing::TestSeed());
  QueuePolicy policy(CachePolicy::kRetain);
  Nodes nodes(60, 3);
  std::set<size_t> candidates;
  for (int step = 0; step < 20'000; ++step) {
    const size_t i = random.Below(60);
    switch (random.Below(6)) {
      case 0:
        policy.SetRule(kAll[random.Below(3)]);
        break;
      case 1:
        if (random.OneIn(20)) policy.BeginEra();
        break;
      case 2: {
        const auto what = static_cast<RoomFor>(random.Below(3));
        EvictionNode* const victim = policy.Victim(what);
        if (victim == nullptr) {
          ASSERT_TRUE(candidates.empty() ||
                      (policy.rule() == CachePolicy::kRetain && what != RoomFor::kOverLimit));
          break;
        }
        ASSERT_EQ(candidates.erase(nodes.IndexOf(victim)), 1u);
        policy.Erase(*victim);
        policy.Forgotten(*victim);
        break;
      }
      default:
        if (candidates.insert(i).second) {
          policy.Insert(nodes[i], random.OneIn(2));
        } else if (random.OneIn(2)) {
          candidates.erase(i);
          policy.Erase(nodes[i]);
        } else {
          UseAgain(policy, nodes[i]);
        }
    }
  }
  while (EvictionNode* const victim = policy.Victim(RoomFor::kOverLimit)) {
    ASSERT_EQ(candidates.erase(nodes.IndexOf(victim)), 1u);
    policy.Erase(*victim);
  }
  EXPECT_TRUE(candidates.empty());
}

TEST(GhostList, RemembersTheLastSoMany) {
  Random random(testing::TestSeed());
  GhostList ghosts(5000);
  EXPECT_FALSE(ghosts.Has(1));
  EXPECT_EQ(ghosts.memory_bytes(), 0u);
  std::vector<uint64_t> keys(50'000);
  for (uint64_t& key : keys) key = random.Next();
  for (const uint64_t key : keys) ghosts.Add(key, 1'000'000);
  EXPECT_EQ(ghosts.size(), 5000u);
  EXPECT_LE(ghosts.memory_bytes(), 16u * 8192);
  size_t known = 0, wrong = 0;
  for (size_t i = 0; i < keys.size(); ++i) (i + 5000 < keys.size() ? wrong : known) += ghosts.Has(keys[i]);
  EXPECT_GE(known, 4800u);
  EXPECT_LE(wrong, 5u);
  EXPECT_TRUE(ghosts.Take(keys.back()) || !ghosts.Has(keys.back()));
  EXPECT_FALSE(ghosts.Has(keys.back()));
  // A smaller limit holds at once, and none at all remembers nothing.
  ghosts.Add(random.Next(), 10);
  EXPECT_EQ(ghosts.size(), 10u);
  size_t left = 0;
  for (const uint64_t key : keys) left += ghosts.Has(key);
  EXPECT_LE(left, 9u);
  ghosts.Add(random.Next(), 0);
  EXPECT_EQ(ghosts.size(), 0u);
  EXPECT_FALSE(ghosts.Has(keys.back()));
}

TEST(NameCache, IsAnLruCacheUnderLru) {
  Random random(testing::TestSeed());
  QueuePolicy policy(CachePolicy::kLru);
  NameCache cache(policy);
  std::list<std::pair<uint64_t, uint64_t>> model;  // newest first: name, bytes
  std::map<uint64_t, uint64_t> sizes;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t name = random.Below(40);
    const uint64_t bytes = sizes.try_emplace(name, 1 + random.Below(300)).first->second;
    const auto at =
        std::find_if(model.begin(), model.end(), [&](const auto& one) { return one.first == name; });
    const bool here = at != model.end();
    ASSERT_EQ(cache.Use(Id(name), bytes, 1000), here) << step;
    if (here) model.erase(at);
    model.emplace_front(name, bytes);
    uint64_t used = 0;
    for (auto it = model.begin(); it != model.end();) {
      used += it->second;
      if (used > 1000) {
        model.erase(it, model.end());
        break;
      }
      ++it;
    }
    ASSERT_LE(cache.used_bytes(), 1000u);
    ASSERT_EQ(cache.objects(), model.size());
  }
}

// ---- auto on traces
// --------------------------------------------------------------------------------------------------

constexpr double kWatermark = 0.95;  // the store's

struct Ratios {
  double best = 0;  // of the fixed policies
  double automatic = 0;
  double belady = 0;
};

Ratios Compare(const AccessTrace& trace, uint64_t capacity) {
  Ratios out;
  for (const CachePolicy policy : kAll) {
    const auto made = MakeEvictionPolicy(policy, testing::TestSeed());
    const double ratio = Replay(trace, *made, capacity, kWatermark).bytes;
    if (policy == CachePolicy::kAuto) {
      out.automatic = ratio;
    } else {
      out.best = std::max(out.best, ratio);
    }
  }
  out.belady = ReplayBelady(trace, capacity).bytes;
  return out;
}

class AutoOnTraces : public ::testing::TestWithParam<TraceSizes> {};

TEST_P(AutoOnTraces, IsWithinThreeHundredthsOfTheBest) {
  for (const std::string name : {"cyclic", "reshuffled", "zipf", "moved", "two_jobs", "reread"}) {
    for (const uint64_t seed : {1, 2}) {
      const AccessTrace trace = MakeTrace(name, {.cache_objects = 400, .sizes = GetParam(), .seed = seed});
      const Ratios ratios = Compare(trace, 400 * testing::kTraceObjectBytes);
      EXPECT_GE(ratios.automatic, ratios.best - 0.03) << name << ", trace seed " << seed;
      // Equal sizes: no policy beats the optimum.
      if (GetParam() == TraceSizes::kEqual) {
        EXPECT_LE(std::max(ratios.best, ratios.automatic), ratios.belady + 1e-9) << name;
      }
    }
  }
}

TEST_P(AutoOnTraces, FollowsWhatNoFixedPolicyFollows) {
  for (const std::string name : {"next_dataset", "small_after_large", "large_after_small"}) {
    const AccessTrace trace = MakeTrace(name, {.cache_objects = 400, .sizes = GetParam(), .seed = 1});
    const Ratios ratios = Compare(trace, 400 * testing::kTraceObjectBytes);
    EXPECT_GE(ratios.automatic, ratios.best + 0.08) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AutoOnTraces, ::testing::Values(TraceSizes::kEqual, TraceSizes::kMixed),
                         [](const auto& each) {
                           return each.param == TraceSizes::kEqual ? "Equal" : "Mixed";
                         });

// F8: a dataset of twice the cache, read in a new order each time.
TEST(AutoPolicy, ReshuffledEpochsHitNearlyTheOptimum) {
  for (const uint64_t objects : {64, 300, 1500}) {
    const AccessTrace trace =
        MakeTrace("reshuffled", {.cache_objects = objects, .seed = testing::TestSeed()});
    AutoPolicy policy(1);
    EXPECT_GE(Replay(trace, policy, objects * testing::kTraceObjectBytes, kWatermark).bytes, 0.48) << objects;
  }
}

TEST(FixedPolicies, DoOnATraceWhatTheyAreKnownFor) {
  const uint64_t capacity = 500 * testing::kTraceObjectBytes;
  const auto ratio = [&](std::string_view trace, CachePolicy policy) {
    return Replay(MakeTrace(trace, {.cache_objects = 500, .seed = 3}), *MakeEvictionPolicy(policy, 1),
                  capacity, kWatermark)
        .bytes;
  };
  EXPECT_EQ(ratio("cyclic", CachePolicy::kLru), 0);
  EXPECT_NEAR(ratio("cyclic", CachePolicy::kRetain), 5.0 / 12, 1e-9);  // half, and nothing the first time
  EXPECT_NEAR(ratio("reshuffled", CachePolicy::kRetain), 0.5, 1e-9);
  EXPECT_NEAR(ratio("reshuffled", CachePolicy::kLru), 0.153, 0.03);  // (1 - ln 2) / 2
  EXPECT_NEAR(ratio("moved", CachePolicy::kLru), 5.0 / 6, 1e-9);
  EXPECT_LT(ratio("moved", CachePolicy::kRetain), 0.3);
  EXPECT_NEAR(ratio("reread", CachePolicy::kLru), 0.5, 1e-9);
  EXPECT_GT(ratio("zipf", CachePolicy::kS3Fifo), ratio("zipf", CachePolicy::kLru) + 0.03);
  EXPECT_EQ(ratio("once", CachePolicy::kS3Fifo), 0);
}

TEST(AutoPolicy, ASampleIsAsGoodAsAllNames) {
  for (const std::string name : {"cyclic", "reshuffled", "moved", "reread"}) {
    const AccessTrace trace = MakeTrace(name, {.cache_objects = 6000, .seed = 1});
    AutoPolicy sampled(testing::TestSeed(), 512);
    AutoPolicy all(testing::TestSeed(), 1'000'000);
    const uint64_t capacity = 6000 * testing::kTraceObjectBytes;
    const double ratio = Replay(trace, sampled, capacity, kWatermark).bytes;
    EXPECT_GE(ratio, Replay(trace, all, capacity, kWatermark).bytes - 0.03) << name;
    EXPECT_GE(sampled.sample_shift(), 3u);
    EXPECT_EQ(all.sample_shift(), 0u);
    EXPECT_LE(sampled.shadow_objects(), 3 * 512u);
  }
}

TEST(AutoPolicy, LooksCloserWhenObjectsBecomeFewer) {
  AutoPolicy policy(testing::TestSeed(), 64);
  uint64_t name = 0;
  for (int i = 0; i < 5000; ++i) policy.Use(Id(++name), false, kMiB, 1000 * kMiB);
  EXPECT_GE(policy.sample_shift(), 4u);
  for (int i = 0; i < 20'000; ++i) policy.Use(Id(++name), false, 50 * kMiB, 1000 * kMiB);
  EXPECT_LE(policy.sample_shift(), 2u);
}

TEST(AutoPolicy, SameSeedSameDecisions) {
  const AccessTrace trace = MakeTrace("zipf_and_scan", {.cache_objects = 300, .seed = testing::TestSeed()});
  const auto run = [&] {
    AutoPolicy policy(77, 128);
    const double ratio = Replay(trace, policy, 300 * testing::kTraceObjectBytes, kWatermark).bytes;
    return std::to_string(ratio) + policy.Reason() + std::to_string(policy.State().switches);
  };
  EXPECT_EQ(run(), run());
}

TEST(AutoPolicy, MakesRoomForWhatSomebodyAskedFor) {
  AutoPolicy policy(1);
  Nodes nodes(3);
  for (size_t i = 0; i < 3; ++i) policy.Insert(nodes[i], true);
  EXPECT_EQ(policy.State().deciding, CachePolicy::kRetain);
  EXPECT_EQ(policy.Victim(RoomFor::kRead), nullptr);
  EXPECT_EQ(policy.Victim(RoomFor::kWarm), &nodes[0]);
  EXPECT_EQ(policy.Reason(), "nothing has been read yet");
}

// What an earlier run left and nobody asks for makes room, long before it could be told from hits.
TEST(AutoPolicy, WhatAnEarlierRunLeftMakesRoomForAnotherDataset) {
  constexpr uint64_t kObjects = 400;
  for (const bool same : {false, true}) {
    AutoPolicy policy(1);
    Nodes old(kObjects, kMiB);
    for (size_t i = 0; i < kObjects; ++i) policy.Insert(old[i], false);
    bool room = false;
    for (uint64_t i = 0; i < kObjects / 4 && !room; ++i) {
      // The same dataset: of twice the cache, so every other object is here.
      const bool here = same && i % 2 == 0;
      policy.Use(Id(i + 10'000), here, kMiB, kObjects * kMiB);
      if (!here) room = policy.Victim(RoomFor::kRead) != nullptr;
    }
    EXPECT_EQ(room, !same);
  }
}

TEST(CachePolicyNames, ReadBack) {
  for (const CachePolicy policy : kAll) EXPECT_EQ(ParsePolicy(PolicyName(policy)), policy);
  EXPECT_FALSE(ParsePolicy("fifo"));
  EXPECT_FALSE(ParsePolicy(""));
}

}  // namespace
}  // namespace stoker
