#include "workload/data/datagen.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <zip.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "cache/base/fd.h"
#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;

Dataset Small(const std::string& folder, Edition layout = Edition::kV30) {
  Dataset dataset;
  dataset.layout = layout;
  dataset.folder = folder;
  dataset.files = 9;
  dataset.record_bytes = 700'000;
  dataset.record_bytes_stdev = 350'000;
  return dataset;
}

std::map<std::string, std::string> Contents(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    out[entry.path().lexically_relative(folder)] = testing::ReadFile(entry.path());
  }
  return out;
}

Result<DatagenOutcome> Generate(const Dataset& dataset, uint64_t writers) {
  return GenerateDataset({dataset, writers, nullptr}, CancelToken());
}

TEST(Datagen, AnyNumberOfWritersMakesTheSameFiles) {
  const testing::TempDir dir;
  ASSERT_TRUE(Generate(Small(dir / "one"), 1).ok());
  ASSERT_TRUE(Generate(Small(dir / "five"), 5).ok());
  const auto one = Contents(dir / "one");
  EXPECT_EQ(one.size(), 9u);
  EXPECT_EQ(one, Contents(dir / "five"));
}

TEST(Datagen, FilesAreValidAndHaveTheSizesForetold) {
  const testing::TempDir dir;
  for (const Edition layout : {Edition::kV05, Edition::kV30}) {
    Dataset dataset = Small(dir / std::string(Name(layout)), layout);
    dataset.samples_per_file = 2;
    dataset.subfolders = 4;
    ASSERT_TRUE(Generate(dataset, 2).ok());
    for (uint64_t i = 0; i < dataset.files; ++i) {
      EXPECT_EQ(fs::file_size(dataset.Path(i)), dataset.FileBytes(i));
      int error = 0;
      zip_t* archive = zip_open(dataset.Path(i).c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &error);
      ASSERT_NE(archive, nullptr);
      zip_file_t* x = zip_fopen(archive, "x.npy", 0);
      ASSERT_NE(x, nullptr);
      std::string bytes(128 + dataset.ShapeOf(i).data_bytes() + 1, '\0');
      // Reading past the last byte makes libzip compare the CRC.
      EXPECT_EQ(zip_fread(x, bytes.data(), bytes.size()), static_cast<zip_int64_t>(bytes.size() - 1));
      EXPECT_EQ(zip_fread(x, bytes.data(), 1), 0) << zip_file_strerror(x);
      EXPECT_EQ(zip_fclose(x), 0);
      EXPECT_EQ(zip_close(archive), 0);
    }
  }
}

/// Several samples a file, several row groups, columns of every kind.
Dataset Formatted(const std::string& folder, Format format, Edition layout = Edition::kV30) {
  Dataset dataset = Small(folder, layout);
  dataset.files = 3;
  dataset.format = format;
  dataset.samples_per_file = format == Format::kJpeg ? 1 : 7;
  dataset.row_group_rows = 3;
  if (format == Format::kParquet) {
    dataset.columns = *ParseColumns(
        "k",
        "a:float32*70000 b:int64 c:uint8*9 d:float16*5 e:int8 f:float64*200000 g:uint32 h:int32 i:uint64");
  }
  return dataset;
}

TEST(Datagen, EveryFormatHasTheSizesForetoldWhoeverWrites) {
  for (const Format format : {Format::kNpz, Format::kTfRecord, Format::kJpeg, Format::kParquet}) {
    for (const Edition layout : {Edition::kV05, Edition::kV30}) {
      const testing::TempDir dir;
      const Dataset one = Formatted(dir / "one", format, layout);
      ASSERT_TRUE(Generate(one, 1).ok());
      for (uint64_t i = 0; i < one.files; ++i) EXPECT_EQ(fs::file_size(one.Path(i)), one.FileBytes(i));
      ASSERT_TRUE(Generate(Formatted(dir / "three", format, layout), 3).ok());
      EXPECT_EQ(Contents(dir / "one"), Contents(dir / "three"));
      const Result<DatagenOutcome> again = Generate(one, 3);
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(again->files_kept, one.files);
    }
  }
}

TEST(Datagen, ManyTinyFiles) {
  const testing::TempDir dir;
  Dataset dataset = Small(dir.path());
  dataset.files = 4200;  // more than one thread looks at at a time
  dataset.subfolders = 3;
  dataset.record_bytes = 100;
  dataset.record_bytes_stdev = 0;
  dataset.format = Format::kJpeg;
  ASSERT_TRUE(Generate(dataset, 3).ok());
  for (const uint64_t gone : {0u, 63u, 64u, 4095u, 4096u, 4199u}) fs::remove(dataset.Path(gone));
  const Result<DatagenOutcome> again = Generate(dataset, 3);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->files_written, 6u);
  EXPECT_EQ(again->files_kept, 4194u);
  EXPECT_EQ(fs::file_size(dataset.Path(4199)), 100u);
}

TEST(Datagen, WritesOnlyWhatIsMissingOrWrong) {
  const testing::TempDir dir;
  const Dataset dataset = Small(dir.path());
  ASSERT_TRUE(Generate(dataset, 2).ok());
  const auto whole = Contents(dir.path());
  fs::remove(dataset.Path(2));
  fs::resize_file(dataset.Path(4), 1000);
  std::ofstream(dir / "train/.img_2_of_9.npz.part") << "left behind by a killed call";
  const Result<DatagenOutcome> again = Generate(dataset, 2);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->files_written, 2u);
  EXPECT_EQ(again->files_kept, 7u);
  EXPECT_EQ(Contents(dir.path()), whole);  // the left-over is gone as well
}

TEST(Datagen, CancelledLeavesOnlyWholeFiles) {
  const testing::TempDir dir;
  const Dataset dataset = Small(dir.path());
  CancelToken cancel;
  cancel.Cancel();
  EXPECT_EQ(GenerateDataset({dataset, 2, nullptr}, cancel).status().code(), Code::kCancelled);
  EXPECT_TRUE(Contents(dir.path()).empty());
}

TEST(Datagen, TooLittleSpaceIsFoundBeforeWriting) {
  const testing::TempDir dir;
  Dataset dataset = Small(dir.path());
  dataset.record_bytes = 1e15;
  dataset.record_bytes_stdev = 0;
  const Result<DatagenOutcome> outcome = Generate(dataset, 2);
  EXPECT_EQ(outcome.status().code(), Code::kNoSpace);
  EXPECT_NE(outcome.status().message().find("the 9 missing files need"), std::string::npos)
      << outcome.status().message();
  EXPECT_TRUE(Contents(dir.path()).empty());
}

TEST(Datagen, TwoAtATimeAreRefused) {
  const testing::TempDir dir;
  fs::create_directories(dir / "train");
  const Fd held(::open((dir / "train").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
  const Result<DatagenOutcome> outcome = Generate(Small(dir.path()), 2);
  EXPECT_EQ(outcome.status().code(), Code::kBusy);
  EXPECT_EQ(outcome.status().message(),
            "another datagen is writing to " + dir.path() + "/train; wait for it or give another --data-dir");
}

TEST(Datagen, FolderThatCannotBeMade) {
  const testing::TempDir dir;
  std::ofstream(dir / "file") << "x";
  const Result<DatagenOutcome> outcome = Generate(Small(dir / "file"), 2);
  EXPECT_EQ(outcome.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(outcome.status().message(), "cannot make the folder " + dir.path() +
                                            "/file/train: Not a directory; give a writable --data-dir");
}

}  // namespace
}  // namespace stoker::bench
