#include "workload/report/results.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Command MakeCommand(Edition edition) {
  Command command;
  command.rules = RulesOf(edition);
  command.profile = *LoadProfile(ProfileDirs(""), "unet3d", edition, "");
  command.profile.epochs = 1;
  command.accelerators = 2;
  command.results_dir = "/r";
  return command;
}

RunRecord MakeRecord(Edition edition) {
  RunRecord record;
  record.command = MakeCommand(edition);
  record.host.hostname = "node1";
  record.host.cpus = 4;
  record.host.memory_bytes = 64ull << 30;
  record.metric.metric = edition;
  record.metric.batch_size = 7;
  record.metric.record_bytes = 146'600'628;
  EpochLog epoch;
  epoch.unix_start = 1'700'000'000.25;
  epoch.unix_end = 1'700'000'010.5;
  for (int r = 0; r < 2; ++r) {
    RankEpoch rank;
    double now = 0;
    for (int i = 0; i < 4; ++i) {
      StepTimes step;
      step.load_end = now + 0.01;
      step.compute_end = step.load_end + 0.3;
      step.barrier_end = now = step.compute_end;
      rank.steps.push_back(step);
    }
    rank.block_end = rank.loader_end = now;
    epoch.ranks.push_back(rank);
  }
  epoch.complete = true;
  record.log.epochs = {epoch};
  record.log.epochs_planned = 1;
  record.log.reads.bytes = 1'000'000;
  record.log.reads.files = 56;
  record.steps = 4;
  record.figures = ComputeRun(record.metric, record.log.epochs);
  record.harness = ComputeHarness(record.log);
  return record;
}

TEST(Results, FolderByEdition) {
  const std::time_t now = 1'700'000'000;
  EXPECT_EQ(ResultsFolder(MakeCommand(Edition::kV05), "node1", now), "/r");
  EXPECT_EQ(ResultsFolder(MakeCommand(Edition::kV10), "node1", now), "/r");
  const std::string v2 = ResultsFolder(MakeCommand(Edition::kV20), "node1", now);
  EXPECT_EQ(v2.substr(0, v2.rfind('/')), "/r/training/unet3d/run");
  EXPECT_EQ(v2.size() - v2.rfind('/'), 1u + 15);
  Command command = MakeCommand(Edition::kV30);
  std::string v3 = ResultsFolder(command, "node1", now);
  EXPECT_EQ(v3.substr(0, v3.rfind('/')), "/r/closed/local/results/node1/training/unet3d/run");
  command.org = "acme";
  command.system = "box";
  command.null_storage = true;
  v3 = ResultsFolder(command, "node1", now);
  EXPECT_EQ(v3.substr(0, v3.rfind('/')), "/r/whatif/acme/results/box/training/unet3d/run");
}

TEST(Results, Division) {
  Command command = MakeCommand(Edition::kV30);
  command.profile.overridden = {"dataset.num_files_train=8000", "reader.read_threads=24"};
  EXPECT_EQ(DivisionOf(command), "closed");
  command.profile.overridden.push_back("train.computation_time=1");
  EXPECT_EQ(DivisionOf(command), "open");
  command = MakeCommand(Edition::kV30);
  command.rule_overrides = {"--order"};
  EXPECT_EQ(DivisionOf(command), "open");
  command.profile.division = "whatif";
  EXPECT_EQ(DivisionOf(command), "whatif");
}

TEST(Results, PublicFieldsByEdition) {
  const std::vector<std::string> always = {"start",
                                           "end",
                                           "num_accelerators",
                                           "hostname",
                                           "metric",
                                           "num_files_train",
                                           "num_files_eval",
                                           "num_samples_per_file",
                                           "epochs",
                                           "stoker"};
  const std::vector<std::string> later = {"num_hosts",         "host_cpu_count",       "host_processor_name",
                                          "host_cpuinfo",      "host_meminfo",         "host_memory_GB",
                                          "potential_caching", "data_size_per_host_GB"};
  for (const Edition edition : AllEditions()) {
    const json summary = json::parse(SummaryJson(MakeRecord(edition)));
    for (const std::string& key : always) EXPECT_TRUE(summary.contains(key)) << key;
    for (const std::string& key : later) EXPECT_EQ(summary.contains(key), edition != Edition::kV05) << key;
    EXPECT_EQ(summary.contains("model"), edition == Edition::kV05);
    const json& metric = summary["metric"];
    for (const char* key :
         {"train_au_percentage", "train_au_mean_percentage", "train_au_meet_expectation",
          "train_au_stdev_percentage", "train_throughput_samples_per_second",
          "train_throughput_mean_samples_per_second", "train_throughput_stdev_samples_per_second",
          "train_io_mean_MB_per_second", "train_io_stdev_MB_per_second"}) {
      EXPECT_TRUE(metric.contains(key)) << key;
    }
    EXPECT_EQ(metric.size(), 9u);
    EXPECT_EQ(metric["train_au_percentage"].size(), 1u);
  }
}

TEST(Results, SummaryValues) {
  const json summary = json::parse(SummaryJson(MakeRecord(Edition::kV30)));
  EXPECT_EQ(summary["num_accelerators"], 2);
  EXPECT_EQ(summary["metric"]["train_au_meet_expectation"], "success");
  EXPECT_NEAR(
      summary["metric"]["train_io_mean_MB_per_second"].get<double>(),
      summary["metric"]["train_throughput_mean_samples_per_second"].get<double>() * 146'600'628 / 1048576,
      1e-6);
  EXPECT_EQ(summary["potential_caching"], json::array({0}));
  EXPECT_NEAR(summary["data_size_per_host_GB"].get<double>(), 7200 * 146'600'628.0 / (1 << 30), 1e-6);
  EXPECT_EQ(summary["start"].get<std::string>().size(), std::string("2023-11-14T22:13:20.250000").size());
  EXPECT_EQ(summary["stoker"]["status"], "complete");
  EXPECT_EQ(summary["stoker"]["true_bytes"], 1'000'000);
  EXPECT_EQ(summary["stoker"]["partial"], false);
  const json& epoch = summary["stoker"]["epochs"][0];
  EXPECT_EQ(epoch["unix_start"], 1'700'000'000.25);
  EXPECT_EQ(epoch["au_percent_per_accelerator"].size(), 2u);
  EXPECT_EQ(epoch["au_percent"], summary["metric"]["train_au_percentage"][0]);
  EXPECT_EQ(summary["stoker"]["parameters"]["reader.batch_size"], "7");
}

TEST(Results, ConfigurationIsYamlWhateverTheValues) {
  RunRecord record = MakeRecord(Edition::kV30);
  record.command.profile.data_folder = "/a: #b\n- 'c\"";
  const testing::TempDir dir;
  const Result<std::unique_ptr<ResultsDir>> results = ResultsDir::Reserve(dir / "r");
  ASSERT_TRUE(results.ok());
  ASSERT_TRUE(WriteResults(**results, record).ok());
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(dir / "r")) {
    if (entry.path().filename() != "config.yaml") continue;
    std::ifstream in(entry.path());
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_NE(text.find("\nframework: pytorch\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  data_folder: \"/a: #b\\n- 'c\\\"\"\n"), std::string::npos) << text;
}

TEST(Results, WhatIsNotWholeHasMetNothing) {
  RunRecord record = MakeRecord(Edition::kV30);
  record.log.epochs_planned = 2;
  json summary = json::parse(SummaryJson(record));
  EXPECT_EQ(summary["metric"]["train_au_meet_expectation"], "fail");
  EXPECT_EQ(summary["stoker"]["status"], "interrupted");
  EXPECT_EQ(summary["stoker"]["partial"], true);
  record = MakeRecord(Edition::kV30);
  record.log.reads.errors = 1;
  record.log.reads.first_error = "f: open: No such file or directory";
  summary = json::parse(SummaryJson(record));
  EXPECT_EQ(summary["metric"]["train_au_meet_expectation"], "fail");
  EXPECT_EQ(summary["stoker"]["valid"], false);
  EXPECT_EQ(summary["stoker"]["status"], "failed");
  EXPECT_EQ(summary["stoker"]["first_read_error"], "f: open: No such file or directory");
}

TEST(Results, NamesThatAreNotUtf8DoNotBreakTheFile) {
  RunRecord record = MakeRecord(Edition::kV30);
  record.log.reads.errors = 1;
  record.log.reads.first_error = "bad\xff name";
  EXPECT_TRUE(json::accept(SummaryJson(record)));
}

TEST(Results, FilesByEdition) {
  for (const Edition edition : AllEditions()) {
    const testing::TempDir dir;
    auto results = ResultsDir::Reserve(dir / "run");
    ASSERT_TRUE(results.ok());
    const Result<std::string> path = WriteResults(**results, MakeRecord(edition));
    ASSERT_TRUE(path.ok());
    EXPECT_EQ(*path, dir / "run/summary.json");
    const bool newer = edition == Edition::kV20 || edition == Edition::kV30;
    EXPECT_EQ(fs::exists(dir / "run/per_epoch_stats.json"), !newer);
    EXPECT_EQ(fs::exists(dir / "run/1_per_epoch_stats.json"), newer);
    EXPECT_TRUE(fs::exists(dir / (newer ? "run/dlio_config/overrides.yaml" : "run/configs/overrides.yaml")));
    std::ifstream in(dir / "run/1_output.json");
    const json output = json::parse(in);
    EXPECT_EQ(output["1"]["load"]["block1"].size(), 4u);
    EXPECT_FALSE(fs::exists(dir / "run/timeseries.json"));  // nothing was recorded
    std::ifstream overrides(dir / (newer ? "run/dlio_config/overrides.yaml" : "run/configs/overrides.yaml"));
    std::string line;
    std::getline(overrides, line);
    EXPECT_EQ(line, "- workload=unet3d_" + MakeCommand(edition).profile.accelerator);
    results->reset();
    EXPECT_FALSE(fs::exists(dir / "run/.run-in-progress"));
  }
}

TEST(ResultsDir, AnExistingRunIsNotOverwritten) {
  const testing::TempDir dir;
  std::ofstream(dir / "summary.json") << "{}";
  const auto results = ResultsDir::Reserve(dir.path());
  EXPECT_EQ(results.status().code(), Code::kAlreadyExists);
  EXPECT_EQ(results.status().message(),
            dir.path() + " already holds a run (summary.json); give another --results-dir");
  EXPECT_FALSE(fs::exists(dir / ".run-in-progress"));
}

TEST(ResultsDir, TwoRunsInOneFolder) {
  const testing::TempDir dir;
  const auto first = ResultsDir::Reserve(dir.path());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(ResultsDir::Reserve(dir.path()).status().message(),
            "another run is writing to " + dir.path() + "; give another --results-dir");
}

TEST(ResultsDir, AFolderThatCannotBeMade) {
  const testing::TempDir dir;
  std::ofstream(dir / "file") << "x";
  EXPECT_EQ(
      ResultsDir::Reserve(dir / "file/run").status().message(),
      "cannot write results to " + dir.path() + "/file/run: Not a directory; give a writable --results-dir");
}

}  // namespace
}  // namespace stoker::bench
