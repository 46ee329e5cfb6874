#include "cache/store/placement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

std::vector<ObjectId> Ids(size_t count) {
  Random random(testing::TestSeed());
  std::vector<ObjectId> ids(count);
  for (ObjectId& id : ids) {
    for (uint8_t& byte : id.bytes) byte = static_cast<uint8_t>(random.Next());
  }
  return ids;
}

const std::vector<Placement::Place> kPlaces{{"/a", 100}, {"/b", 200}, {"/c", 700}};

TEST(Placement, SharesFollowTheWeights) {
  constexpr size_t kIds = 100'000;
  const Placement placement(kPlaces);
  std::vector<size_t> counts(kPlaces.size());
  for (const ObjectId& id : Ids(kIds)) ++counts[placement.Of(id)];
  for (size_t i = 0; i < kPlaces.size(); ++i) {
    const double share = static_cast<double>(kPlaces[i].weight) / 1000;
    const double deviation = std::sqrt(kIds * share * (1 - share));
    // Seven standard deviations: once in many billions of seeds.
    EXPECT_NEAR(static_cast<double>(counts[i]), kIds * share, 7 * deviation) << kPlaces[i].name;
  }
}

TEST(Placement, ADirectoryThatIsAddedTakesObjectsToItselfOnly) {
  std::vector<Placement::Place> more = kPlaces;
  more.insert(more.begin() + 1, {"/new", 250});
  const Placement before(kPlaces);
  const Placement after(more);
  size_t moved = 0;
  for (const ObjectId& id : Ids(20'000)) {
    const std::string& was = kPlaces[before.Of(id)].name;
    const std::string& is = more[after.Of(id)].name;
    if (was == is) continue;
    ++moved;
    ASSERT_EQ(is, "/new");
  }
  EXPECT_NEAR(static_cast<double>(moved), 20'000 * 0.2, 7 * std::sqrt(20'000 * 0.2 * 0.8));
}

TEST(Placement, ADirectoryThatIsRemovedMovesOnlyItsOwn) {
  const std::vector<Placement::Place> fewer{kPlaces[2], kPlaces[0]};  // the order says nothing
  const Placement before(kPlaces);
  const Placement after(fewer);
  for (const ObjectId& id : Ids(20'000)) {
    const std::string& was = kPlaces[before.Of(id)].name;
    if (was != "/b") {
      ASSERT_EQ(fewer[after.Of(id)].name, was);
    }
  }
}

TEST(Placement, AChangedWeightMovesObjectsOfThatDirectoryOnly) {
  std::vector<Placement::Place> changed = kPlaces;
  changed[1].weight = 20;
  const Placement before(kPlaces);
  const Placement after(changed);
  for (const ObjectId& id : Ids(20'000)) {
    const size_t was = before.Of(id);
    const size_t is = after.Of(id);
    if (was != is) {
      ASSERT_EQ(was, 1U);
    }
  }
}

TEST(Placement, IsTheSameInEveryVersion) {
  // What is on the disks was placed by an older program: were this to change, caches would be lost.
  const Placement placement(kPlaces);
  std::string places;
  for (uint8_t i = 0; i < 32; ++i) {
    ObjectId id;
    for (size_t at = 0; at < id.bytes.size(); ++at) id.bytes[at] = static_cast<uint8_t>(i * 37 + at * 11);
    places += kPlaces[placement.Of(id)].name;
  }
  EXPECT_EQ(places, "/c/a/a/c/c/b/a/c/c/c/c/c/b/c/c/b/c/b/c/b/a/b/c/c/b/c/c/c/c/c/c/b");
}

}  // namespace
}  // namespace stoker
