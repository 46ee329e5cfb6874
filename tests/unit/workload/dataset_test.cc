#include "workload/data/dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;

Dataset Unet3d(Edition layout, uint64_t files) {
  Dataset dataset;
  dataset.layout = layout;
  dataset.folder = "/data";
  dataset.files = files;
  dataset.record_bytes = 146'600'628;
  dataset.record_bytes_stdev = 68'341'808;
  return dataset;
}

TEST(Dataset, NamesByEdition) {
  EXPECT_EQ(Unet3d(Edition::kV05, 1600).RelativePath(1), "train/img_1_of_1600.npz");
  EXPECT_EQ(Unet3d(Edition::kV10, 1600).RelativePath(1), "train/img_0001_of_1600.npz");
  EXPECT_EQ(Unet3d(Edition::kV20, 168).RelativePath(167), "train/img_167_of_168.npz");
  EXPECT_EQ(Unet3d(Edition::kV30, 7200).Path(0), "/data/train/img_0000_of_7200.npz");
}

TEST(Dataset, SubfoldersByEdition) {
  Dataset old = Unet3d(Edition::kV05, 25);
  old.subfolders = 10;  // three files each, contiguous
  EXPECT_EQ(old.RelativePath(0), "train/0/img_0_of_25.npz");
  EXPECT_EQ(old.RelativePath(3), "train/1/img_3_of_25.npz");
  EXPECT_EQ(old.RelativePath(24), "train/8/img_24_of_25.npz");
  Dataset dealt = Unet3d(Edition::kV10, 25);
  dealt.subfolders = 10;
  EXPECT_EQ(dealt.RelativePath(0), "train/00/img_00_of_25.npz");
  EXPECT_EQ(dealt.RelativePath(13), "train/03/img_13_of_25.npz");
  dealt.subfolders = 1;
  EXPECT_EQ(dealt.RelativePath(13), "train/img_13_of_25.npz");
}

TEST(Dataset, EveryFileHasItsOwnName) {
  for (const Edition layout : AllEditions()) {
    for (const uint64_t subfolders : {0u, 1u, 7u, 100u}) {
      Dataset dataset = Unet3d(layout, 1003);
      dataset.subfolders = subfolders;
      std::set<std::string> names;
      std::set<std::string> folders;
      for (uint64_t k = 0; k < dataset.train_folders(); ++k) folders.insert(dataset.TrainFolder(k));
      for (uint64_t i = 0; i < 1003; ++i) {
        const std::string path = dataset.RelativePath(i);
        names.insert(path);
        EXPECT_EQ(folders.count(path.substr(0, path.rfind('/'))), 1u) << path;
      }
      EXPECT_EQ(names.size(), 1003u);
    }
  }
}

TEST(Dataset, SizesAreSpreadAsThePublicFilesAre) {
  // Mean, smallest and largest of the public generator's files, MB, by number of files. The deviation is the
  // nominal one / sqrt(2).
  struct Row {
    uint64_t files;
    double mean;
    double deviation;
    double min;
    double max;
  };
  for (const Edition layout : {Edition::kV05, Edition::kV30}) {
    for (const Row& row : {Row{168, 150.51, 49.6, 46.9, 301.6}, Row{1600, 145.38, 47.3, 27.3, 310.0},
                           Row{3500, 145.37, 48.7, 21.2, 381.7}, Row{7200, 146.83, 48.9, 21.2, 381.7}}) {
      const Dataset dataset = Unet3d(layout, row.files);
      double sum = 0;
      double squares = 0;
      double min = 1e18;
      double max = 0;
      for (uint64_t i = 0; i < dataset.files; ++i) {
        const double megabytes = static_cast<double>(dataset.ShapeOf(i).data_bytes()) / 1e6;
        sum += megabytes;
        squares += megabytes * megabytes;
        min = std::min(min, megabytes);
        max = std::max(max, megabytes);
      }
      const double mean = sum / static_cast<double>(row.files);
      const double deviation = std::sqrt(squares / static_cast<double>(row.files) - mean * mean);
      EXPECT_NEAR(mean, row.mean, 0.04 * row.mean) << row.files;
      EXPECT_NEAR(deviation, row.deviation, 0.06 * row.deviation) << row.files;
      EXPECT_NEAR(min, row.min, 0.12 * row.min) << row.files;
      EXPECT_NEAR(max, row.max, 0.12 * row.max) << row.files;
    }
  }
}

TEST(Dataset, AnySeedGivesTheSameMeanAndDeviation) {
  Dataset dataset = Unet3d(Edition::kV30, 5000);
  dataset.seed = stoker::testing::TestSeed();
  double sum = 0;
  double squares = 0;
  for (uint64_t i = 0; i < dataset.files; ++i) {
    const double megabytes = static_cast<double>(dataset.ShapeOf(i).data_bytes()) / 1e6;
    sum += megabytes;
    squares += megabytes * megabytes;
  }
  const double mean = sum / 5000;
  // Six standard errors: 48.9 / sqrt(5000) = 0.69 for the mean, about 0.5 for the deviation.
  EXPECT_NEAR(mean, 146.6, 4.2);
  EXPECT_NEAR(std::sqrt(squares / 5000 - mean * mean), 48.9, 3.5);
}

TEST(Dataset, SizesAreFixedByTheSeed) {
  // These numbers are the contract: a dataset made elsewhere, or in part earlier, must have the same files.
  Dataset dataset = Unet3d(Edition::kV30, 7200);
  const NpzShape first = dataset.ShapeOf(0);
  dataset.files = 3;
  EXPECT_EQ(dataset.ShapeOf(0).dim1, first.dim1);
  EXPECT_EQ(first.dim1, 16593u);
  EXPECT_EQ(first.dim2, 13673u);
  dataset.seed = 11;
  EXPECT_NE(dataset.ShapeOf(0).data_bytes(), first.data_bytes());
}

TEST(Dataset, NoDeviationGivesEqualFilesAndTinyRecordsAtLeastOneElement) {
  Dataset dataset = Unet3d(Edition::kV30, 10);
  dataset.record_bytes = 10'000;
  dataset.record_bytes_stdev = 0;
  EXPECT_EQ(dataset.ShapeOf(3).data_bytes(), 10'000u);
  dataset.record_bytes = 1;
  dataset.record_bytes_stdev = 100;
  for (uint64_t i = 0; i < 100; ++i) EXPECT_GE(dataset.ShapeOf(i).data_bytes(), 1u);
}

/// Mean and deviation of the data bytes of `files` files, as a shipped profile makes them.
std::pair<double, double> SizesOf(const std::string& workload, Edition edition,
                                  const std::string& accelerator, uint64_t files) {
  const Result<Profile> profile = LoadProfile(ProfileDirs(""), workload, edition, accelerator);
  EXPECT_TRUE(profile.ok()) << profile.status().message();
  const Dataset dataset = MakeDataset(*profile, "/data", edition);
  double sum = 0;
  double squares = 0;
  for (uint64_t i = 0; i < files; ++i) {
    const double bytes = static_cast<double>(dataset.ShapeOf(i).data_bytes());
    sum += bytes;
    squares += bytes * bytes;
  }
  const double count = static_cast<double>(files);
  const double mean = sum / count;
  return {mean, std::sqrt(std::max(0.0, squares / count - mean * mean))};
}

TEST(Dataset, SizesOfTheOtherWorkloads) {
  // The public generator's: cosmoflow 2 823 909 +- 50 400; one resnet50 sample 338 x 338; retinanet 568 x
  // 568; one bert sample 17 x 17 doubles.
  const auto [mean, deviation] = SizesOf("cosmoflow", Edition::kV10, "h100", 20'000);
  EXPECT_NEAR(mean, 2'823'909, 0.002 * 2'823'909);
  EXPECT_NEAR(deviation, 50'400, 0.03 * 50'400);
  EXPECT_EQ(SizesOf("resnet50", Edition::kV20, "a100", 5), std::make_pair(1251.0 * 338 * 338, 0.0));
  EXPECT_EQ(SizesOf("retinanet", Edition::kV30, "b200", 5), std::make_pair(568.0 * 568, 0.0));
  EXPECT_EQ(SizesOf("bert", Edition::kV05, "v100", 5), std::make_pair(313'532.0 * 17 * 17 * 8, 0.0));
  const auto [image, spread] = SizesOf("retinanet", Edition::kV30, "h100", 20'000);
  EXPECT_NEAR(image, 153'600, 0.01 * 153'600);
  EXPECT_NEAR(spread, 51'200 / std::sqrt(2.0), 0.03 * 36'200);
}

TEST(Dataset, FilesOfEveryFormatHaveTheirName) {
  for (const auto& [workload, edition, name] :
       {std::tuple{"bert", Edition::kV05, "train/part_7_of_500.tfrecord"},
        {"resnet50", Edition::kV10, "train/img_0007_of_1024.tfrecord"},
        {"retinanet", Edition::kV30, "train/img_0000007_of_1170301.jpeg"},
        {"dlrm", Edition::kV30, "train/img_0007_of_1024.parquet"}}) {
    const Profile profile = *LoadProfile(ProfileDirs(""), workload, edition, "");
    EXPECT_EQ(MakeDataset(profile, "/d", edition).RelativePath(7), name);
  }
}

TEST(Dataset, ParquetFilesHoldTheirColumns) {
  for (const auto& [workload, over] : {std::pair{"flux", 1.0001}, {"dlrm", 1.02}}) {
    const Profile profile = *LoadProfile(ProfileDirs(""), workload, Edition::kV30, "b200");
    const Dataset dataset = MakeDataset(profile, "/d", Edition::kV30);
    const double nominal = profile.record_bytes * static_cast<double>(profile.num_samples_per_file);
    EXPECT_GT(static_cast<double>(dataset.FileBytes(0)), nominal);
    EXPECT_LT(static_cast<double>(dataset.FileBytes(0)), nominal * over);
    EXPECT_EQ(dataset.FileBytes(0), dataset.FileBytes(1));
  }
}

TEST(Dataset, FoldersByEdition) {
  Profile profile;
  profile.workload = "unet3d";
  EXPECT_EQ(DataFolder(profile, "/d", Edition::kV05), "/d");
  EXPECT_EQ(DataFolder(profile, "/d", Edition::kV10), "/d");
  EXPECT_EQ(DataFolder(profile, "/d", Edition::kV20), "/d/unet3d");
  EXPECT_EQ(DataFolder(profile, "/d", Edition::kV30), "/d/unet3d");
  profile.data_folder = "/elsewhere";
  EXPECT_EQ(DataFolder(profile, "/d", Edition::kV30), "/elsewhere");
}

class FindDatasetTest : public ::testing::Test {
 protected:
  FindDatasetTest() {
    dataset_ = Unet3d(Edition::kV30, 20);
    dataset_.folder = dir_.path();
  }
  void Make(const Dataset& dataset, uint64_t count) {
    fs::create_directories(dataset.folder + "/train");
    for (uint64_t i = 0; i < count; ++i) std::ofstream(dataset.Path(i)) << "x";
  }
  const stoker::testing::TempDir dir_;
  Dataset dataset_;
};

TEST_F(FindDatasetTest, AllThere) {
  Make(dataset_, 20);
  EXPECT_TRUE(FindDataset(dataset_, "make").ok());
  EXPECT_EQ(dataset_.files, 20u);
}

TEST_F(FindDatasetTest, MissingFolder) {
  dataset_.folder = dir_ / "nothing";
  const Status status = FindDataset(dataset_, "stoker-bench datagen ...");
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), "no dataset: the folder " + dataset_.folder +
                                  " does not exist; make the dataset with: stoker-bench datagen ...");
}

TEST_F(FindDatasetTest, MissingFileIsNamed) {
  Make(dataset_, 20);
  fs::remove(dataset_.Path(13));
  const Status status = FindDataset(dataset_, "stoker-bench datagen ...");
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), "the dataset is not complete: " + dataset_.Path(13) +
                                  " is missing; make it with: stoker-bench datagen ...");
}

TEST_F(FindDatasetTest, EmptyFolderNamesTheFirstFile) {
  Make(dataset_, 0);
  EXPECT_NE(FindDataset(dataset_, "make").message().find("img_00_of_20.npz is missing"), std::string::npos);
}

TEST_F(FindDatasetTest, FewerFilesThanNeeded) {
  Dataset smaller = dataset_;
  smaller.files = 12;
  Make(smaller, 12);
  const Status status = FindDataset(dataset_, "make");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "the dataset in " + dir_.path() +
                " has 12 files, 20 are needed; use --param dataset.num_files_train=12, or make "
                "more with: make");
}

TEST_F(FindDatasetTest, MoreFilesThanNeededAreFine) {
  Dataset larger = dataset_;
  larger.files = 100;
  Make(larger, 100);
  EXPECT_TRUE(FindDataset(dataset_, "make").ok());
  EXPECT_EQ(dataset_.Path(3), dir_ / "train/img_003_of_100.npz");
}

}  // namespace
}  // namespace stoker::bench
