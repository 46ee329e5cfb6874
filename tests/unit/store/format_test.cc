// docs/on_disk_format.md byte by byte: what an installed Stoker has written must stay readable, so a row that
// comes out in other bytes needs a new row version. The expected bytes were put together from that page by
// another program (with libxxhash), not by the code under test.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "cache/store/records.h"

namespace stoker {
namespace {

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t at = 0; at + 1 < hex.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
  }
  return bytes;
}

PartKey GoldenKey() {
  PartKey key;
  for (size_t i = 0; i < key.object.bytes.size(); ++i) key.object.bytes[i] = static_cast<uint8_t>(0xa0 + i);
  key.part = PartIndex{0x01020304};
  return key;
}

TEST(OnDiskFormat, ObjectRow) {
  ObjectRecord record;
  record.phase = ObjectPhase::kSealed;
  record.suspect = true;
  record.size = 0x0102030405060708;
  record.part_length = 4194304;
  record.charged_bytes = 8192;
  record.inode = 0x1122334455667788;
  record.token = "tok";
  record.name_hint = "a/b.c";
  const std::string golden = FromHex(
      "01020100"          // version, phase, flags, 0
      "03000500"          // lengths of the two texts
      "0807060504030201"  // size
      "0000400000000000"  // part length
      "0020000000000000"  // allocated bytes
      "8877665544332211"  // inode
      "746f6b"            // token
      "612f622e63"        // name hint
      "80b481e4595eb211"  // checksum
  );
  EXPECT_EQ(EncodeObject(record), golden);
  const auto decoded = DecodeObject(golden);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded.value(), record);
}

TEST(OnDiskFormat, PartKeyAndRow) {
  const std::string golden_key = FromHex(
      "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"  // object id
      "01020304"                          // index, big-endian
  );
  EXPECT_EQ(EncodePartKey(GoldenKey()), golden_key);
  EXPECT_EQ(EncodeId(GoldenKey().object), golden_key.substr(0, 16));
  const PartRecord record{4194304, 0x8877665544332211};
  const std::string golden = FromHex(
      "01000000"          // version, 0
      "00004000"          // length
      "1122334455667788"  // checksum of the part
      "1567787b9bcc120a"  // checksum of key and row
  );
  EXPECT_EQ(EncodePart(GoldenKey(), record), golden);
  const auto decoded = DecodePart(GoldenKey(), golden);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded.value(), record);
}

TEST(OnDiskFormat, RunRow) {
  const std::string golden = FromHex(
      "01010000"          // version, clean, 0
      "626f6f742d31"      // boot id
      "6b9bf6660dfb25e7"  // checksum
  );
  EXPECT_EQ(EncodeRun({"boot-1", true}), golden);
  const auto decoded = DecodeRun(golden);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded.value(), (RunRecord{"boot-1", true}));
}

TEST(OnDiskFormat, UseRow) {
  const std::string golden = FromHex("8594a3b2c1e00500");
  EXPECT_EQ(EncodeUse(0x0005e0c1b2a39485), golden);
  EXPECT_EQ(DecodeUse(golden).value(), 0x0005e0c1b2a39485u);
}

}  // namespace
}  // namespace stoker
