#include "workload/data/tfrecord.h"

#include <gtest/gtest.h>

#include "workload/data/crc32c.h"

namespace stoker::bench {
namespace {

TEST(Crc32c, PublishedValues) {
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(Crc32c(0, std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(0, std::string(32, '\xff').data(), 32), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(0, "", 0), 0u);
}

TEST(Crc32c, GoesOnWhereItEnded) {
  EXPECT_EQ(Crc32c(Crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

TEST(TfRecord, FrameOfASmallRecord) {
  // Worked by hand: Example { features { feature { "image": bytes(3) } feature { "size": int64 17 } } }.
  const TfRecordFrame frame = MakeTfRecordFrame(Edition::kV10, 3, 17);
  const std::string image("\x0a\x10\x0a\x05image\x12\x07\x0a\x05\x0a\x03", 15);
  const std::string size("\x0a\x0d\x0a\x04size\x12\x05\x1a\x03\x0a\x01\x11", 15);
  const std::string start = std::string("\x0a\x21", 2) + image;
  EXPECT_EQ(frame.head.substr(kTfRecordHeadBytes), start);
  EXPECT_EQ(frame.tail, size);
  const std::string length("\x23\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(frame.head.substr(0, 8), length);
  EXPECT_EQ(frame.head.substr(8, 4), TfRecordCrc(Crc32c(0, length.data(), 8)));
  EXPECT_EQ(frame.record_bytes, 12u + 35 + 4);
  EXPECT_EQ(frame.record_bytes, frame.head.size() + 3 + frame.tail.size() + 4);
}

TEST(TfRecord, V05CallsTheIntegerLabel) {
  EXPECT_NE(MakeTfRecordFrame(Edition::kV05, 3, 17).tail.find("label"), std::string::npos);
}

TEST(TfRecord, FramingIsTensOfBytes) {
  const TfRecordFrame frame = MakeTfRecordFrame(Edition::kV10, 114'244, 338);
  EXPECT_GT(frame.record_bytes, 114'244u + 16);
  EXPECT_LT(frame.record_bytes, 114'244u + 100);
}

}  // namespace
}  // namespace stoker::bench
