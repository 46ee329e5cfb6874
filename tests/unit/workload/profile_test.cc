#include "workload/base/profile.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

Result<Profile> Shipped(Edition edition, const std::string& accelerator) {
  return LoadProfile(ProfileDirs(""), "unet3d", edition, accelerator);
}

TEST(Profile, Unet3dFigures) {
  struct Row {
    Edition edition;
    const char* accelerator;
    uint64_t files;
    uint64_t batch;
    uint64_t prefetch;
    double seconds;
    const char* division;
  };
  for (const Row& row : {Row{Edition::kV05, "v100", 168, 4, 0, 1.3604, "closed"},
                         Row{Edition::kV10, "a100", 168, 7, 2, 0.636, "closed"},
                         Row{Edition::kV10, "h100", 168, 7, 2, 0.323, "closed"},
                         Row{Edition::kV20, "a100", 168, 7, 2, 0.636, "closed"},
                         Row{Edition::kV20, "h100", 168, 7, 2, 0.323, "closed"},
                         Row{Edition::kV30, "b200", 7200, 7, 2, 0.162, "closed"},
                         Row{Edition::kV30, "h100", 7200, 7, 2, 0.323, "whatif"},
                         Row{Edition::kV30, "a100", 7200, 7, 2, 0.636, "whatif"}}) {
    const Result<Profile> profile = Shipped(row.edition, row.accelerator);
    ASSERT_TRUE(profile.ok()) << profile.status().message();
    EXPECT_EQ(profile->num_files_train, row.files);
    EXPECT_EQ(profile->batch_size, row.batch);
    EXPECT_EQ(profile->prefetch_size, row.prefetch);
    EXPECT_EQ(profile->computation_time, row.seconds);
    EXPECT_EQ(profile->division, row.division);
    EXPECT_EQ(profile->record_bytes, 146'600'628);
    EXPECT_EQ(profile->record_bytes_stdev, 68'341'808);
    EXPECT_EQ(profile->read_threads, 4u);
    EXPECT_EQ(profile->epochs, 5u);
    EXPECT_EQ(profile->au, 0.90);
    EXPECT_EQ(profile->format, Format::kNpz);
  }
}

TEST(Profile, EachEditionHasADefaultAccelerator) {
  EXPECT_EQ(Shipped(Edition::kV05, "")->accelerator, "v100");
  EXPECT_EQ(Shipped(Edition::kV10, "")->accelerator, "h100");
  EXPECT_EQ(Shipped(Edition::kV30, "")->accelerator, "b200");
}

TEST(Profile, WrongNamesListWhatThereIs) {
  EXPECT_EQ(Shipped(Edition::kV30, "v100").status().message(),
            "--accelerator: \"v100\" is not one of a100, b200, h100; did you mean \"a100\"? (unet3d under "
            "v3.0); it is "
            "under --mlperf v0.5");
  EXPECT_EQ(Shipped(Edition::kV05, "tpu").status().message(),
            "--accelerator: \"tpu\" is not one of v100 (unet3d under v0.5)");
  EXPECT_EQ(LoadProfile(ProfileDirs(""), "unet", Edition::kV30, "").status().message(),
            "--workload: \"unet\" is not one of bert, cosmoflow, dlrm, flux, resnet50, retinanet, unet3d; "
            "did you mean \"unet3d\"?");
  EXPECT_EQ(LoadProfile({"/nowhere"}, "unet3d", Edition::kV30, "").status().message(),
            "no workload profiles in /nowhere; give their folder with --profiles-dir");
  EXPECT_FALSE(LoadProfile(ProfileDirs(""), "../workloads/unet3d", Edition::kV30, "").ok());
}

class OwnProfile : public ::testing::Test {
 protected:
  Result<Profile> Load(const std::string& yaml, Edition edition = Edition::kV30) {
    std::ofstream(dir_ / "mine.yaml", std::ios::trunc) << yaml;
    return LoadProfile({dir_.path()}, "mine", edition, "");
  }
  const stoker::testing::TempDir dir_;
};

constexpr char kGood[] =
    "dataset: {format: npz, num_files_train: 10, record_length_bytes: 1000}\n"
    "editions:\n"
    "  v3.0:\n"
    "    default_accelerator: x1\n"
    "    accelerators: {x1: {train: {computation_time: 0.5}}}\n";

TEST_F(OwnProfile, IsFound) {
  const Result<Profile> profile = Load(kGood);
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_EQ(profile->computation_time, 0.5);
  EXPECT_EQ(profile->division, "whatif");
}

TEST_F(OwnProfile, ColumnsAsAListOrAsText) {
  const std::string rest =
      "editions: {v3.0: {default_accelerator: x, accelerators: {x: {train: {computation_time: 1}}}}}\n";
  const Result<Profile> list = Load(
      "framework: tensorflow\n"
      "dataset:\n"
      "  format: parquet\n"
      "  num_files_train: 1\n"
      "  parquet:\n"
      "    row_group_size: 64\n"
      "    columns:\n"
      "      - {name: a, dtype: float64, size: 3}\n"
      "      - {name: b, dtype: int8, read: false}\n"
      "      - {name: c}\n" +
      rest);
  ASSERT_TRUE(list.ok()) << list.status().message();
  const std::vector<Column> wanted = {
      {"a", DataType::kFloat64, 3}, {"b", DataType::kInt8, 1, false}, {"c", DataType::kFloat32}};
  EXPECT_EQ(list->columns, wanted);
  EXPECT_EQ(list->row_group_rows, 64u);
  EXPECT_EQ(list->record_bytes, 3 * 8 + 4 + 4);
  EXPECT_EQ(list->framework, Framework::kTensorFlow);
  const Result<Profile> text = Load(
      "dataset: {format: parquet, num_files_train: 1, parquet: {columns: \"a:float64*3 b:int8:skip "
      "c:float32\"}}\n" +
      rest);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(text->columns, wanted);
  const std::string start = "dataset: {format: parquet, num_files_train: 1, parquet: {columns: ";
  EXPECT_NE(Load(start + "[{name: a, type: int8}]}}\n" + rest).status().message().find("key: \"type\""),
            std::string::npos);
  EXPECT_FALSE(Load(start + "[a, b]}}\n" + rest).ok());
}

TEST_F(OwnProfile, AJpegFileHoldsOneSample) {
  EXPECT_NE(
      Load("dataset: {format: jpeg, num_files_train: 1, record_length_bytes: 9, num_samples_per_file: 2}\n"
           "editions: {v3.0: {default_accelerator: x, accelerators: {x: {train: {computation_time: 1}}}}}\n")
          .status()
          .message()
          .find("a jpeg file holds one sample, not 2"),
      std::string::npos);
}

TEST_F(OwnProfile, MistakesNameFileAndKey) {
  const std::string file = dir_ / "mine.yaml";
  EXPECT_EQ(Load("dataset: {num_file_train: 3}\neditions: {v3.0: {}}").status().message(),
            file + ": unknown key \"dataset.num_file_train\"; did you mean \"dataset.num_files_train\"?");
  EXPECT_EQ(Load("datset: {}\neditions: {v3.0: {}}").status().message(),
            file +
                ": key: \"datset\" is not one of dataset, metric, reader, train, framework, editions, "
                "workload; did "
                "you mean "
                "\"dataset\"?");
  EXPECT_EQ(Load("dataset: {num_files_train: 0}\neditions: {v3.0: {}}").status().message(),
            file + ": dataset.num_files_train: \"0\" is not a whole number from 1 to 4294967295");
  EXPECT_EQ(Load("dataset: 3\neditions: {v3.0: {}}").status().message(),
            file + ": dataset: a map of keys is expected here");
  EXPECT_EQ(Load(kGood, Edition::kV05).status().message(),
            "--mlperf: mine is not part of v0.5; it is in v3.0");
  EXPECT_EQ(Load("editions: {v3.0: {accelerators: {x1: {}}, default_accelerator: x1}}").status().message(),
            "mine v3.0: dataset.format is missing");
  EXPECT_FALSE(Load("a: [").ok());
  EXPECT_FALSE(Load("just text").ok());
  EXPECT_FALSE(Load("").ok());
  EXPECT_FALSE(Load("? [a]\n: b\neditions: {v3.0: {}}").ok());
}

TEST(Params, BothSpellingsOfARenamedKey) {
  Profile profile;
  EXPECT_TRUE(ApplyParam(profile, "dataset.record_length=1000").ok());
  EXPECT_EQ(profile.record_bytes, 1000);
  EXPECT_TRUE(ApplyParam(profile, "dataset.record_length_bytes=114660.07").ok());
  EXPECT_EQ(profile.record_bytes, 114660.07);
  EXPECT_TRUE(ApplyParam(profile, "dataset.record_length_stdev=5").ok());
  EXPECT_EQ(profile.record_bytes_stdev, 5);
  EXPECT_EQ(profile.overridden.size(), 3u);
}

TEST(Params, MistakesAreRefused) {
  Profile profile;
  EXPECT_EQ(ApplyParam(profile, "reader.read_thread=4").message(),
            "--param: unknown key \"reader.read_thread\"; did you mean \"reader.read_threads\"?");
  EXPECT_EQ(ApplyParam(profile, "reader.read_threads=0").message(),
            "--param: reader.read_threads: \"0\" is not a whole number from 1 to 1024");
  EXPECT_EQ(ApplyParam(profile, "train.epochs=-1").message(),
            "--param: train.epochs: \"-1\" is not a whole number from 1 to 1000000");
  EXPECT_EQ(ApplyParam(profile, "train.computation_time=0").message(),
            "--param: train.computation_time: \"0\" is not a number above 0 up to 3600");
  EXPECT_EQ(ApplyParam(profile, "metric.au=90").message(),
            "--param: metric.au: \"90\" is not a number from 0 up to 1");
  EXPECT_EQ(ApplyParam(profile, "dataset.format=hdf5").message(),
            "--param: dataset.format: \"hdf5\" is not one of npz, tfrecord, jpeg, parquet");
  EXPECT_EQ(ApplyParam(profile, "reader.odirect=maybe").message(),
            "--param: reader.odirect: \"maybe\" is neither true nor false");
  EXPECT_EQ(ApplyParam(profile, "train.epochs").message(),
            "--param: \"train.epochs\" is not of the form key=value");
  EXPECT_FALSE(ApplyParam(profile, "dataset.file_prefix=a/b").ok());
  EXPECT_FALSE(ApplyParam(profile, "train.computation_time=nan").ok());
  EXPECT_TRUE(profile.overridden.empty());
}

TEST(Params, ColumnsGiveTheRecordLengthWhenThereIsNone) {
  Profile profile;
  EXPECT_TRUE(ApplyParam(profile, "dataset.parquet.columns=a:float32*10, b:int64, c:uint8:skip").ok());
  EXPECT_EQ(profile.record_bytes, 4 * 10 + 8 + 1);
  EXPECT_TRUE(ApplyParam(profile, "dataset.parquet.columns=a:float16").ok());
  EXPECT_EQ(profile.record_bytes, 4);  // as the public tool counts
  EXPECT_TRUE(ApplyParam(profile, "dataset.record_length_bytes=2").ok());
  EXPECT_TRUE(ApplyParam(profile, "dataset.parquet.columns=a:int64").ok());
  EXPECT_EQ(profile.record_bytes, 2);
}

TEST(Params, FrameworkHasTwoSpellings) {
  Profile profile;
  EXPECT_TRUE(ApplyParam(profile, "reader.data_loader=tensorflow").ok());
  EXPECT_EQ(profile.framework, Framework::kTensorFlow);
  EXPECT_TRUE(ApplyParam(profile, "framework=pytorch").ok());
  EXPECT_EQ(profile.framework, Framework::kPyTorch);
  EXPECT_EQ(ApplyParam(profile, "reader.file_shuffle=yes").message(),
            "--param: reader.file_shuffle: \"yes\" is not one of off, seed, random");
}

TEST(Params, EffectiveValuesReadBackForEveryProfile) {
  const Result<std::vector<ProfileKey>> keys = ListProfiles(ProfileDirs(""));
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  EXPECT_GE(keys->size(), 25u);
  for (const ProfileKey& key : *keys) {
    const Result<Profile> profile = LoadProfile(ProfileDirs(""), key.workload, key.edition, key.accelerator);
    ASSERT_TRUE(profile.ok()) << profile.status().message();
    Profile copy;
    for (const auto& [name, value] : EffectiveParams(*profile)) {
      if (value.empty()) continue;
      EXPECT_TRUE(SetParam(copy, name, value).ok()) << name;
    }
    EXPECT_EQ(EffectiveParams(copy), EffectiveParams(*profile));
  }
}

TEST(Params, EffectiveValuesReadBack) {
  Profile profile = *Shipped(Edition::kV30, "");
  Profile copy;
  for (const auto& [key, value] : EffectiveParams(profile)) {
    if (value.empty()) continue;
    EXPECT_TRUE(SetParam(copy, key, value).ok()) << key;
  }
  EXPECT_EQ(EffectiveParams(copy), EffectiveParams(profile));
}

}  // namespace
}  // namespace stoker::bench
