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

TEST(Profile, DemandOfOneAccelerator) {
  // samples/s, MB/s, MiB/s and MiB per step of one accelerator that never waits; format and AU threshold.
  struct Row {
    const char* workload;
    Edition edition;
    const char* accelerator;
    double samples;
    double mb;
    double mib;
    double mib_per_step;
    Format format;
    double au;
    const char* division;
  };
  const Edition v05 = Edition::kV05, v10 = Edition::kV10, v20 = Edition::kV20, v30 = Edition::kV30;
  for (const Row& row : {
           Row{"unet3d", v05, "v100", 2.940, 431.1, 411.1, 559.2, Format::kNpz, 0.90, "closed"},
           Row{"bert", v05, "v100", 49.59, 0.124, 0.118, 0.11, Format::kTfRecord, 0.90, "closed"},
           Row{"unet3d", v10, "a100", 11.01, 1613.5, 1538.8, 978.7, Format::kNpz, 0.90, "closed"},
           Row{"unet3d", v20, "h100", 21.67, 3177.1, 3029.9, 978.7, Format::kNpz, 0.90, "closed"},
           Row{"unet3d", v30, "b200", 43.21, 6334.6, 6041.1, 978.7, Format::kNpz, 0.90, "closed"},
           Row{"resnet50", v10, "a100", 919.5, 105.4, 100.6, 43.7, Format::kTfRecord, 0.90, "closed"},
           Row{"resnet50", v20, "h100", 1785.7, 204.8, 195.3, 43.7, Format::kTfRecord, 0.90, "closed"},
           Row{"resnet50", v30, "h100", 1785.7, 204.8, 195.3, 43.7, Format::kTfRecord, 0.90, "whatif"},
           Row{"cosmoflow", v30, "v100", 106.8, 302, 288, 2.70, Format::kTfRecord, 0.70, "whatif"},
           Row{"cosmoflow", v10, "a100", 181.5, 513.3, 489.6, 2.70, Format::kTfRecord, 0.70, "closed"},
           Row{"cosmoflow", v20, "h100", 285.7, 808.1, 770.7, 2.70, Format::kTfRecord, 0.70, "closed"},
           Row{"retinanet", v30, "b200", 504.7, 163.0, 155.5, 7.4, Format::kJpeg, 0.85, "closed"},
           Row{"retinanet", v30, "mi355", 504.7, 163.0, 155.5, 9.9, Format::kJpeg, 0.85, "closed"},
           Row{"flux", v30, "b200", 35.6, 77.0, 73.4, 99, Format::kParquet, 0.90, "whatif"},
           Row{"flux", v30, "mi355", 35.6, 77.0, 73.4, 149, Format::kParquet, 0.90, "whatif"},
           Row{"dlrm", v30, "b200", 43.7e6, 33'249, 31'708, 11.9, Format::kParquet, 0.70, "whatif"},
           Row{"dlrm", v30, "mi355", 29.1e6, 22'166, 21'139, 11.9, Format::kParquet, 0.70, "whatif"},
           Row{"retinanet", v30, "h100", 88.9, 13.7, 13.0, 2.3, Format::kJpeg, 0.85, "whatif"},
           Row{"retinanet", v30, "a100", 76.2, 11.7, 11.2, 2.3, Format::kJpeg, 0.85, "whatif"},
           Row{"flux", v30, "h100", 9.41, 2.89, 2.76, 2.34, Format::kJpeg, 0.80, "whatif"},
           Row{"dlrm", v30, "a100", 1.17e6, 599.2, 571.4, 4.0, Format::kNpz, 0.70, "whatif"},
       }) {
    const Result<Profile> profile = LoadProfile(ProfileDirs(""), row.workload, row.edition, row.accelerator);
    ASSERT_TRUE(profile.ok()) << profile.status().message();
    const std::string what = std::string(row.workload) + " " + row.accelerator;
    const double samples = static_cast<double>(profile->batch_size) / profile->computation_time;
    const double bytes = samples * profile->record_bytes;
    EXPECT_NEAR(samples, row.samples, 0.004 * row.samples) << what;
    EXPECT_NEAR(bytes / 1e6, row.mb, 0.004 * row.mb) << what;
    EXPECT_NEAR(bytes / 1048576, row.mib, 0.005 * row.mib) << what;
    EXPECT_NEAR(profile->record_bytes * static_cast<double>(profile->batch_size) / 1048576, row.mib_per_step,
                0.05 * row.mib_per_step)
        << what;
    EXPECT_EQ(profile->format, row.format) << what;
    EXPECT_EQ(profile->au, row.au) << what;
    EXPECT_EQ(profile->division, row.division) << what;
  }
}

TEST(Profile, FiguresOfTheOtherWorkloads) {
  const auto load = [](const char* workload, Edition edition, const char* accelerator) {
    return *LoadProfile(ProfileDirs(""), workload, edition, accelerator);
  };
  const Profile bert = load("bert", Edition::kV05, "v100");
  EXPECT_EQ(bert.num_files_train, 500u);
  EXPECT_EQ(bert.num_samples_per_file, 313'532u);
  EXPECT_EQ(bert.file_prefix, "part");
  EXPECT_EQ(bert.framework, Framework::kTensorFlow);
  EXPECT_EQ(bert.transfer_size, 262'144u);
  EXPECT_EQ(bert.shuffle_size, 1024u);
  EXPECT_EQ(bert.total_training_steps, 1000u);
  EXPECT_EQ(bert.epochs, 1u);
  EXPECT_EQ(bert.read_threads, 1u);
  for (const Edition edition : {Edition::kV10, Edition::kV20, Edition::kV30}) {
    const Profile resnet = load("resnet50", edition, "h100");
    EXPECT_EQ(resnet.num_files_train, 1024u);
    EXPECT_EQ(resnet.num_samples_per_file, 1251u);
    EXPECT_EQ(resnet.record_bytes, 114'660.07);
    EXPECT_EQ(resnet.read_threads, 8u);
    EXPECT_EQ(resnet.computation_threads, 8u);
    EXPECT_EQ(resnet.file_shuffle, Shuffle::kOff);
    const Profile cosmo = load("cosmoflow", edition, "a100");
    EXPECT_EQ(cosmo.num_files_train, 524'288u);
    EXPECT_EQ(cosmo.record_bytes_stdev, 71'311);
    EXPECT_EQ(cosmo.sample_shuffle, Shuffle::kSeed);
    EXPECT_EQ(cosmo.shuffle_size, 2u);
  }
  const Profile retinanet = load("retinanet", Edition::kV30, "mi355");
  EXPECT_EQ(retinanet.num_files_train, 1'170'301u);
  EXPECT_EQ(retinanet.epochs, 8u);
  EXPECT_EQ(retinanet.read_threads, 8u);
  EXPECT_EQ(load("retinanet", Edition::kV30, "h100").num_files_train, 1'743'042u);
  const Profile flux = load("flux", Edition::kV30, "b200");
  EXPECT_EQ(flux.num_files_train, 4296u);
  EXPECT_EQ(flux.num_samples_per_file, 288u);
  EXPECT_EQ(NominalRowBytes(flux.columns), 2'164'832u);
  EXPECT_EQ(load("flux", Edition::kV30, "a100").num_files_train, 1'099'776u);
  EXPECT_TRUE(load("flux", Edition::kV30, "a100").columns.empty());
  const Profile dlrm = load("dlrm", Edition::kV30, "mi355");
  EXPECT_EQ(dlrm.columns.size(), 200u);
  EXPECT_EQ(dlrm.row_group_rows, 6144u);
  uint64_t bytes = 0;
  for (const Column& column : dlrm.columns) bytes += TypeBytes(column.type) * column.size;
  EXPECT_EQ(bytes, 761u);
  EXPECT_EQ(ReadRowBytes(dlrm.columns), 160u);
  EXPECT_EQ(load("dlrm", Edition::kV30, "h100").num_files_train, 65'536u);
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
            "--param: train.computation_time: \"0\" is not a number from 1e-09 up to 3600");
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
  EXPECT_FALSE(ApplyParam(profile, "train.computation_time=1e-300").ok());
  EXPECT_TRUE(profile.overridden.empty());
}

TEST(Params, ADeviationAboveTheRecordIsRefused) {
  Profile profile = *LoadProfile(ProfileDirs(""), "unet3d", Edition::kV30, "");
  ASSERT_TRUE(ApplyParam(profile, "dataset.record_length_bytes=2097152").ok());
  EXPECT_EQ(
      CheckProfile(profile).message(),
      "unet3d v3.0: dataset.record_length_bytes_stdev: 68341808 is more than dataset.record_length_bytes "
      "(2097152); sizes would spread from nothing to many times it: set both");
  ASSERT_TRUE(ApplyParam(profile, "dataset.record_length_bytes_stdev=977000").ok());
  EXPECT_TRUE(CheckProfile(profile).ok());
}

TEST(Params, MoreBytesThanCanBeCountedAreRefused) {
  for (const auto& [length, deviation, ok] :
       {std::tuple{"146600628", "68341808", true}, std::tuple{"1e15", "0", false},
        std::tuple{"1", "1e15", false}}) {
    Profile profile = *LoadProfile(ProfileDirs(""), "unet3d", Edition::kV30, "");
    ASSERT_TRUE(ApplyParam(profile, "dataset.num_files_train=4294967295").ok());
    ASSERT_TRUE(ApplyParam(profile, std::string("dataset.record_length=") + length).ok());
    ASSERT_TRUE(ApplyParam(profile, std::string("dataset.record_length_stdev=") + deviation).ok());
    EXPECT_EQ(CheckProfile(profile).ok(), ok) << CheckProfile(profile).message();
  }
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
