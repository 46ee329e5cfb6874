#include "workload/report/submission.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "workload/base/console.h"
#include "workload/base/profile.h"
#include "workload/report/report_files.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The fields that every edition's summaries share.
json Summary(double samples, double mib, double au, uint64_t accelerators, uint64_t files) {
  return json{{"start", "2023-08-04T11:53:46.926486"},
              {"end", "2023-08-04T12:27:10.490651"},
              {"num_accelerators", accelerators},
              {"hostname", "h1"},
              {"metric",
               {{"train_au_percentage", {au}},
                {"train_au_mean_percentage", au},
                {"train_au_meet_expectation", au >= 90 ? "success" : "fail"},
                {"train_au_stdev_percentage", 0},
                {"train_throughput_samples_per_second", {samples}},
                {"train_throughput_mean_samples_per_second", samples},
                {"train_throughput_stdev_samples_per_second", 0},
                {"train_io_mean_MB_per_second", mib},
                {"train_io_stdev_MB_per_second", 0}}},
              {"num_files_train", files},
              {"num_files_eval", 0},
              {"num_samples_per_file", 1},
              {"epochs", 5}};
}

class SubmissionTest : public ::testing::Test {
 protected:
  /// A run's folder with its summary and overrides.
  void Put(const std::string& folder, const json& summary, const std::string& overrides = "") {
    fs::create_directories(dir_ / (folder + "/configs"));
    std::ofstream(dir_ / (folder + "/summary.json")) << summary.dump(4);
    if (!overrides.empty()) std::ofstream(dir_ / (folder + "/configs/overrides.yaml")) << overrides;
  }
  void PutV05(const std::string& folder, double samples, double mib, double au = 99,
              uint64_t accelerators = 1, const std::string& host = "h1",
              const std::string& start = "2023-08-04T11:53:46.926486") {
    json summary = Summary(samples, mib, au, accelerators, 1171);
    summary["model"] = "unet3d";
    summary["hostname"] = host;
    summary["start"] = start;
    Put(folder, summary);
  }
  void PutV10(const std::string& folder, double samples, double mib, const std::string& overrides = "") {
    json summary = Summary(samples, mib, 90.7, 3, 28000);
    summary["num_hosts"] = 3;
    summary["host_memory_GB"] = {125.4, 125.4, 125.4};
    summary["potential_caching"] = {0, 0, 0};
    Put(folder, summary, "- workload=unet3d_h100\n- ++workload.dataset.num_files_train=28000\n" + overrides);
  }
  std::vector<Submission> Read(std::optional<Edition> edition = std::nullopt, const std::string& below = "") {
    const std::string folder = below.empty() ? dir_.path() : dir_ / below;
    Result<std::vector<RunSummary>> runs = FindRuns(folder);
    if (!runs.ok()) {
      ADD_FAILURE() << runs.status().message();
      return {};
    }
    return Combine({{folder, *runs}}, edition, ProfileDirs(""));
  }
  static bool Has(const Submission& group, Severity severity, const std::string& rule,
                  const std::string& part = "") {
    for (const Finding& finding : group.findings) {
      if (finding.severity == severity && finding.rule == rule &&
          finding.text.find(part) != std::string::npos) {
        return true;
      }
    }
    return false;
  }
  static std::string All(const Submission& group) { return ReportText({group}); }
  const stoker::testing::TempDir dir_;
};

// Published with v0.5: ANL, polaris-lustre, unet3d, one accelerator on one host.
TEST_F(SubmissionTest, ThePublishedV05ReportFieldForField) {
  const std::vector<std::pair<double, double>> runs = {{2.916286259032672, 407.72380542942085},
                                                       {2.9194676550192886, 408.16859402801043},
                                                       {2.920009002024805, 408.24427934884045},
                                                       {2.920177060705363, 408.2677755075458},
                                                       {2.918659131858261, 408.055555008274}};
  for (size_t i = 0; i < runs.size(); ++i) {
    PutV05("run" + std::to_string(i) + "/h1", runs[i].first, runs[i].second);
  }
  const std::vector<Submission> groups = Read();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_TRUE(PublicReportAllowed(groups[0])) << All(groups[0]);
  EXPECT_EQ(groups[0].result, ResultClass::kClosed) << All(groups[0]);
  const nlohmann::ordered_json report = nlohmann::ordered_json::parse(PublicReportJson(groups[0]));
  const nlohmann::ordered_json& overall = report["overall"];
  std::vector<std::string> names;
  for (const auto& [key, value] : overall.items()) names.push_back(key);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "model", "num_client_hosts", "num_benchmark_runs", "train_num_accelerators",
                       "num_files_train", "num_samples_per_file", "train_throughput_mean_samples_per_second",
                       "train_throughput_stdev_samples_per_second", "train_throughput_mean_MB_per_second",
                       "train_throughput_stdev_MB_per_second"}));
  EXPECT_EQ(overall["model"], "unet3d");
  EXPECT_EQ(overall["num_client_hosts"], 1);
  EXPECT_EQ(overall["num_benchmark_runs"], 5);
  EXPECT_EQ(overall["train_num_accelerators"], "1");
  EXPECT_EQ(overall["num_files_train"], 1171);
  EXPECT_EQ(overall["num_samples_per_file"], 1);
  EXPECT_NEAR(overall["train_throughput_mean_samples_per_second"].get<double>(), 2.918919821728078, 1e-13);
  EXPECT_NEAR(overall["train_throughput_stdev_samples_per_second"].get<double>(), 0.001419203759761144,
              1e-13);
  EXPECT_NEAR(overall["train_throughput_mean_MB_per_second"].get<double>(), 408.09200186441836, 1e-11);
  EXPECT_NEAR(overall["train_throughput_stdev_MB_per_second"].get<double>(), 0.1984178184899831, 1e-11);
  ASSERT_EQ(report["runs"].size(), 5u);
  const nlohmann::ordered_json expected = {{"train_throughput_samples_per_second", 2.920177060705363},
                                           {"train_throughput_MB_per_second", 408.2677755075458},
                                           {"train_num_accelerators", "1"},
                                           {"model", "unet3d"},
                                           {"num_files_train", 1171},
                                           {"num_samples_per_file", 1}};
  EXPECT_EQ(report["runs"]["run3"], expected);
}

// Published with v1.0: HPE, Cray C500, unet3d, three H100 on three hosts.
TEST_F(SubmissionTest, ThePublishedV10ReportFieldForField) {
  const std::vector<std::pair<double, double>> runs = {{58.56862936440517, 8188.436361237563},
                                                       {58.46810121073751, 8174.38159509819},
                                                       {58.594472585634506, 8192.04948271065},
                                                       {58.76967311192593, 8216.54413753801},
                                                       {58.66328210338979, 8201.669690034965}};
  for (size_t i = 0; i < runs.size(); ++i) {
    PutV10("run-" + std::to_string(i + 1), runs[i].first, runs[i].second);
  }
  const std::vector<Submission> groups = Read();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].edition, Edition::kV10);
  EXPECT_TRUE(PublicReportAllowed(groups[0])) << All(groups[0]);
  const nlohmann::ordered_json report = nlohmann::ordered_json::parse(PublicReportJson(groups[0]));
  const nlohmann::ordered_json& overall = report["overall"];
  std::vector<std::string> names;
  for (const auto& [key, value] : overall.items()) names.push_back(key);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "model", "accelerator", "num_benchmark_runs", "train_num_accelerators",
                       "num_files_train", "num_samples_per_file", "train_throughput_mean_samples_per_second",
                       "train_throughput_stdev_samples_per_second", "train_throughput_mean_MB_per_second",
                       "train_throughput_stdev_MB_per_second"}));
  EXPECT_EQ(overall["accelerator"], "h100");
  EXPECT_EQ(overall["train_num_accelerators"], "3");
  EXPECT_NEAR(overall["train_throughput_mean_samples_per_second"].get<double>(), 58.61283167521858, 1e-12);
  EXPECT_NEAR(overall["train_throughput_stdev_samples_per_second"].get<double>(), 0.10038156182446369, 1e-12);
  EXPECT_NEAR(overall["train_throughput_mean_MB_per_second"].get<double>(), 8194.616253323875, 1e-9);
  EXPECT_NEAR(overall["train_throughput_stdev_MB_per_second"].get<double>(), 14.034271243178667, 1e-9);
  EXPECT_EQ(report["runs"]["run-2"]["accelerator"], "h100");
  // 28 000 files are 500 steps of 7 on 8 accelerators; 5 times 376 GiB of memory are 13 768 files.
  EXPECT_EQ(groups[0].result, ResultClass::kClosed) << All(groups[0]);
}

TEST_F(SubmissionTest, V05AddsItsHostsUp) {
  for (int run = 1; run <= 5; ++run) {
    for (int host = 1; host <= 3; ++host) {
      PutV05(Text("run-%g", run) + Text("/host-%g", host), 2.9 * host, 400.0 * host, 99 - host, 4,
             Text("h%g", host));
    }
  }
  const std::vector<Submission> groups = Read();
  ASSERT_EQ(groups.size(), 1u);
  ASSERT_EQ(groups[0].runs.size(), 5u);
  const json report = json::parse(PublicReportJson(groups[0]));
  EXPECT_EQ(report["overall"]["num_client_hosts"], 3);
  EXPECT_EQ(report["overall"]["train_num_accelerators"], "12");
  EXPECT_NEAR(report["runs"]["run-1"]["train_throughput_samples_per_second"].get<double>(), 2.9 * 6, 1e-9);
  EXPECT_NEAR(report["overall"]["train_throughput_mean_MB_per_second"].get<double>(), 2400, 1e-9);
  EXPECT_NEAR(report["overall"]["train_throughput_stdev_MB_per_second"].get<double>(), 0, 1e-9);
  EXPECT_DOUBLE_EQ(groups[0].runs[0].au_percent, 96);  // the lowest host's
  // 4 accelerators x 4 x 100 steps
  EXPECT_TRUE(Has(groups[0], Severity::kInvalid, "dataset size", "1171 files, but at least 1600"))
      << All(groups[0]);
}

TEST_F(SubmissionTest, V05ChecksItsHosts) {
  for (int run = 1; run <= 5; ++run) {
    PutV05(Text("run-%g/a", run), 2.9, 400, 99, 1, "a", "2023-08-04T11:53:46.000000");
    PutV05(Text("run-%g/b", run), 2.9, 400, run == 2 ? 89.9 : 99, 1, run == 4 ? "a" : "b",
           run == 3 ? "2023-08-04T11:53:56.500000" : "2023-08-04T11:53:55.900000");
  }
  PutV05("run-5/c", 2.9, 400, 99, 1, "c", "2023-08-04T11:53:46.000000");
  const Submission group = Read().at(0);
  EXPECT_TRUE(Has(group, Severity::kInvalid, "AU threshold", "mean AU is 89.90 %")) << All(group);
  EXPECT_TRUE(Has(group, Severity::kInvalid, "hosts", "began 10.5 s apart")) << All(group);
  EXPECT_TRUE(Has(group, Severity::kNote, "hosts", "two summaries are of the host a")) << All(group);
  EXPECT_TRUE(Has(group, Severity::kInvalid, "equal runs", "the number of client hosts differs"))
      << All(group);
  EXPECT_TRUE(
      Has(group, Severity::kInvalid, "equal runs", "the number of accelerators differs between runs: 2, 3"));
  EXPECT_FALSE(PublicReportAllowed(group));
  EXPECT_EQ(group.result, ResultClass::kInvalid);
}

TEST_F(SubmissionTest, NumberOfRunsAndFolders) {
  for (int run = 1; run <= 4; ++run) PutV05(Text("run-%g", run), 2.9, 400);
  const Submission group = Read().at(0);
  EXPECT_TRUE(Has(group, Severity::kInvalid, "number of runs", "4 runs, but v0.5 calls for 5 runs"))
      << All(group);
  EXPECT_TRUE(Has(group, Severity::kInvalid, "folders", "v0.5 expects RESULTS/RUN/HOST/summary.json"));
}

TEST_F(SubmissionTest, OneRunThatWasNamedItself) {
  PutV05("run-1/h1", 2.9, 400);
  const Submission group = Read(std::nullopt, "run-1/h1").at(0);
  EXPECT_EQ(group.runs.size(), 1u);
  EXPECT_TRUE(Has(group, Severity::kInvalid, "number of runs", "1 run, but"));
}

TEST_F(SubmissionTest, OverridesDecideTheDivision) {
  const auto result = [this](const std::string& overrides) {
    for (int run = 1; run <= 5; ++run) PutV10(Text("run-%g", run), 58.5, 8190, overrides);
    return Read().at(0);
  };
  EXPECT_EQ(result("- ++workload.reader.read_threads=16\n- ++workload.workflow.train=True\n").result,
            ResultClass::kClosed);
  EXPECT_EQ(result("- ++workload.reader.prefetch_size=2\n").result, ResultClass::kClosed);
  const Submission deep = result("- ++workload.reader.prefetch_size=3\n");
  EXPECT_EQ(deep.result, ResultClass::kOpen) << All(deep);
  EXPECT_TRUE(Has(deep, Severity::kOpen, "parameters", "reader.prefetch_size=3: CLOSED allows at most 2"));
  EXPECT_EQ(result("- ++workload.framework=pytorch\n").result, ResultClass::kOpen);
  const Submission changed = result("- ++workload.train.computation_time=1.0\n");
  EXPECT_EQ(changed.result, ResultClass::kInvalid);
  EXPECT_TRUE(Has(changed, Severity::kInvalid, "parameters",
                  "train.computation_time=1.0 may be changed in neither division of v1.0"));
  EXPECT_EQ(changed.findings.front().where, "all runs");  // said once, not five times
}

TEST_F(SubmissionTest, RoundsOfFoldersWithTimes) {
  const auto put = [this](const std::string& root, int runs) {
    for (int run = 0; run < runs; ++run) {
      json summary = Summary(319 + run, 44703 + run, 92, 8, 55500);
      summary["num_hosts"] = 8;
      summary["host_memory_GB"] = std::vector<double>(8, 184.86);
      const std::string folder = root + "/training/unet3d/run/20260901_12000" + std::to_string(run);
      Put(folder, summary);
      fs::create_directories(dir_ / (folder + "/dlio_config"));
      std::ofstream(dir_ / (folder + "/dlio_config/overrides.yaml"))
          << "- workload=unet3d_" << (root.find("results") == std::string::npos ? "h100" : "b200")
          << "\n- ++workload.dataset.num_files_train=55500\n";
    }
  };
  put("two", 5);
  put("closed/acme/results/box", 6);
  const std::vector<Submission> groups = Read();
  ASSERT_EQ(groups.size(), 2u);
  const Submission& v30 = groups[0];
  EXPECT_EQ(v30.edition, Edition::kV30);
  EXPECT_EQ(v30.accelerator, "b200");
  EXPECT_EQ(v30.counted, 5u);
  EXPECT_TRUE(v30.runs[0].warm_up);
  EXPECT_DOUBLE_EQ(v30.samples_mean, 322);  // of runs 1…5
  EXPECT_EQ(v30.result, ResultClass::kClosed) << All(v30);
  const Submission& v20 = groups[1];
  EXPECT_EQ(v20.edition, Edition::kV20);
  EXPECT_EQ(v20.counted, 5u);
  EXPECT_FALSE(v20.runs[0].warm_up);
  EXPECT_EQ(v20.result, ResultClass::kClosed) << All(v20);
  const json list = json::parse(ResultsJson(groups));
  EXPECT_EQ(list.size(), 11u);
  EXPECT_EQ(list[0]["warm_up"], true);
  EXPECT_EQ(list[3]["metrics"]["train_throughput_mean_samples_per_second"], 322);
  EXPECT_EQ(list[3]["override_parameters"]["dataset.num_files_train"], "55500");
}

TEST_F(SubmissionTest, PairsOutsideTheClosedListAreWhatIf) {
  for (int run = 0; run < 6; ++run) {
    json summary = Summary(20, 3000, 95, 1, 28000);
    const std::string folder = "whatif/a/results/b/training/unet3d/run/20260901_12000" + std::to_string(run);
    Put(folder, summary, "- workload=unet3d_h100\n- ++workload.train.epochs=2\n");
  }
  const Submission group = Read().at(0);
  EXPECT_EQ(group.result, ResultClass::kWhatIf) << All(group);
}

TEST_F(SubmissionTest, WhatIsNoSummaryIsNamed) {
  EXPECT_EQ(FindRuns(dir_ / "none").status().code(), Code::kNotFound);
  EXPECT_NE(FindRuns(dir_.path()).status().message().find("holds no run"), std::string::npos);
  PutV05("run-1/h1", 2.9, 400);
  json summary = Summary(1, 1, 99, 1, 1);
  summary["metric"].erase("train_au_mean_percentage");
  Put("run-2/h1", summary);
  const Status status = FindRuns(dir_.path()).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("run-2/h1/summary.json"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("train_au_mean_percentage"), std::string::npos) << status.message();
}

TEST_F(SubmissionTest, CountsThatAreNoneAreRefused) {
  for (const json& count : {json(-3), json(0), json(1e300)}) {
    json summary = Summary(1, 1, 99, 1, 1);
    summary["num_accelerators"] = count;
    Put("run-1", summary);
    EXPECT_EQ(FindRuns(dir_.path()).status().code(), Code::kCorruption) << count;
  }
}

TEST_F(SubmissionTest, DeepNestingIsRefused) {
  std::string text = Summary(1, 1, 99, 1, 1).dump();
  text.insert(text.find("\"metric\":{") + 10,
              "\"x\":" + std::string(200'000, '[') + std::string(200'000, ']') + ",");
  std::filesystem::create_directories(dir_ / "run-1");
  std::ofstream(dir_ / "run-1/summary.json") << text;
  const Status status = FindRuns(dir_.path()).status();
  EXPECT_NE(status.message().find("nested too deeply"), std::string::npos) << status.message();
}

TEST_F(SubmissionTest, ALinkThatLeadsNowhereIsNamed) {
  std::filesystem::create_symlink("summary.json", dir_ / "summary.json");
  const Status status = FindRuns(dir_.path()).status();
  EXPECT_NE(status.message().find("summary.json"), std::string::npos) << status.message();
}

TEST_F(SubmissionTest, CsvIsQuoted) {
  json summary = Summary(58.5, 8190, 95, 3, 28000);
  summary["hostname"] = "=cmd(\"x\"),\n2";
  Put("run-1", summary, "- workload=unet3d_h100\n");
  const std::string csv = ResultsCsv(Read());
  EXPECT_NE(csv.find(",\"'=cmd(\"\"x\"\"),\n2\","), std::string::npos) << csv;
  EXPECT_EQ(csv.substr(0, 7), "run_id,");
}

}  // namespace
}  // namespace stoker::bench
