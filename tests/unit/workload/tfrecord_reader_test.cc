#include "workload/train/tfrecord_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cache/base/random.h"
#include "cache/base/units.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "workload/data/datagen.h"
#include "workload/data/tfrecord.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;

/// Whole records with correct lengths; their data's check sums are not looked at here.
std::string Records(const std::vector<uint64_t>& sizes) {
  std::string out;
  for (const uint64_t size : sizes) {
    const TfRecordFrame frame = MakeTfRecordFrame(Edition::kV20, size, 1);
    out += frame.head + std::string(size, 'x') + frame.tail + "crc.";
  }
  return out;
}
std::span<const std::byte> Bytes(const std::string& text, size_t from, size_t count) {
  return std::as_bytes(std::span(text)).subspan(from, count);
}

TEST(TfRecordFraming, FindsEveryRecordWhereverTheChunksAreCut) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 300; ++round) {
    std::vector<uint64_t> sizes(1 + random.Below(20));
    for (uint64_t& size : sizes) size = random.Below(60);
    const std::string file = Records(sizes);
    TfRecordFraming framing;
    uint64_t records = 0;
    for (size_t at = 0; at < file.size();) {
      const size_t part = std::min<size_t>(1 + random.Below(40), file.size() - at);
      const Result<uint64_t> found = framing.Feed(Bytes(file, at, part));
      ASSERT_TRUE(found.ok()) << found.status().message();
      records += *found;
      at += part;
    }
    EXPECT_EQ(records, sizes.size());
    EXPECT_TRUE(framing.AtEnd().ok());
  }
}

TEST(TfRecordFraming, AFileCutShortOrOfSomethingElseIsNoticed) {
  const std::string file = Records({10, 20});
  for (size_t cut = 1; cut < file.size(); ++cut) {
    TfRecordFraming framing;
    ASSERT_TRUE(framing.Feed(Bytes(file, 0, cut)).ok());
    EXPECT_EQ(framing.AtEnd().ok(), cut == Records({10}).size()) << cut;
  }
  EXPECT_EQ(TfRecordFraming().AtEnd().code(), Code::kCorruption);
  TfRecordFraming other;
  EXPECT_EQ(other.Feed(Bytes(std::string(12, 'x'), 0, 12)).status().message(),
            "not a readable TFRecord file: no record at byte 0");
}

class TfRecordReaderTest : public ::testing::Test {
 protected:
  TfRecordReaderTest() {
    dataset_.folder = dir_.path();
    dataset_.format = Format::kTfRecord;
    dataset_.files = 2;
    dataset_.samples_per_file = 30;
    dataset_.record_bytes = 40'000;
    EXPECT_TRUE(GenerateDataset({dataset_, 2, nullptr}, CancelToken()).ok());
    reader_ = std::move(TfRecordReader::Make(256 * kKiB, CacheControl::kNone)).value();
  }
  /// Reads until the end or an error.
  Status ReadAll(const std::string& path, uint64_t opening, uint64_t& records) {
    while (true) {
      const Result<TfRecordReader::Chunk> chunk = reader_->Read(path, opening, stats_);
      if (!chunk.ok()) return chunk.status();
      records += chunk.value().records;
      if (chunk.value().ended) return Status::Ok();
    }
  }
  const stoker::testing::TempDir dir_;
  Dataset dataset_;
  ReadStats stats_;
  std::unique_ptr<TfRecordReader> reader_;
};

TEST_F(TfRecordReaderTest, ReadsInBufferfulsAndOnceMoreForTheEnd) {
  uint64_t records = 0;
  for (uint64_t file = 0; file < 2; ++file) {
    const Status status = ReadAll(dataset_.Path(file), file + 1, records);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(records, 60u);
  EXPECT_EQ(stats_.files, 2u);
  EXPECT_EQ(stats_.bytes, dataset_.FileBytes(0) + dataset_.FileBytes(1));
  EXPECT_EQ(stats_.calls, 2 * (CeilDiv(dataset_.FileBytes(0), 256 * kKiB) + 1));
}

TEST_F(TfRecordReaderTest, TheSameFileOpenedAnewBeginsAtItsStart) {
  uint64_t records = 0;
  ASSERT_TRUE(ReadAll(dataset_.Path(0), 1, records).ok());
  ASSERT_TRUE(ReadAll(dataset_.Path(0), 2, records).ok());
  EXPECT_EQ(records, 60u);
}

TEST_F(TfRecordReaderTest, AFileCutShortIsCountedAndNamed) {
  const std::string path = dataset_.Path(1);
  fs::resize_file(path, fs::file_size(path) - 1000);
  uint64_t records = 0;
  const Status status = ReadAll(path, 1, records);
  EXPECT_EQ(status.message(),
            path + ": ends at byte " + std::to_string(fs::file_size(path)) + ", in the middle of a record");
  EXPECT_EQ(records, 29u);
  EXPECT_EQ(stats_.errors, 1u);
  EXPECT_EQ(stats_.files, 0u);
  EXPECT_EQ(stats_.first_error, status.message());
}

TEST_F(TfRecordReaderTest, AMissingFileIsCountedAndTheNextOneIsRead) {
  uint64_t records = 0;
  EXPECT_EQ(ReadAll(dir_ / "none", 1, records).code(), Code::kNotFound);
  EXPECT_TRUE(ReadAll(dataset_.Path(0), 2, records).ok());
  EXPECT_EQ(records, 30u);
  EXPECT_EQ(stats_.errors, 1u);
}

}  // namespace
}  // namespace stoker::bench
