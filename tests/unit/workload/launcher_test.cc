#include "workload/comm/launcher.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

Launch Detect(const std::map<std::string, std::string>& environment) {
  return DetectLaunch([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  });
}

TEST(DetectLaunch, KnowsTheLaunchersByTheirVariables) {
  EXPECT_EQ(Detect({}).by, Launch::By::kNobody);
  const Launch mpich = Detect({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
  EXPECT_EQ(mpich.by, Launch::By::kPmi);
  EXPECT_EQ(mpich.rank, 3u);
  EXPECT_EQ(mpich.size, 4u);
  const Launch openmpi =
      Detect({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "1"}});
  EXPECT_EQ(openmpi.by, Launch::By::kOpenMpi);
  EXPECT_EQ(openmpi.size, 2u);
  const Launch pmix = Detect({{"PMIX_RANK", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_ID", "0"}});
  EXPECT_EQ(pmix.by, Launch::By::kOpenMpi);
  EXPECT_EQ(pmix.rank, 5u);
  EXPECT_EQ(pmix.size, 8u);
  EXPECT_EQ(Detect({{"PMIX_RANK", "5"}}).size, 0u);  // not told
}

TEST(DetectLaunch, OneProcessIsNobodysBusiness) {
  EXPECT_EQ(Detect({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).by, Launch::By::kNobody);
  EXPECT_EQ(Detect({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}).by, Launch::By::kNobody);
  // A batch script of a job of four tasks, not under srun.
  EXPECT_EQ(Detect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).by, Launch::By::kNobody);
}

TEST(OpenCommunicator, SrunWithoutMpiIsAnErrorAndNotManyRuns) {
  const Launch launch =
      Detect({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}});
  EXPECT_EQ(launch.by, Launch::By::kSrun);
  const auto opened = OpenCommunicator(MpiChoice::kAuto, launch, {});
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find("number 2 of 4"), std::string::npos);
  EXPECT_NE(opened.status().message().find("srun --mpi=pmi2"), std::string::npos);
}

TEST(OpenCommunicator, AMissingModuleIsAnErrorThatNamesThePackage) {
  const stoker::testing::TempDir dir;
  const Launch mpich = Detect({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}});
  const auto opened = OpenCommunicator(MpiChoice::kAuto, mpich, {dir.path()});
  ASSERT_FALSE(opened.ok());
  for (const std::string word :
       {"number 0 of 4", "stoker_mpi_mpich.so", "libmpich-dev", "libmpich12", "--mpi off"}) {
    EXPECT_NE(opened.status().message().find(word), std::string::npos) << opened.status().message();
  }
  EXPECT_NE(opened.status().message().find(dir.path()), std::string::npos);
  const auto other = OpenCommunicator(MpiChoice::kOpenMpi, mpich, {dir.path()});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("libopenmpi-dev"), std::string::npos) << other.status().message();
}

TEST(OpenCommunicator, AModuleThatCannotBeLoadedIsAnErrorWithTheLoadersWords) {
  const stoker::testing::TempDir dir;
  std::ofstream(dir.path() + "/stoker_mpi_openmpi.so") << "no library";
  const auto opened = OpenCommunicator(MpiChoice::kAuto, {Launch::By::kOpenMpi, 1, 2}, {dir.path()});
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find("cannot be loaded"), std::string::npos);
  EXPECT_NE(opened.status().message().find("libopenmpi3"), std::string::npos) << opened.status().message();
}

TEST(OpenCommunicator, OffAndNobodyAreAlone) {
  const auto off = OpenCommunicator(MpiChoice::kOff, {Launch::By::kPmi, 1, 4}, {});
  ASSERT_TRUE(off.ok());
  EXPECT_EQ((*off)->size(), 1u);
  EXPECT_TRUE(OpenCommunicator(MpiChoice::kMpich, {}, {}).ok());
}

TEST(ParseMpiChoice, RefusesWhatIsNone) {
  EXPECT_TRUE(ParseMpiChoice("--mpi", "openmpi").ok());
  const auto wrong = ParseMpiChoice("--mpi", "openmp");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("openmpi"), std::string::npos);
}

}  // namespace
}  // namespace stoker::bench
