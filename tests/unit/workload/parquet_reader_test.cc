#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cache/base/units.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"
#include "workload/data/datagen.h"
#include "workload/data/parquet.h"
#include "workload/train/parquet_reader.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;

/// 100 rows in row groups of 16; columns a and b lie side by side, d apart, c is not read.
class ParquetReaderTest : public ::testing::Test {
 protected:
  ParquetReaderTest() {
    dataset_.folder = dir_.path();
    dataset_.format = Format::kParquet;
    dataset_.files = 6;
    dataset_.samples_per_file = 100;
    dataset_.row_group_rows = 16;
    dataset_.columns = *ParseColumns("k", "a:float32*100, b:int64, c:float32*50:skip, d:float64");
    dataset_.record_bytes = 1000;
    EXPECT_TRUE(GenerateDataset({dataset_, 2, nullptr}, CancelToken()).ok());
    options_.format = Format::kParquet;
    options_.columns = {"a", "b", "d"};
    bytes_ = testing::ReadFile(dataset_.Path(0));
    const auto whole = std::as_bytes(std::span(bytes_));
    footer_bytes_ = *ParseParquetTail(whole.last(kParquetTailBytes), bytes_.size());
    footer_ = *ParseParquetFooter(
        whole.subspan(bytes_.size() - kParquetTailBytes - footer_bytes_, footer_bytes_), bytes_.size());
  }
  Status Read(uint64_t file, uint64_t first, uint64_t count) {
    if (reader_ == nullptr) {
      Result<std::unique_ptr<FileReader>> made = MakeFileReader(options_);
      if (!made.ok()) return made.status();
      reader_ = std::move(made).value();
    }
    return reader_->ReadSamples(dataset_.Path(file), {file, first, count}, stats_);
  }
  uint64_t GroupBytes(size_t group) const {
    return footer_.RangeOf(group, 0).size() + footer_.RangeOf(group, 1).size() +
           footer_.RangeOf(group, 3).size();
  }
  uint64_t FooterRead() const { return std::min<uint64_t>(64 * kKiB, bytes_.size()); }

  const stoker::testing::TempDir dir_;
  Dataset dataset_;
  ReaderOptions options_;
  std::string bytes_;
  uint64_t footer_bytes_ = 0;
  ParquetFooter footer_;
  std::unique_ptr<FileReader> reader_;
  ReadStats stats_;
};

TEST_F(ParquetReaderTest, ReadsTheFooterAndTheWantedColumnsOfTheGroupsThatAreTouched) {
  const Status status = Read(0, 20, 20);  // rows 20 to 39: groups 1 and 2
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(stats_.bytes, FooterRead() + GroupBytes(1) + GroupBytes(2));
  EXPECT_EQ(stats_.calls, 1u + 2 * 2);  // a and b in one call, d in another
}

TEST_F(ParquetReaderTest, OpenFileAndRecentGroupsAreNotReadAgain) {
  ASSERT_TRUE(Read(0, 0, 64).ok());  // groups 0 to 3
  const uint64_t calls = stats_.calls;
  ASSERT_TRUE(Read(0, 10, 30).ok());  // groups 0 to 2
  EXPECT_EQ(stats_.calls, calls);
  ASSERT_TRUE(Read(0, 64, 1).ok());  // group 4 takes the place of group 3
  EXPECT_EQ(stats_.calls, calls + 2);
  ASSERT_TRUE(Read(0, 48, 16).ok());
  EXPECT_EQ(stats_.calls, calls + 4) << "group 3 was used before 0, 1 and 2 were again";
  EXPECT_EQ(stats_.files, 0u) << "still open";
}

TEST_F(ParquetReaderTest, FootersOfTheLastFilesAreRemembered) {
  for (uint64_t file = 0; file < 6; ++file) ASSERT_TRUE(Read(file, 0, 1).ok());
  EXPECT_EQ(stats_.files, 5u);
  EXPECT_EQ(stats_.calls, 6u * 3);
  ASSERT_TRUE(Read(4, 0, 1).ok());
  EXPECT_EQ(stats_.calls, 6u * 3 + 2);
  ASSERT_TRUE(Read(0, 0, 1).ok());
  EXPECT_EQ(stats_.calls, 6u * 3 + 2 + 3) << "forgotten: memory is bounded";
}

TEST_F(ParquetReaderTest, ReadersThatShareFootersReadThemAllTheSame) {
  options_.footers = std::make_shared<ParquetFooters>();
  ASSERT_TRUE(Read(0, 0, 1).ok());
  const uint64_t bytes = stats_.bytes;
  reader_.reset();
  ASSERT_TRUE(Read(0, 0, 1).ok());
  EXPECT_EQ(stats_.bytes, 2 * bytes);
  int parsed = 0;
  const auto parse = [&]() -> Result<std::shared_ptr<const ParquetPlaces>> {
    ++parsed;
    return Status(Code::kCorruption, "not known");
  };
  EXPECT_TRUE(options_.footers->Get(dataset_.Path(0), bytes_.size(), parse).ok());
  EXPECT_EQ(parsed, 0);
  EXPECT_FALSE(options_.footers->Get(dataset_.Path(0), bytes_.size() + 1, parse).ok());
  EXPECT_FALSE(options_.footers->Get(dataset_.Path(1), bytes_.size(), parse).ok());
  EXPECT_EQ(parsed, 2);
}

TEST_F(ParquetReaderTest, ALongFooterIsFetchedWhole) {
  options_.piece_bytes = 4 * kKiB;  // so the first guess is too short
  dataset_.row_group_rows = 1;
  dataset_.folder = dir_ / "long";
  dataset_.files = 1;
  ASSERT_TRUE(GenerateDataset({dataset_, 1, nullptr}, CancelToken()).ok());
  const Status status = Read(0, 99, 1);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(stats_.calls, 2u + 2);
}

TEST_F(ParquetReaderTest, ChunksLongerThanThePieceTakeSeveralCalls) {
  options_.piece_bytes = 4 * kKiB;
  ASSERT_TRUE(Read(0, 0, 1).ok());
  const uint64_t joined = footer_.RangeOf(0, 0).size() + footer_.RangeOf(0, 1).size();
  const uint64_t footer_calls = footer_bytes_ + kParquetTailBytes > 4 * kKiB ? 2 : 1;
  EXPECT_EQ(stats_.calls, footer_calls + CeilDiv(joined, 4 * kKiB) + 1);
}

TEST_F(ParquetReaderTest, RowsThatAreNotThereAndOtherFilesAreErrors) {
  EXPECT_EQ(Read(0, 90, 11).message(), dataset_.Path(0) + ": holds 100 rows, row 100 was asked for");
  std::ofstream(dataset_.Path(1), std::ios::trunc) << "no parquet file, but long enough";
  EXPECT_EQ(Read(1, 0, 1).code(), Code::kCorruption);
  EXPECT_EQ(Read(9, 0, 1).code(), Code::kNotFound);
  EXPECT_EQ(stats_.errors, 3u);
  EXPECT_TRUE(Read(2, 0, 100).ok());
}

TEST_F(ParquetReaderTest, AFileMadeShorterWhileItIsOpenIsAnError) {
  ASSERT_TRUE(Read(0, 0, 1).ok());
  fs::resize_file(dataset_.Path(0), footer_.RangeOf(3, 0).begin);
  const Status status = Read(0, 99, 1);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_NE(status.message().find("though its size is"), std::string::npos) << status.message();
}

TEST_F(ParquetReaderTest, UnknownColumnsAndOdirectAreRefused) {
  options_.columns = {"z"};
  EXPECT_EQ(Read(0, 0, 1).message(), dataset_.Path(0) + ": has none of the columns that are to be read");
  options_.shape = ReadShape::kODirect;
  EXPECT_EQ(MakeFileReader(options_).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace stoker::bench
