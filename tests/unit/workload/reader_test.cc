#include "workload/train/reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cache/base/units.h"
#include "tests/support/temp_dir.h"
#include "workload/data/datagen.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;

class ReaderTest : public ::testing::Test {
 protected:
  ReaderTest() {
    dataset_.folder = dir_.path();
    dataset_.files = 2;
    dataset_.record_bytes = 1'500'000;
    EXPECT_TRUE(GenerateDataset({dataset_, 2, nullptr}, CancelToken()).ok());
  }
  Status Read(ReaderOptions options, const std::string& path) {
    Result<std::unique_ptr<FileReader>> reader = MakeFileReader(options);
    if (!reader.ok()) return reader.status();
    return (*reader)->ReadFile(path, stats_);
  }
  const stoker::testing::TempDir dir_;
  Dataset dataset_;
  ReadStats stats_;
};

TEST_F(ReaderTest, WholeReadsEveryByteOnce) {
  ReaderOptions options;
  options.shape = ReadShape::kWhole;
  ASSERT_TRUE(Read(options, dataset_.Path(0)).ok());
  EXPECT_EQ(stats_.files, 1u);
  EXPECT_EQ(stats_.bytes, dataset_.FileBytes(0));
  EXPECT_EQ(stats_.calls, CeilDiv(dataset_.FileBytes(0), kMiB));
  EXPECT_EQ(stats_.file_ns.count(), 1u);
  EXPECT_EQ(stats_.call_ns.count(), stats_.calls);
  EXPECT_EQ(stats_.errors, 0u);
}

TEST_F(ReaderTest, ACutFileIsSeenWhateverTheShape) {
  const std::string path = dataset_.Path(0);
  // In the last piece, at a piece's end, at a page's end, to less than an end record, to nothing.
  for (const uint64_t left :
       {dataset_.FileBytes(0) - 1, uint64_t{kMiB}, uint64_t{64 * kKiB}, uint64_t{21}, uint64_t{0}}) {
    fs::resize_file(path, left);
    for (const ReadShape shape : {ReadShape::kWhole, ReadShape::kODirect, ReadShape::kNpz}) {
      ReaderOptions options;
      options.shape = shape;
      stats_ = ReadStats();
      EXPECT_FALSE(Read(options, path).ok()) << left << " bytes, " << Name(shape);
      EXPECT_EQ(stats_.errors, 1u);
    }
  }
}

TEST_F(ReaderTest, TheEndRecordMayLieAcrossTwoReads) {
  const uint64_t size = dataset_.FileBytes(0);
  for (const uint64_t over : {1u, 11u, 21u, 22u}) {  // bytes of it that the last read gets
    ReaderOptions options;
    options.piece_bytes = size - over;
    EXPECT_TRUE(Read(options, dataset_.Path(0)).ok()) << over;
  }
}

TEST_F(ReaderTest, PieceSizeIsObeyed) {
  ReaderOptions options;
  options.piece_bytes = 64 * kKiB;
  ASSERT_TRUE(Read(options, dataset_.Path(0)).ok());
  EXPECT_EQ(stats_.calls, CeilDiv(dataset_.FileBytes(0), 64 * kKiB));
}

TEST_F(ReaderTest, NpzFollowsTheCallsOfNumpy) {
  ReaderOptions options;
  options.shape = ReadShape::kNpz;
  ASSERT_TRUE(Read(options, dataset_.Path(0)).ok());
  // 4096 at 0; 22, 42 and 124 at the end; 4096 at 0; then 4096 + 258 048 until x.npy ends.
  const uint64_t member_end = 55 + 128 + dataset_.ShapeOf(0).data_bytes();
  uint64_t body_calls = 0;
  uint64_t body_bytes = 0;
  for (uint64_t at = 4096; at < member_end; ++body_calls) {
    const uint64_t step = body_calls % 2 == 0 ? 4096 : std::min<uint64_t>(258'048, member_end - at);
    at += step;
    body_bytes += step;
  }
  EXPECT_EQ(stats_.calls, 5 + body_calls);
  EXPECT_EQ(stats_.bytes, 4096 + 22 + 42 + 124 + 4096 + body_bytes);
}

TEST_F(ReaderTest, NpzWithLabelsReadsYToo) {
  ReaderOptions options;
  options.shape = ReadShape::kNpz;
  ASSERT_TRUE(Read(options, dataset_.Path(0)).ok());
  const uint64_t without = stats_.bytes;
  options.read_labels = true;
  ASSERT_TRUE(Read(options, dataset_.Path(0)).ok());
  EXPECT_GT(stats_.bytes - without, without);
}

TEST_F(ReaderTest, NpzOfOddSizesIsReadToTheEndOfX) {
  ReaderOptions options;
  options.shape = ReadShape::kNpz;
  options.read_labels = true;
  Dataset odd = dataset_;
  odd.folder = dir_ / "odd";
  odd.files = 60;
  // Around the steps: one byte, one 4096 fill, one 256 KiB step.
  odd.record_bytes = 130'000;
  odd.record_bytes_stdev = 200'000;
  ASSERT_TRUE(GenerateDataset({odd, 2, nullptr}, CancelToken()).ok());
  for (uint64_t i = 0; i < odd.files; ++i) {
    const Status status = Read(options, odd.Path(i));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(stats_.files, 60u);
}

TEST_F(ReaderTest, ODirectReadsEveryByteOnce) {
  const int probe = ::open(dataset_.Path(0).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (probe < 0) GTEST_SKIP() << "no O_DIRECT in " << dir_.path();
  ::close(probe);
  ReaderOptions options;
  options.shape = ReadShape::kODirect;
  options.piece_bytes = 64 * kKiB;
  const Status status = Read(options, dataset_.Path(0));
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(stats_.bytes, dataset_.FileBytes(0));
}

TEST_F(ReaderTest, ODirectNeedsAlignedPieces) {
  ReaderOptions options;
  options.shape = ReadShape::kODirect;
  options.piece_bytes = 5000;
  EXPECT_EQ(MakeFileReader(options).status().code(), Code::kInvalidArgument);
}

TEST_F(ReaderTest, MissingFileIsCountedAndNamed) {
  const std::string path = dir_ / "train/none.npz";
  const Status status = Read({}, path);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), path + ": open: No such file or directory");
  EXPECT_EQ(stats_.errors, 1u);
  EXPECT_EQ(stats_.files, 0u);
  EXPECT_EQ(stats_.first_error, status.message());
}

TEST_F(ReaderTest, FilesThatAreNoNpzAreRefused) {
  ReaderOptions options;
  options.shape = ReadShape::kNpz;
  const std::string path = dir_ / "bad.npz";
  for (const size_t bytes : {size_t{0}, size_t{10}, size_t{5000}}) {
    std::ofstream(path, std::ios::trunc) << std::string(bytes, 'x');
    EXPECT_EQ(Read(options, path).code(), Code::kCorruption) << bytes;
  }
  fs::copy_file(dataset_.Path(0), path, fs::copy_options::overwrite_existing);
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_EQ(Read(options, path).code(), Code::kCorruption);
  EXPECT_EQ(stats_.errors, 4u);
}

TEST_F(ReaderTest, TheMeterCountsAlong) {
  for (const ReadShape shape : {ReadShape::kWhole, ReadShape::kNpz, ReadShape::kODirect}) {
    stats_ = ReadStats();
    ReaderOptions options;
    options.shape = shape;
    options.meter = std::make_shared<ReadMeter>();
    ASSERT_TRUE(Read(options, dataset_.Path(0)).ok());
    EXPECT_EQ(options.meter->bytes(), stats_.bytes);
    EXPECT_EQ(options.meter->files(), 1u);
    EXPECT_EQ(options.meter->DrainCalls().count(), stats_.calls);
    EXPECT_EQ(options.meter->DrainFiles().count(), 1u);
  }
}

TEST_F(ReaderTest, AnEmptyFileIsReadWhole) {
  const std::string path = dir_ / "empty";
  std::ofstream(path).close();
  ReaderOptions options;
  options.format = Format::kJpeg;
  EXPECT_TRUE(Read(options, path).ok());
  EXPECT_EQ(stats_.bytes, 0u);
}

}  // namespace
}  // namespace stoker::bench
