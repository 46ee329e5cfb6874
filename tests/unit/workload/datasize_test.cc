#include "workload/data/datasize.h"

#include <gtest/gtest.h>

#include "cache/base/units.h"

namespace stoker::bench {
namespace {

DatasizeInput Unet3d(Edition formula, uint64_t accelerators, double memory_gb, uint64_t hosts = 1) {
  DatasizeInput input;
  input.formula = formula;
  input.accelerators = accelerators;
  input.host_memory_gb = memory_gb;
  input.client_hosts = hosts;
  input.record_bytes = 146'600'628;
  input.batch_size = formula == Edition::kV05 ? 4 : 7;
  input.computation_time = formula == Edition::kV05 ? 1.3604 : formula == Edition::kV30 ? 0.162 : 0.323;
  input.epochs = 5;
  return input;
}

TEST(Datasize, V05FourAccelerators) {
  const Datasize size = ComputeDatasize(Unet3d(Edition::kV05, 4, 32));
  EXPECT_EQ(size.samples_by_steps, 1600u);
  EXPECT_EQ(size.samples_by_memory, 1171u);
  EXPECT_EQ(size.files, 1600u);
  EXPECT_NEAR(size.gigabytes, 218.45, 0.005);
  EXPECT_NEAR(size.minutes, 11.3, 0.05);
}

TEST(Datasize, V05OneAcceleratorIsDecidedByMemory) {
  const Datasize size = ComputeDatasize(Unet3d(Edition::kV05, 1, 35));
  EXPECT_EQ(size.samples_by_steps, 400u);
  EXPECT_EQ(size.files, 1281u);
  EXPECT_NEAR(size.gigabytes, 174.9, 0.05);
}

TEST(Datasize, V05SizesOneHostWhateverTheirNumber) {
  EXPECT_EQ(ComputeDatasize(Unet3d(Edition::kV05, 1, 35, 4)).files, 1281u);
}

TEST(Datasize, V10FourAccelerators) {
  const Datasize size = ComputeDatasize(Unet3d(Edition::kV10, 4, 32));
  EXPECT_EQ(size.samples_by_steps, 14'000u);
  EXPECT_EQ(size.samples_by_memory, 1171u);
  EXPECT_EQ(size.files, 14'000u);
  EXPECT_NEAR(size.gigabytes, 1911, 0.5);
}

TEST(Datasize, V10EightAccelerators) {
  const Datasize size = ComputeDatasize(Unet3d(Edition::kV10, 8, 128));
  EXPECT_EQ(size.samples_by_memory, 4687u);
  EXPECT_EQ(size.files, 28'000u);
  EXPECT_NEAR(size.gigabytes, 3822, 1);
}

TEST(Datasize, V10FourHosts) {
  const Datasize size = ComputeDatasize(Unet3d(Edition::kV10, 24, 256, 4));
  EXPECT_EQ(size.samples_by_steps, 84'000u);
  EXPECT_EQ(size.samples_by_memory, 37'500u);
  EXPECT_EQ(size.files, 84'000u);
  EXPECT_NEAR(size.gigabytes, 11'468, 1);
}

TEST(Datasize, V10ManySamplesAFile) {
  DatasizeInput input;
  input.formula = Edition::kV10;
  input.accelerators = 8;
  input.host_memory_gb = 128;
  input.record_bytes = 114'660.07;
  input.samples_per_file = 1251;
  input.batch_size = 400;
  const Datasize size = ComputeDatasize(input);
  EXPECT_EQ(size.samples_by_steps, 1'600'000u);
  EXPECT_NEAR(static_cast<double>(size.samples_by_memory), 5.99e6, 0.005e6);
  EXPECT_EQ(size.files, 4790u);
  EXPECT_NEAR(size.gigabytes, 640, 1);
}

TEST(Datasize, V20RoundsDownAndV30Up) {
  // 5 x 32 GiB hold 1171.9 records.
  EXPECT_EQ(ComputeDatasize(Unet3d(Edition::kV20, 1, 1024)).files, 37'500u);
  EXPECT_EQ(ComputeDatasize(Unet3d(Edition::kV30, 1, 1024)).files, 37'501u);
}

TEST(Datasize, V20SuggestsSubfoldersAboveTenThousandFiles) {
  EXPECT_EQ(ComputeDatasize(Unet3d(Edition::kV20, 24, 256, 4)).subfolders, 8u);
  EXPECT_EQ(ComputeDatasize(Unet3d(Edition::kV20, 1, 32)).subfolders, 0u);
  EXPECT_EQ(ComputeDatasize(Unet3d(Edition::kV10, 24, 256, 4)).subfolders, 0u);
}

TEST(Datasize, V30OneB200) {
  const Datasize size = ComputeDatasize(Unet3d(Edition::kV30, 1, 184.86));
  EXPECT_EQ(size.samples_by_steps, 3500u);
  EXPECT_EQ(size.files, 6770u);
  EXPECT_NEAR(size.gigabytes, 924, 0.5);
}

TEST(Datasize, V30EightHosts) {
  const Datasize size = ComputeDatasize(Unet3d(Edition::kV30, 8, 184.86, 8));
  EXPECT_EQ(size.samples_by_steps, 28'000u);
  EXPECT_EQ(size.files, 54'159u);
  EXPECT_NEAR(size.gigabytes, 7394, 0.5);
}

TEST(Datasize, V30RetinanetSizedRecords) {
  for (const auto& [accelerators, by_steps] : {std::pair<uint64_t, uint64_t>{8, 96'000}, {32, 384'000}}) {
    DatasizeInput input;
    input.formula = Edition::kV30;
    input.accelerators = accelerators;
    input.host_memory_gb = 371.85;
    input.record_bytes = 322'957;
    input.batch_size = 24;
    const Datasize size = ComputeDatasize(input);
    EXPECT_EQ(size.samples_by_steps, by_steps);
    EXPECT_EQ(size.files, 6'181'487u);
    EXPECT_NEAR(size.gigabytes, 1859, 0.5);
  }
}

TEST(Datasize, V30SeventyHosts) {
  const Datasize size = ComputeDatasize(Unet3d(Edition::kV30, 70, 755.8, 70));
  EXPECT_EQ(size.samples_by_steps, 245'000u);
  EXPECT_NEAR(static_cast<double>(size.files), 1.94e6, 0.005e6);
}

TEST(Datasize, V30TakesTheLargerOfDeclaredAndMeasuredMemory) {
  DatasizeInput input = Unet3d(Edition::kV30, 1, 32);
  input.measured_memory_gb = 184.86;
  EXPECT_EQ(ComputeDatasize(input).files, 6770u);
  input.formula = Edition::kV20;
  EXPECT_EQ(ComputeDatasize(input).files, 3500u);
}

/// Input for a shipped profile, as the verb makes it.
DatasizeInput Shipped(const std::string& workload, Edition formula, uint64_t accelerators, double memory_gb) {
  const Result<Profile> profile = LoadProfile(ProfileDirs(""), workload, formula, "");
  EXPECT_TRUE(profile.ok()) << profile.status().message();
  return MakeDatasizeInput(*profile, formula, accelerators, memory_gb);
}

TEST(Datasize, ProfilesGiveTheWorkedExamples) {
  EXPECT_EQ(ComputeDatasize(Shipped("unet3d", Edition::kV05, 4, 32)).files, 1600u);
  EXPECT_EQ(ComputeDatasize(Shipped("unet3d", Edition::kV10, 8, 128)).files, 28'000u);
  const Datasize resnet = ComputeDatasize(Shipped("resnet50", Edition::kV10, 8, 128));
  EXPECT_EQ(resnet.samples_by_steps, 1'600'000u);
  EXPECT_EQ(resnet.files, 4790u);
  EXPECT_NEAR(resnet.gigabytes, 640, 1);
  for (const auto& [accelerators, by_steps] : {std::pair<uint64_t, uint64_t>{8, 96'000}, {32, 384'000}}) {
    const Datasize retinanet = ComputeDatasize(Shipped("retinanet", Edition::kV30, accelerators, 371.85));
    EXPECT_EQ(retinanet.samples_by_steps, by_steps);
    EXPECT_EQ(retinanet.files, 6'181'487u);
    EXPECT_NEAR(retinanet.gigabytes, 1859, 0.5);
    EXPECT_EQ(retinanet.subfolders, 618u);
  }
}

TEST(Datasize, V05BertNeedsItsStepsInTheWholeRun) {
  // total_training_steps takes the place of the 100 steps: 1000 x 48 x 128 samples fit in 20 files; 5 x 256
  // GB of memory hold 550 M records.
  const Datasize size = ComputeDatasize(Shipped("bert", Edition::kV05, 128, 256));
  EXPECT_EQ(size.samples_by_steps, 6'144'000u);
  EXPECT_EQ(size.samples_by_memory, 549'755'813u);
  EXPECT_EQ(size.files, 1753u);
  const Datasize small = ComputeDatasize(Shipped("bert", Edition::kV05, 128, 1));
  EXPECT_EQ(small.files, 6'144'000u / 313'532);
}

TEST(Datasize, V30ParquetCountsWholeFiles) {
  // 5 x 32 GiB / (288 x 2 164 832) = 275.6 files; 500 x 48 / 288 = 83.3 files for one accelerator.
  const Datasize flux = ComputeDatasize(Shipped("flux", Edition::kV30, 1, 32));
  EXPECT_EQ(flux.samples_by_steps, 24'000u);
  EXPECT_EQ(flux.files, 276u);
  EXPECT_EQ(ComputeDatasize(Shipped("flux", Edition::kV30, 1, 1)).files, 84u);
}

TEST(Datasize, V30ParquetRecordIsTheSumOfItsColumns) {
  Profile profile = *LoadProfile(ProfileDirs(""), "flux", Edition::kV30, "b200");
  profile.record_bytes = 0;
  EXPECT_TRUE(
      ApplyParam(profile, "dataset.parquet.columns=a:float64*100, b:int64, c:uint8*50, d:float16*10").ok());
  const DatasizeInput input = MakeDatasizeInput(profile, Edition::kV30, 1, 32);
  EXPECT_EQ(input.record_bytes, 800 + 8 + 50 + 40);  // what is no 1 or 8 bytes counts 4
  EXPECT_EQ(ComputeDatasize(input).files, CeilDiv(uint64_t{5} * 32 << 30, 288 * 898));
}

TEST(Datasize, FewerSamplesThanOneFileHoldsNeedAFile) {
  DatasizeInput input = Unet3d(Edition::kV05, 1, 0.1);
  input.record_bytes = 2500;
  input.samples_per_file = 313'532;
  EXPECT_EQ(ComputeDatasize(input).files, 1u);
}

TEST(Datasize, WhatCannotBeCountedIsRefused) {
  EXPECT_TRUE(CheckDatasize(ComputeDatasize(Unet3d(Edition::kV30, 100'000, 1e3, 1000))).ok());
  DatasizeInput many = Unet3d(Edition::kV05, 100'000, 1);
  many.steps = UINT32_MAX;
  many.batch_size = 1'000'000;  // the product has 69 bits
  many.samples_per_file = 313'532;
  EXPECT_EQ(CheckDatasize(ComputeDatasize(many)).code(), Code::kInvalidArgument);
  DatasizeInput small = Unet3d(Edition::kV30, 1, 1e6);
  small.record_bytes = 1;
  const Status status = CheckDatasize(ComputeDatasize(small));
  EXPECT_NE(status.message().find("4294967295"), std::string::npos) << status.message();
}

TEST(Datasize, TextHasTheLinesPeoplePaste) {
  Profile profile;
  profile.workload = "unet3d";
  profile.accelerator = "v100";
  const DatasizeInput input = Unet3d(Edition::kV05, 4, 32);
  const std::string text = DatasizeText(input, ComputeDatasize(input), profile);
  EXPECT_NE(text.find("1600 files, 218 GB"), std::string::npos) << text;
  EXPECT_NE(text.find("11 minutes"), std::string::npos) << text;
  EXPECT_NE(text.find("--param dataset.num_files_train=1600\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace stoker::bench
