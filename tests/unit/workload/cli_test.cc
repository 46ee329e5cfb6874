#include "workload/cli/cli.h"

#include <gmock/gmock.h>

#include "workload/cli/verb_datagen.h"
#include "workload/cli/verb_datasize.h"
#include "workload/cli/verb_run.h"
#include "workload/data/dataset.h"

namespace stoker::bench {
namespace {

Result<Invocation> Invoke(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "stoker-bench");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}
Result<Command> Parse(const std::vector<const char*>& arguments) {
  ASSIGN_OR_RETURN(const Invocation invocation, Invoke(arguments));
  const Verb* const verb = invocation.verb.get();
  if (const auto* datasize = dynamic_cast<const DatasizeVerb*>(verb)) return datasize->command();
  if (const auto* datagen = dynamic_cast<const DatagenVerb*>(verb)) return datagen->command();
  if (const auto* run = dynamic_cast<const RunVerb*>(verb)) return run->command();
  return Status(Code::kInternal, "no such verb in this test");
}
std::string Error(const std::vector<const char*>& arguments) {
  const Result<Invocation> invocation = Invoke(arguments);
  EXPECT_FALSE(invocation.ok());
  return invocation.ok() ? "" : invocation.status().message();
}

TEST(Cli, EditionChoosesEverything) {
  const Result<Command> old = Parse({"run", "--mlperf", "v0.5", "--data-dir", "d", "--results-dir", "r"});
  ASSERT_TRUE(old.ok()) << old.status().message();
  EXPECT_EQ(old->rules.order, AccessOrder::kV1);
  EXPECT_EQ(old->rules.read_shape, ReadShape::kNpz);
  EXPECT_TRUE(old->rules.read_labels);
  EXPECT_EQ(old->rules.metric, Edition::kV05);
  EXPECT_EQ(old->rules.results_layout, ResultsLayout::kFlat);
  EXPECT_EQ(old->rules.cache_control, CacheControl::kNone);
  EXPECT_EQ(old->profile.accelerator, "v100");
  const Result<Command> now = Parse({"run", "--data-dir", "d", "--results-dir", "r"});
  EXPECT_EQ(now->rules.order, AccessOrder::kV3);
  EXPECT_EQ(now->rules.read_shape, ReadShape::kWhole);
  EXPECT_EQ(now->rules.metric, Edition::kV30);
  EXPECT_EQ(now->rules.results_layout, ResultsLayout::kV3);
  EXPECT_EQ(now->rules.cache_control, CacheControl::kFadvise);
  EXPECT_EQ(now->seed, 123u);
  const Result<Command> second = Parse({"run", "--mlperf", "v2.0", "--data-dir", "d", "--results-dir", "r"});
  EXPECT_EQ(second->rules.order, AccessOrder::kV2);
  EXPECT_EQ(second->rules.results_layout, ResultsLayout::kV2);
}

TEST(Cli, EachPartCanBeOverridden) {
  const Result<Command> run = Parse(
      {"run",  "--data-dir", "d",    "--results-dir",    "r",    "--order",         "v2",   "--read-shape",
       "npz",  "--metric",   "v1.0", "--results-layout", "flat", "--cache-control", "none", "--file-layout",
       "v0.5", "--seed",     "7",    "--read-piece",     "4MiB", "--step-timeout",  "30s"});
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(run->rules.order, AccessOrder::kV2);
  EXPECT_EQ(run->rules.read_shape, ReadShape::kNpz);
  EXPECT_EQ(run->rules.metric, Edition::kV10);
  EXPECT_EQ(run->rules.results_layout, ResultsLayout::kFlat);
  EXPECT_EQ(run->rules.cache_control, CacheControl::kNone);
  EXPECT_EQ(run->rules.file_layout, Edition::kV05);
  EXPECT_EQ(run->seed, 7u);
  EXPECT_EQ(run->read_piece_bytes, 4u << 20);
  EXPECT_EQ(run->step_timeout, std::chrono::seconds(30));
  EXPECT_EQ(Parse({"datasize", "--host-memory-in-gb", "32", "--datasize-formula", "v0.5"})->rules.datasize,
            Edition::kV05);
  EXPECT_EQ(Parse({"run", "--data-dir", "d", "--results-dir", "r", "--param", "reader.odirect=true"})
                ->rules.read_shape,
            ReadShape::kODirect);
}

TEST(Cli, PublicFlagNames) {
  const Result<Command> size =
      Parse({"datasize", "--workload", "unet3d", "--accelerator-type", "h100", "--num-accelerators", "24",
             "--client-host-memory-in-gb", "256", "--num-client-hosts", "4", "--mlperf", "v1.0"});
  ASSERT_TRUE(size.ok()) << size.status().message();
  EXPECT_EQ(size->accelerators, 24u);
  EXPECT_EQ(size->host_memory_gb, 256);
  EXPECT_EQ(size->client_hosts, 4u);
  const Result<Command> gen =
      Parse({"datagen", "--data-dir", "d", "--num-parallel", "8", "--param", "dataset.num_files_train=1600",
             "--param", "dataset.num_subfolders_train=4"});
  ASSERT_TRUE(gen.ok()) << gen.status().message();
  EXPECT_EQ(gen->writers, 8u);
  EXPECT_EQ(gen->seed, 10u);
  EXPECT_EQ(gen->profile.num_files_train, 1600u);
  EXPECT_EQ(gen->profile.num_subfolders_train, 4u);
}

TEST(Cli, DataFolderParamReplacesDataDir) {
  const Result<Command> gen = Parse({"datagen", "--param", "dataset.data_folder=/x/y"});
  ASSERT_TRUE(gen.ok()) << gen.status().message();
  EXPECT_EQ(DataFolder(gen->profile, gen->data_dir, gen->rules.file_layout), "/x/y");
}

TEST(Cli, HelpAndVersion) {
  EXPECT_EQ(Invoke({})->verb, nullptr);
  EXPECT_NE(Invoke({"--help"})->text.find("datasize"), std::string::npos);
  const std::string help = Invoke({"run", "--help"})->text;
  EXPECT_NE(help.find("--num-accelerators"), std::string::npos);
  EXPECT_NE(help.find("3 the answer is no"), std::string::npos);
  EXPECT_NE(Invoke({"--version"})->text.find("stoker-bench"), std::string::npos);
}

TEST(Cli, WrongUsage) {
  EXPECT_THAT(Error({"rnu"}),
              ::testing::StartsWith("command: \"rnu\" is not one of profiles, datasize, datagen, run"));
  EXPECT_THAT(Error({"rnu"}), ::testing::EndsWith("; did you mean \"run\"?"));
  EXPECT_EQ(Error({"run", "--num-acelerators", "3"}),
            "run: unknown flag --num-acelerators; did you mean --num-accelerators?");
  EXPECT_EQ(Error({"datagen", "--data-dir", "d", "more"}), "unexpected argument \"more\"");
  EXPECT_EQ(Error({"run", "--results-dir", "r"}), "--data-dir is missing: the folder of the dataset");
  EXPECT_EQ(Error({"run", "--data-dir", "d"}),
            "--results-dir is missing: the folder that receives summary.json");
  EXPECT_EQ(Error({"datasize"}),
            "--host-memory-in-gb is missing: the dataset must be larger than the memory of the hosts");
  EXPECT_EQ(Error({"run", "--mlperf", "v1.5"}),
            "--mlperf: \"v1.5\" is not one of v0.5, v1.0, v2.0, v3.0; did you mean \"v0.5\"?");
  EXPECT_EQ(Error({"run", "--num-accelerators", "0"}),
            "--num-accelerators: \"0\" is not a whole number from 1 to 100000");
  EXPECT_EQ(Error({"run", "--num-accelerators", "-2"}),
            "--num-accelerators: \"-2\" is not a whole number from 1 to 100000");
  EXPECT_EQ(Error({"datasize", "--host-memory-in-gb", "0"}),
            "--host-memory-in-gb: \"0\" is not a number above 0 up to 1000000");
  EXPECT_EQ(Error({"datasize", "--host-memory-in-gb", "1e30"}),
            "--host-memory-in-gb: \"1e30\" is not a number above 0 up to 1000000");
  EXPECT_EQ(Error({"datagen", "--data-dir", "d", "--num-parallel", "0"}),
            "--num-parallel: \"0\" is not a whole number from 1 to 1024");
  EXPECT_EQ(Error({"run", "--order", "v4"}),
            "--order: \"v4\" is not one of v1, v2, v3; did you mean \"v1\"?");
  EXPECT_EQ(Error({"run", "--read-shape", "hole"}),
            "--read-shape: \"hole\" is not one of npz, whole, odirect; did you mean \"whole\"?");
  EXPECT_EQ(Error({"run", "--read-piece", "5000B"}),
            "--read-piece: \"5000B\" is not a multiple of 4KiB from 4KiB to 1GiB");
  EXPECT_EQ(Error({"run", "--step-timeout", "1ms"}), "--step-timeout: \"1ms\" is not from 1s to 1d");
  EXPECT_EQ(Error({"run", "--data-dir", "d", "--results-dir", "r", "--org", "a/b"}),
            "--org, --system: \"a/b\" is not the name of a folder");
  EXPECT_NE(Error({"run", "--read-piece", "3"}).find("--read-piece: "), std::string::npos);
}

TEST(Cli, AnEmptyValueIsNotADefault) {
  for (const char* flag : {"--num-accelerators", "--seed", "--mlperf", "--param", "--data-dir",
                           "--results-dir", "--profiles-dir", "--order", "--probe", "--org"}) {
    EXPECT_EQ(Error({"run", "--null", "--results-dir", "r", flag, ""}).substr(0, std::string(flag).size()),
              flag);
  }
  EXPECT_EQ(Error({"datasize", "--host-memory-in-gb", "32", "--num-client-hosts", ""}),
            "--num-client-hosts: the value is empty; give one, or leave the flag out");
  EXPECT_EQ(Error({"report", ""}), "--results-dir: the value is empty; give one, or leave the flag out");
}

TEST(Cli, AFlagTwiceOrWithAValueItDoesNotTake) {
  EXPECT_EQ(Error({"run", "--seed", "1", "--null", "--results-dir", "r", "--seed=2"}),
            "--seed: is given more than once; give it once");
  // The second name of the same flag.
  EXPECT_EQ(Error({"datasize", "--host-memory-in-gb", "32", "--client-host-memory-in-gb", "64"}),
            "--client-host-memory-in-gb: is given more than once; give it once");
  for (const char* word : {"--self-test=3", "--self-test=true", "--null=x", "--null=false"}) {
    const std::string flag = std::string(word).substr(0, std::string(word).find('='));
    EXPECT_EQ(Error({"run", "--results-dir", "r", "--data-dir", "d", word}),
              flag + ": takes no value, but was given \"" + std::string(word).substr(flag.size() + 1) +
                  "\"; write " + flag + " alone, or leave it out");
  }
  EXPECT_TRUE(Invoke({"run", "--null", "--results-dir", "r", "--param", "train.epochs=1", "--param",
                      "reader.batch_size=2"})
                  .ok());
  EXPECT_TRUE(Invoke({"report", "--results-dir", "a", "--results-dir", "b"}).ok());
}

TEST(Cli, AFolderOfProfilesMustExist) {
  const std::string message = "--profiles-dir: /none is not a folder; give the folder of WORKLOAD.yaml files";
  EXPECT_EQ(Error({"datasize", "--host-memory-in-gb", "32", "--profiles-dir", "/none"}), message);
  EXPECT_EQ(Error({"profiles", "--profiles-dir", "/none"}), message);
  EXPECT_EQ(Error({"report", "r", "--profiles-dir", "/none"}), message);
}

}  // namespace
}  // namespace stoker::bench
