#include "workload/report/capacity_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stoker::bench {
namespace {

/// Ten accelerators of the storage's capacity 10.5 look alike; `probe` says what each measurement gives.
CapacityRecord Searched(uint64_t max, double (*au)(uint64_t)) {
  CapacityRecord record;
  record.command.profile.workload = "unet3d";
  record.command.profile.accelerator = "b200";
  record.options.max = max;
  record.max_reason = "--max " + std::to_string(max);
  CapacitySearch search(record.options);
  while (const std::optional<CapacityProbe> probe = search.Next()) {
    CapacityMeasurement one;
    one.probe = *probe;
    one.au_percent = au(probe->accelerators);
    one.bytes_per_s = 100 * 1048576.0 * static_cast<double>(probe->accelerators);
    record.measurements.push_back(one);
    search.Add(*probe, one.au_percent);
  }
  record.result = search.Result();
  return record;
}

TEST(CapacityReport, StatementsForEveryOutcome) {
  CapacityRecord record = Searched(64, [](uint64_t n) { return n <= 3 ? 99.0 : 80.0; });
  EXPECT_EQ(
      CapacityStatement(record),
      "With 95 % confidence 3 x b200 are fed and 4 are not (3 passed 3 of 3 measurements, 4 passed 0 of 3 "
      "measurements)");
  record.ended_early = "interrupted";
  EXPECT_EQ(CapacityStatement(record).substr(0, 43), "Not finished (interrupted). With 95 % confi");

  record = Searched(64, [](uint64_t) { return 45.0; });
  EXPECT_EQ(CapacityStatement(record),
            "With 95 % confidence not even one b200 is fed: AU 45.00 ± 1.80 %, threshold 90 %");
  record = Searched(5, [](uint64_t) { return 99.0; });
  EXPECT_EQ(
      CapacityStatement(record),
      "With 95 % confidence 5 x b200 are fed (5 passed 3 of 3 measurements); more were not tried: --max 5");
  record = Searched(64, [](uint64_t n) { return n < 3 ? 99.0 : n == 3 ? 90.01 : 80.0; });
  EXPECT_EQ(CapacityStatement(record).find("With 95 % confidence between 2 and 3 x b200 are fed; most likely "
                                           "3; too close to the threshold for "
                                           "5 repeats: 3: AU 90.01 ± "),
            0u);
  record = Searched(64, [](uint64_t) { return 99.0; });
  record.result = {};
  record.result.likely = 2;
  record.ended_early = "interrupted";
  EXPECT_EQ(CapacityStatement(record),
            "Not finished (interrupted). Nothing was proved; most likely 2 x b200 are fed");
}

TEST(CapacityReport, TableIsAligned) {
  CapacityRecord record = Searched(64, [](uint64_t n) { return n <= 3 ? 99.0 : 80.0; });
  record.limit = {CapacityLimit::kStorage, "because"};
  CapacityRecord none = Searched(64, [](uint64_t) { return 45.0; });
  none.command.profile.workload = "resnet50";
  EXPECT_EQ(
      CapacityTable({record, none}),
      "workload  accelerator  threshold  fed  AU              MiB/s  too many  AU              limited by\n"
      "unet3d    b200         90 %       3    99.00 ± 1.80 %  300.0  4         80.00 ± 5.40 %  storage\n"
      "resnet50  b200         90 %       0    -               -      1         45.00 ± 1.80 %  none\n");
}

TEST(CapacityReport, JsonHoldsEveryMeasurement) {
  CapacityRecord record = Searched(64, [](uint64_t n) { return n <= 3 ? 99.0 : 80.0; });
  record.null_shares = StepShares{.compute = 0.999};
  const nlohmann::json json = nlohmann::json::parse(CapacityJson({record}, "box"));
  EXPECT_EQ(json["hostname"], "box");
  const nlohmann::json& one = json["results"].at(0);
  EXPECT_EQ(one["fed"], 3);
  EXPECT_EQ(one["starved"], 4);
  EXPECT_EQ(one["confidence"], 0.95);
  EXPECT_EQ(one["finished"], true);
  EXPECT_EQ(one["statement"], CapacityStatement(record));
  EXPECT_EQ(one["true_MiB_per_second_at_fed"], 300.0);
  EXPECT_EQ(one["measurements"].size(), record.measurements.size());
  EXPECT_EQ(one["null_storage_at_starved"]["compute_share"], 0.999);
  const nlohmann::json& point = one["points"].at(2);
  EXPECT_EQ(point["accelerators"], 3);
  EXPECT_EQ(point["verdict"], "fed");
  EXPECT_EQ(point["passes"], 3);
  EXPECT_TRUE(one["points"].at(0)["au_margin_percent"].is_null()) << "measured once";
}

LimitEvidence Starved() {
  LimitEvidence evidence;
  evidence.accelerators = 9;
  evidence.shares = {.compute = 0.8, .load_wait = 0.15, .barrier_wait = 0.04, .overhead = 0.01, .steps = 20};
  evidence.cpu = {2, 0.2, 0.3};
  evidence.null_shares = StepShares{.compute = 0.999, .overhead = 0.001, .steps = 20};
  return evidence;
}

TEST(CapacityLimit, StorageWhenTheCpuIsIdle) {
  const LimitVerdict even = LimitOf(Starved());
  EXPECT_EQ(even.limit, CapacityLimit::kStorage);
  EXPECT_EQ(even.reason,
            "accelerators waited 15.0 % of the time for batches while 70.0 % of the CPU was idle");
  LimitEvidence evidence = Starved();
  evidence.shares.load_wait = 0.05;
  evidence.shares.barrier_wait = 0.14;
  const LimitVerdict uneven = LimitOf(evidence);
  EXPECT_EQ(uneven.limit, CapacityLimit::kStorage);
  EXPECT_NE(uneven.reason.find("14.0 % for the one whose batch came last"), std::string::npos);
}

TEST(CapacityLimit, ClientWhenItsCoresAreBusyOrNullIsStarvedToo) {
  LimitEvidence evidence = Starved();
  evidence.cpu.process = 0.85;
  EXPECT_EQ(LimitOf(evidence).limit, CapacityLimit::kClientCpu);
  evidence = Starved();
  evidence.cpu.machine = 0.85;
  EXPECT_EQ(LimitOf(evidence).limit, CapacityLimit::kClientCpu);
  evidence = Starved();
  evidence.null_shares = StepShares{.compute = 0.8, .barrier_wait = 0.15, .overhead = 0.05, .steps = 20};
  EXPECT_EQ(LimitOf(evidence).limit, CapacityLimit::kClientCpu);
  EXPECT_EQ(LimitOf(evidence).reason,
            "without any reading 9 accelerators reach AU 80.0 % only: this client cannot drive so many");
  evidence.threshold_percent = 70;
  EXPECT_EQ(LimitOf(evidence).limit, CapacityLimit::kStorage) << "without reading it passes";
}

TEST(CapacityLimit, BarrierWhenItTakesMostOfWhatIsLost) {
  LimitEvidence evidence = Starved();
  evidence.shares = {.compute = 0.7, .load_wait = 0.05, .barrier_wait = 0.05, .overhead = 0.2, .steps = 20};
  EXPECT_EQ(LimitOf(evidence).limit, CapacityLimit::kBarrier);
  evidence = Starved();
  evidence.null_shares = StepShares{.compute = 0.5, .overhead = 0.5, .steps = 20};
  EXPECT_EQ(LimitOf(evidence).limit, CapacityLimit::kBarrier);
  evidence.null_shares.reset();
  EXPECT_EQ(LimitOf(evidence).limit, CapacityLimit::kStorage) << "nothing known of it";
}

}  // namespace
}  // namespace stoker::bench
