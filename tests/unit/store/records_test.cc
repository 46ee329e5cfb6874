#include "cache/store/records.h"

#include <gtest/gtest.h>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

std::string RandomText(Random& random, size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random.Next());
  return text;
}

ObjectRecord RandomObject(Random& random) {
  ObjectRecord record;
  record.phase = static_cast<ObjectPhase>(random.Below(3));
  record.suspect = random.OneIn(2);
  record.size = random.Next();
  record.part_length = 1 + random.Below(1 << 30);
  record.charged_bytes = random.Next();
  record.inode = random.Next();
  record.token = RandomText(random, random.Below(300));
  record.name_hint = RandomText(random, random.Below(300));
  return record;
}

TEST(Records, ObjectsComeBackAsTheyWere) {
  Random random(testing::TestSeed());
  for (int i = 0; i < 200; ++i) {
    const ObjectRecord record = RandomObject(random);
    const auto decoded = DecodeObject(EncodeObject(record));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(decoded.value(), record);
  }
}

TEST(Records, ALongNameHintIsCut) {
  ObjectRecord record;
  record.part_length = 1;
  record.name_hint = std::string(10'000, 'n');
  const auto decoded = DecodeObject(EncodeObject(record));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value().name_hint.size(), ObjectRecord::kMaxNameHint);
}

TEST(Records, AnyChangedOrMissingByteIsNoticed) {
  Random random(testing::TestSeed());
  const PartKey key{MakeObjectId({1, "x"}), PartIndex{7}};
  const std::string object = EncodeObject(RandomObject(random));
  const std::string part = EncodePart(key, {4096, random.Next()});
  const std::string run = EncodeRun({"0123-boot", true});
  for (size_t at = 0; at < object.size(); ++at) {
    std::string changed = object;
    changed[at] = static_cast<char>(changed[at] ^ (1 << random.Below(8)));
    EXPECT_FALSE(DecodeObject(changed).ok()) << at;
    EXPECT_FALSE(DecodeObject(object.substr(0, at)).ok()) << at;
  }
  for (size_t at = 0; at < part.size(); ++at) {
    std::string changed = part;
    changed[at] = static_cast<char>(changed[at] ^ (1 << random.Below(8)));
    EXPECT_FALSE(DecodePart(key, changed).ok()) << at;
    EXPECT_FALSE(DecodePart(key, part.substr(0, at)).ok()) << at;
  }
  for (size_t at = 0; at < run.size(); ++at) {
    std::string changed = run;
    changed[at] = static_cast<char>(changed[at] ^ (1 << random.Below(8)));
    EXPECT_FALSE(DecodeRun(changed).ok()) << at;
  }
}

TEST(Records, APartsRowDoesNotPassForAnother) {
  const PartKey key{MakeObjectId({1, "x"}), PartIndex{7}};
  const std::string row = EncodePart(key, {4096, 99});
  ASSERT_TRUE(DecodePart(key, row).ok());
  EXPECT_EQ(DecodePart(key, row).value(), (PartRecord{4096, 99}));
  EXPECT_EQ(DecodePart({key.object, PartIndex{8}}, row).status().code(), Code::kCorruption);
  EXPECT_EQ(DecodePart({MakeObjectId({2, "x"}), PartIndex{7}}, row).status().code(), Code::kCorruption);
}

TEST(Records, ANewerVersionIsToldApartFromDamage) {
  std::string row = EncodeRun({"boot", false});
  row[0] = 2;
  EXPECT_EQ(DecodeRun(row).status().code(), Code::kUnsupported);
}

TEST(Records, PartKeysSortByIndex) {
  const ObjectId id = MakeObjectId({1, "x"});
  EXPECT_LT(EncodePartKey({id, PartIndex{255}}), EncodePartKey({id, PartIndex{256}}));
  EXPECT_LT(EncodePartKey({id, PartIndex{65535}}), EncodePartKey({id, PartIndex{65536}}));
  const auto decoded = DecodePartKey(EncodePartKey({id, PartIndex{0x01020304}}));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded.value(), (PartKey{id, PartIndex{0x01020304}}));
}

TEST(Records, RandomBytesAreRefusedNotBelieved) {
  Random random(testing::TestSeed());
  const PartKey key{};
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = RandomText(random, random.Below(120));
    if (!bytes.empty() && random.OneIn(2)) bytes[0] = 1;
    EXPECT_FALSE(DecodeObject(bytes).ok());
    EXPECT_FALSE(DecodePart(key, bytes).ok());
    EXPECT_FALSE(DecodeRun(bytes).ok());
    EXPECT_EQ(DecodePartKey(bytes).ok(), bytes.size() == kPartKeyBytes);
    EXPECT_EQ(DecodeUse(bytes).ok(), bytes.size() == 8);
  }
}

}  // namespace
}  // namespace stoker
