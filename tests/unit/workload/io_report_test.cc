#include "workload/io/io_report.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace stoker::bench {
namespace {

using ::testing::HasSubstr;

constexpr double kMiB = 1 << 20;

PhaseResult Phase(Access access, uint64_t bytes, double seconds, uint64_t repetition) {
  PhaseResult phase;
  phase.access = access;
  phase.repetition = repetition;
  phase.bytes = phase.expected_bytes = bytes;
  phase.transfers = bytes >> 20;
  phase.total_s = seconds;
  phase.transfer_s = seconds / 2;
  return phase;
}

/// One process, 60 GiB: 419.58 and 412.07 MiB/s were published, with a deviation of 3.75 and 147.77 s.
TEST(IoReport, ThePublishedRow) {
  IoOptions options;
  options.file_per_process = options.write = true;
  options.block_bytes = 60ull << 30;
  options.transfer_bytes = 1 << 20;
  options.repetitions = 2;
  const uint64_t bytes = options.block_bytes;
  const double total = static_cast<double>(bytes) / kMiB;
  const std::vector<PhaseResult> phases{Phase(Access::kWrite, bytes, total / 419.576, 0),
                                        Phase(Access::kWrite, bytes, total / 412.072, 1)};
  const std::vector<IoSummary> summaries = SummarizeIo(options, phases);
  ASSERT_EQ(summaries.size(), 1u);
  const IoSummary& row = summaries[0];
  EXPECT_NEAR(row.bandwidth.max / kMiB, 419.576, 1e-6);
  EXPECT_NEAR(row.bandwidth.min / kMiB, 412.072, 1e-6);
  EXPECT_NEAR(row.bandwidth.mean / kMiB, 415.824, 1e-6);  // of the bandwidths, not bytes / mean time
  EXPECT_NEAR(row.bandwidth.deviation / kMiB, 3.752, 1e-6);
  EXPECT_NEAR(row.rate.max, 419.576, 1e-6);  // at -t 1m the same numbers
  EXPECT_NEAR(row.mean_s, 147.768, 0.01);
  EXPECT_NEAR(total / row.mean_s, 415.8, 0.05);
  EXPECT_EQ(IoMaxText(summaries), "Max Write: 419.58 MiB/sec (439.96 MB/sec)");
  const std::string text = IoSummaryText(options, summaries);
  EXPECT_THAT(
      text,
      HasSubstr("\nwrite         419.58     412.07     415.82       3.75     419.58     412.07     415.82"
                "       3.75  147.766"));
  EXPECT_THAT(text, ::testing::EndsWith(
                        "NA            NA     0      1   1    2   1     0        1         0    0      1 "
                        "64424509440  1048576   61440.0 POSIX      0"));
  EXPECT_THAT(IoOldSummaryText(options, summaries),
              ::testing::EndsWith("64424509440  1048576  64424509440     0 POSIX"));
}

TEST(IoReport, RatesBelowAndAboveATransferOfOneMebibyte) {
  IoOptions options;
  options.transfer_bytes = 4096;
  const std::vector<IoSummary> rows = SummarizeIo(options, {Phase(Access::kRead, 1 << 20, 0.5, 0)});
  EXPECT_NEAR(rows[0].rate.mean, 512, 1e-9);  // 256 transfers in half a second
  EXPECT_EQ(rows[0].access, Access::kRead);
  EXPECT_EQ(rows[0].rate.deviation, 0);
}

TEST(IoReport, NothingRanNoRows) {
  EXPECT_TRUE(SummarizeIo({}, {}).empty());
  EXPECT_EQ(IoMaxText({}), "");
}

TEST(IoReport, APhaseWithoutTimeHasNoBandwidth) {
  EXPECT_EQ(Phase(Access::kWrite, 0, 0, 0).bandwidth(), 0);
  EXPECT_EQ(Phase(Access::kWrite, 0, 0, 0).transfers_per_s(), 0);
}

TEST(IoReport, RowsLineUpWithTheirHead) {
  IoOptions options;
  const std::string head = IoTableHead().substr(0, IoTableHead().find('\n'));
  const std::string row = IoTableRow(options, Phase(Access::kWrite, 4 << 20, 2, 7));
  EXPECT_EQ(row.substr(head.find("iter"), 1), "7");
  EXPECT_EQ(row.substr(head.find("total(s)"), 4), "2.00");
  EXPECT_EQ(row.substr(head.find("bw(MiB/s)"), 4), "2.00");
  EXPECT_EQ(row.substr(head.find("IOPS"), 4), "4.00");  // transfers / access time
  const std::string removed = IoRemoveRow(0.25, 7);
  EXPECT_EQ(removed.substr(head.find("total(s)"), 8), "0.250000");
  EXPECT_EQ(removed.substr(head.find("iter"), 1), "7");
}

TEST(IoReport, TenColumnsRoundAsIorDoes) {
  EXPECT_EQ(TenColumns(0.5), "0.500000  ");
  EXPECT_EQ(TenColumns(12.345), "12.35     ");
  EXPECT_EQ(TenColumns(20480), "20480     ");
}

TEST(IoReport, StonewallColumns) {
  IoOptions options;
  PhaseResult phase = Phase(Access::kWrite, 8 << 20, 2, 0);
  phase.stonewall_s = 1.5;
  phase.stonewall_bytes = 6 << 20;
  EXPECT_THAT(IoSummaryText(options, SummarizeIo(options, {phase})),
              HasSubstr("       1.50          6.00     0 "));
}

TEST(IoReport, JsonHasTheNamesOfIor) {
  IoOptions options;
  options.write = true;
  IoOutcome outcome;
  outcome.phases.push_back(Phase(Access::kWrite, 4 << 20, 2, 0));
  outcome.failure = Status(Code::kIo, "said \xff no");  // not UTF-8: must not stop the report
  const auto json =
      nlohmann::json::parse(IoJson(options, outcome, {"a note"}, "failed", "stoker-bench io -w"));
  EXPECT_EQ(json["status"], "failed");
  EXPECT_EQ(json["Results"][0]["access"], "write");
  EXPECT_EQ(json["Results"][0]["bwMiB"], 2.0);
  EXPECT_EQ(json["summary"][0]["bwMaxMIB"], 2.0);
  EXPECT_EQ(json["max"]["writeMiB"], 2.0);
  EXPECT_EQ(json["notes"][0], "a note");
}

}  // namespace
}  // namespace stoker::bench
