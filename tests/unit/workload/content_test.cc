#include "workload/data/content.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker::bench {
namespace {

TEST(Crc32, KnownValues) {
  EXPECT_EQ(Crc32(0, "123456789", 9), 0xCBF43926u);  // the check value of the CRC catalogues
  EXPECT_EQ(Crc32(0, "", 0), 0u);
  EXPECT_EQ(Crc32(Crc32(0, "1234", 4), "56789", 5), 0xCBF43926u);
}

TEST(Crc32, AppendingAgreesWithReadingOn) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 50; ++round) {
    std::vector<unsigned char> bytes(random.Below(5000));
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.Next());
    const size_t cut = bytes.empty() ? 0 : random.Below(bytes.size() + 1);
    const uint32_t a = Crc32(0, bytes.data(), cut);
    const uint32_t b = Crc32(0, bytes.data() + cut, bytes.size() - cut);
    EXPECT_EQ(CrcAppender(bytes.size() - cut).Append(a, b), Crc32(0, bytes.data(), bytes.size()));
  }
}

std::vector<std::byte> All(const Content& content, uint64_t file, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  for (uint64_t at = 0; at < bytes; at += Content::kBlockBytes) {
    const size_t step = std::min<uint64_t>(Content::kBlockBytes, bytes - at);
    content.Fill(file, at / Content::kBlockBytes, {out.data() + at, step});
  }
  return out;
}

TEST(Content, CrcWithoutTheBytesIsTheBytesCrc) {
  Random random(testing::TestSeed());
  for (const Element element : {Element::kUint8, Element::kFloat64}) {
    const Content content(random.Next(), element);
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{Content::kBlockBytes},
                                 Content::kBlockBytes * 3 + 1 + random.Below(Content::kBlockBytes - 1)}) {
      const std::vector<std::byte> all = All(content, 7, bytes);
      const uint32_t head = Crc32(0, "head", 4);
      EXPECT_EQ(content.Crc(head, 7, bytes), Crc32(head, all.data(), all.size())) << bytes;
    }
  }
}

TEST(Content, SameSeedSameBytesOtherFileOtherBytes) {
  const Content one(1, Element::kUint8);
  const Content again(1, Element::kUint8);
  const Content other(2, Element::kUint8);
  const uint64_t bytes = Content::kBlockBytes + 77;
  EXPECT_EQ(All(one, 3, bytes), All(again, 3, bytes));
  EXPECT_NE(All(one, 3, bytes), All(one, 4, bytes));
  EXPECT_NE(All(one, 3, bytes), All(other, 3, bytes));
}

TEST(Content, NoTwoBlocksAreAlikeAndBytesAreUniform) {
  const Content content(10, Element::kUint8);
  std::set<std::vector<std::byte>> starts;  // 16 bytes of each block
  std::vector<uint64_t> counts(256);
  std::vector<std::byte> block(Content::kBlockBytes);
  for (uint64_t file = 0; file < 8; ++file) {
    for (uint64_t index = 0; index < 100; ++index) {
      content.Fill(file, index, block);
      starts.insert(std::vector<std::byte>(block.begin(), block.begin() + 16));
      for (size_t i = 0; i < block.size(); i += 61) ++counts[static_cast<size_t>(block[i])];
    }
  }
  EXPECT_EQ(starts.size(), 800u);
  double expected = 0;
  for (const uint64_t count : counts) expected += static_cast<double>(count) / 256;
  double chi2 = 0;
  for (const uint64_t count : counts) chi2 += std::pow(static_cast<double>(count) - expected, 2) / expected;
  EXPECT_LT(chi2, 400);  // 255 degrees of freedom: mean 255, deviation 23
}

TEST(Content, Float64ElementsLieInOneToTwo) {
  const Content content(10, Element::kFloat64);
  std::vector<std::byte> block(Content::kBlockBytes);
  content.Fill(5, 2, block);
  double sum = 0;
  for (size_t i = 0; i < block.size(); i += 8) {
    double value;
    std::memcpy(&value, block.data() + i, 8);
    ASSERT_GE(value, 1.0);
    ASSERT_LT(value, 2.0);
    sum += value;
  }
  EXPECT_NEAR(sum / (Content::kBlockBytes / 8), 1.5, 0.01);
}

TEST(Content, ARangeIsTheSameBytes) {
  const Content content(3, Element::kUint8);
  std::vector<std::byte> whole(3 * Content::kBlockBytes);
  content.FillRange(5, 0, whole);
  for (size_t block = 0; block < 3; ++block) {
    std::vector<std::byte> one(Content::kBlockBytes);
    content.Fill(5, block, one);
    EXPECT_TRUE(
        std::equal(one.begin(), one.end(), whole.begin() + static_cast<ptrdiff_t>(block * one.size())));
  }
  for (const auto& [offset, size] : {std::pair<size_t, size_t>{8, 3},
                                     {Content::kBlockBytes - 8, 100},
                                     {16, 2 * Content::kBlockBytes},
                                     {Content::kBlockBytes, 0}}) {
    std::vector<std::byte> part(size);
    content.FillRange(5, offset, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<ptrdiff_t>(offset)));
  }
}

}  // namespace
}  // namespace stoker::bench
