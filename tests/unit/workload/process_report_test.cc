#include "workload/run/process_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stoker::bench {
namespace {

ProcessReport Report(const std::string& host) {
  ProcessReport out;
  out.version = "1.2.0";
  out.hostname = host;
  out.parameters = {{"--workload", "unet3d"}, {"--param reader.batch_size", "7"}};
  out.fstype = "fuse.stoker";
  out.data_folder = "/mnt/data/unet3d";
  out.dataset_files = 100;
  out.first_file_bytes = 5000;
  return out;
}

/// The only fault, or a sentence that says there is another number.
std::string Only(const std::vector<std::string>& sentences) {
  return sentences.size() == 1 ? sentences[0] : std::to_string(sentences.size()) + " sentences";
}

TEST(ProcessReport, TravelsWhole) {
  ProcessReport report = Report("node 1");
  report.problem = "no \"data\"\n";
  const auto back = DecodeReport(EncodeReport(report));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->version, report.version);
  EXPECT_EQ(back->hostname, report.hostname);
  EXPECT_EQ(back->problem, report.problem);
  EXPECT_EQ(back->parameters, report.parameters);
  EXPECT_EQ(back->fstype, report.fstype);
  EXPECT_EQ(back->data_folder, report.data_folder);
  EXPECT_EQ(back->dataset_files, report.dataset_files);
  EXPECT_EQ(back->first_file_bytes, report.first_file_bytes);
  EXPECT_EQ(DecodeReport("{}").status().code(), Code::kCorruption);
  EXPECT_EQ(DecodeReport("\x01\x02").status().code(), Code::kCorruption);
}

TEST(ProcessReport, SharedParametersDifferWhenTheCommandDoes) {
  Command command;
  const auto one = SharedParameters(command);
  command.data_dir = "/elsewhere";
  command.results_dir = "/other";
  EXPECT_EQ(SharedParameters(command), one);
  command.rules.order = AccessOrder::kV1;
  EXPECT_NE(SharedParameters(command), one);
  command.rules.order = AccessOrder::kV3;
  command.profile.batch_size = 99;
  EXPECT_NE(SharedParameters(command), one);
}

TEST(ProcessCrew, GroupsByHostInTheOrderOfTheFirstProcesses) {
  const ProcessCrew crew = CrewOf({Report("b"), Report("a"), Report("b"), Report("a")});
  EXPECT_EQ(crew.hosts, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(crew.host_of, (std::vector<uint64_t>{0, 1, 0, 1}));
  EXPECT_EQ(crew.processes_on, (std::vector<uint64_t>{2, 2}));
  const std::vector<std::string> names = ProcessNames(crew, 8);
  EXPECT_EQ(names[1], "process 1 on host a (ranks 2-3)");
  EXPECT_EQ(ProcessNames(crew, 4)[3], "process 3 on host a (rank 3)");
}

TEST(CheckCrew, FindsNothingWhereNothingIsWrong) {
  const Findings findings = CheckCrew({Report("a"), Report("a"), Report("b"), Report("b")}, 8, false);
  EXPECT_TRUE(findings.faults.empty()) << findings.faults[0];
  EXPECT_TRUE(findings.warnings.empty());
}

TEST(CheckCrew, NamesOtherVersions) {
  std::vector<ProcessReport> reports = {Report("a"), Report("b"), Report("c")};
  reports[1].version = reports[2].version = "1.1.9";
  EXPECT_EQ(
      Only(CheckCrew(reports, 3, false).faults),
      "process 1 on host b, process 2 on host c runs stoker-bench 1.1.9, but process 0 on host a 1.2.0; "
      "install the same version on every host");
}

TEST(CheckCrew, NamesOtherParameters) {
  std::vector<ProcessReport> reports = {Report("a"), Report("b")};
  reports[1].parameters[1].second = "4";
  EXPECT_EQ(
      Only(CheckCrew(reports, 2, false).faults),
      "--param reader.batch_size is \"4\" on process 1 on host b, but \"7\" on process 0 on host a; give "
      "every process the same command line");
}

TEST(CheckCrew, RefusesSharesThatAreNotEven) {
  const std::string uneven = Only(CheckCrew({Report("a"), Report("b"), Report("c")}, 8, false).faults);
  EXPECT_EQ(uneven,
            "--num-accelerators: 8 (the total) over 3 processes is not even; use 6 or 9, or another number "
            "of processes");
  const std::string few = Only(CheckCrew({Report("a"), Report("b"), Report("c")}, 2, false).faults);
  EXPECT_NE(few.find("use 3,"), std::string::npos) << few;
  const std::string hosts = Only(CheckCrew({Report("a"), Report("a"), Report("b")}, 3, false).faults);
  EXPECT_NE(hosts.find("host a has 2, host b has 1"), std::string::npos) << hosts;
}

TEST(CheckReadiness, NamesTheProcessesWithAProblemAndGroupsEqualOnes) {
  std::vector<ProcessReport> reports = {Report("a"), Report("b"), Report("c"), Report("d")};
  EXPECT_TRUE(CheckReadiness(reports, false).faults.empty());
  reports[1].problem = reports[3].problem = "no dataset";
  EXPECT_EQ(Only(CheckReadiness(reports, false).faults),
            "process 1 on host b, process 3 on host d: no dataset");
  for (ProcessReport& report : reports) report.problem = "no dataset";
  EXPECT_EQ(CheckReadiness(reports, false).faults.size(), 1u);
}

TEST(CheckReadiness, NamesDatasetsThatDiffer) {
  std::vector<ProcessReport> reports = {Report("a"), Report("b")};
  reports[1].first_file_bytes = 4999;
  const std::string fault = Only(CheckReadiness(reports, false).faults);
  EXPECT_NE(fault.find("process 1 on host b finds another dataset"), std::string::npos) << fault;
  EXPECT_TRUE(CheckReadiness(reports, true).faults.empty());  // v0.5: datasets of their own
}

TEST(CheckReadiness, WarnsOfAnotherFileSystem) {
  std::vector<ProcessReport> reports = {Report("a"), Report("b")};
  reports[1].fstype = "ext4";
  const Findings findings = CheckReadiness(reports, false);
  EXPECT_TRUE(findings.faults.empty());
  EXPECT_NE(Only(findings.warnings).find("process 1 on host b is on ext4"), std::string::npos);
}

TEST(CheckReadiness, ClocksMoreThanTenSecondsApart) {
  std::vector<ProcessReport> reports = {Report("a"), Report("b")};
  reports[1].clock_ahead_s = -9.9;
  EXPECT_TRUE(CheckReadiness(reports, true).faults.empty());
  reports[1].clock_ahead_s = -10.5;
  const std::string fault = Only(CheckReadiness(reports, true).faults);
  EXPECT_NE(fault.find("the clock of process 1 on host b is 10.5 s behind"), std::string::npos) << fault;
  const Findings later = CheckReadiness(reports, false);
  EXPECT_TRUE(later.faults.empty());
  EXPECT_EQ(later.warnings.size(), 1u);
}

}  // namespace
}  // namespace stoker::bench
