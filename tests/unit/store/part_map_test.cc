#include "cache/store/part_map.h"

#include <gtest/gtest.h>

#include <set>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

TEST(PartMap, AnEmptyFileIsComplete) {
  const PartMap map(0, kMiB);
  EXPECT_EQ(map.count(), 0u);
  EXPECT_TRUE(map.complete());
  EXPECT_TRUE(map.Has(ByteRange{0, 100}));
  EXPECT_FALSE(map.Has(PartIndex{0}));
}

TEST(PartMap, TheLastPartIsCut) {
  const PartMap map(kMiB + 1, kMiB);
  EXPECT_EQ(map.count(), 2u);
  EXPECT_EQ(map.Range(PartIndex{0}), (ByteRange{0, kMiB}));
  EXPECT_EQ(map.Range(PartIndex{1}), (ByteRange{kMiB, kMiB + 1}));
  EXPECT_EQ(map.At(kMiB - 1), PartIndex{0});
  EXPECT_EQ(map.At(kMiB), PartIndex{1});
}

TEST(PartMap, HugeFilesFitUpToTheBound) {
  EXPECT_TRUE(PartMap::Fits(PartMap::kMaxParts * kMiB, kMiB));
  EXPECT_FALSE(PartMap::Fits(PartMap::kMaxParts * kMiB + 1, kMiB));
  EXPECT_FALSE(PartMap::Fits(UINT64_MAX, kMiB));
}

TEST(PartMap, SettingAllFillsNoBitTooMany) {
  for (const uint64_t parts : {1u, 63u, 64u, 65u, 128u, 129u}) {
    PartMap map(parts * kPageBytes, kPageBytes);
    map.SetAll();
    EXPECT_TRUE(map.complete());
    EXPECT_EQ(map.resident_bytes(), map.size());
    for (uint32_t part = 0; part < parts; ++part) EXPECT_TRUE(map.Clear(static_cast<PartIndex>(part)));
    EXPECT_EQ(map.resident_parts(), 0u);
    EXPECT_EQ(map.resident_bytes(), 0u);
  }
}

TEST(PartMap, AgreesWithASetUnderRandomChanges) {
  Random random(testing::TestSeed());
  const uint64_t size = 200 * kPageBytes - 17;
  PartMap map(size, kPageBytes);
  std::set<uint32_t> model;
  for (int step = 0; step < 5000; ++step) {
    const auto part = static_cast<uint32_t>(random.Below(map.count()));
    if (random.OneIn(3)) {
      EXPECT_EQ(map.Clear(static_cast<PartIndex>(part)), model.erase(part) == 1);
    } else {
      EXPECT_EQ(map.Set(static_cast<PartIndex>(part)), model.insert(part).second);
    }
    ASSERT_EQ(map.resident_parts(), model.size());
    ASSERT_EQ(map.complete(), model.size() == map.count());
    const uint64_t begin = random.Below(size);
    const ByteRange range{begin, begin + 1 + random.Below(20 * kPageBytes)};
    bool all = true;
    for (uint64_t at = begin; at < std::min(range.end, size); ++at)
      all &= model.contains(static_cast<uint32_t>(at / kPageBytes));
    ASSERT_EQ(map.Has(range), all);
  }
  uint64_t bytes = 0;
  for (const uint32_t part : model) bytes += map.Range(static_cast<PartIndex>(part)).size();
  EXPECT_EQ(map.resident_bytes(), bytes);
}

}  // namespace
}  // namespace stoker
