#include "workload/io/pattern.h"

#include <gtest/gtest.h>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace stoker::bench {
namespace {

std::vector<std::byte> Made(const TransferBuffer& buffer, uint64_t signature, uint64_t file, uint64_t offset,
                            uint64_t bytes) {
  const std::byte* const data = Pattern::Prepare(buffer, signature, file, offset, bytes);
  return {data, data + bytes};
}

class PatternTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<TransferBuffer> made = TransferBuffer::Allocate(Pattern::BufferBytes(kBytes));
    ASSERT_TRUE(made.ok());
    buffer_ = std::move(*made);
    pattern_.Fill(buffer_);
  }
  static constexpr uint64_t kBytes = 3 << 20;
  Pattern pattern_;
  TransferBuffer buffer_;
};

TEST_F(PatternTest, IsAFunctionOfTheOffsetWhateverTheTransfer) {
  const std::vector<std::byte> whole = Made(buffer_, 7, 1, 0, kBytes);
  for (const uint64_t bytes : {8ul, 24ul, 4096ul, 6144ul, 1048576ul + 8}) {
    for (uint64_t offset = bytes * 3; offset + bytes <= kBytes; offset += bytes * 61) {
      const std::vector<std::byte> part = Made(buffer_, 7, 1, offset, bytes);
      ASSERT_EQ(std::memcmp(part.data(), whole.data() + offset, bytes), 0) << offset << " " << bytes;
      ASSERT_EQ(pattern_.Check(part.data(), 7, 1, offset, bytes).words, 0u);
    }
  }
}

TEST_F(PatternTest, NoTwoPagesAreAlike) {
  std::set<std::string> pages;
  for (uint64_t file = 0; file < 2; ++file) {
    const std::vector<std::byte> bytes = Made(buffer_, 7, file, 0, kBytes);
    for (uint64_t at = 0; at < kBytes; at += 4096) {
      pages.emplace(reinterpret_cast<const char*>(bytes.data()) + at, 4096);
    }
  }
  EXPECT_EQ(pages.size(), 2 * kBytes / 4096);
}

TEST_F(PatternTest, CheckNoticesAnyWordAndSaysWhere) {
  for (const uint64_t at : {0ul, 8ul, 4088ul, 4096ul, 5000ul, 20472ul}) {
    std::vector<std::byte> bytes = Made(buffer_, 7, 1, 8192, 20480);
    bytes[at] ^= std::byte{1};
    const Mismatch wrong = pattern_.Check(bytes.data(), 7, 1, 8192, 20480);
    EXPECT_EQ(wrong.words, 1u);
    EXPECT_EQ(wrong.first_offset, 8192 + at);
    EXPECT_EQ(wrong.expected ^ wrong.found, 1u);
  }
}

TEST_F(PatternTest, OtherFileOffsetOrRepetitionIsNoticedInEveryPage) {
  const std::vector<std::byte> bytes = Made(buffer_, 7, 1, 0, 1 << 20);
  EXPECT_EQ(pattern_.Check(bytes.data(), 7, 2, 0, 1 << 20).words, 256u);
  EXPECT_EQ(pattern_.Check(bytes.data(), 8, 1, 0, 1 << 20).words, 256u);
  EXPECT_EQ(pattern_.Check(bytes.data(), 7, 1, 1 << 20, 1 << 20).words, 256u);  // same words, other stamps
}

TEST_F(PatternTest, ABufferThatWasNotReadIntoIsNoticed) {
  Made(buffer_, 7, 1, 0, 8192);
  const std::byte* const data = Pattern::PrepareRead(buffer_, 0, 8192);
  EXPECT_GE(pattern_.Check(data, 7, 1, 0, 8192).words, 2u);
}

TEST_F(PatternTest, DirectTransfersAreAligned) {
  for (const uint64_t offset : {0ul, 512ul, 4096ul, 1048576ul * 5 + 512}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(Pattern::Prepare(buffer_, 1, 1, offset, 512)) % 512, 0u);
  }
}

}  // namespace
}  // namespace stoker::bench
