#include "workload/report/comparison.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/temp_dir.h"
#include "workload/data/datagen.h"
#include "workload/run/compare_run.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;

TurnFigures Turn(size_t contender, uint64_t round, double nominal, bool valid = true) {
  TurnFigures out;
  out.contender = contender;
  out.round = round;
  out.valid = valid;
  out.status = valid ? "complete" : "failed";
  out.nominal_mib_per_s = out.true_mib_per_s = nominal;
  out.au_percent = 90;
  return out;
}

TEST(Comparison, MedianAndEnds) {
  EXPECT_EQ(SpreadOf({}).median, 0);
  const Spread odd = SpreadOf({5, 1, 3});
  EXPECT_EQ(odd.low, 1);
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.high, 5);
  EXPECT_EQ(SpreadOf({4, 1, 3, 9}).median, 3.5);
}

TEST(Comparison, RatiosAreTakenRoundByRound) {
  // The second round was slow for both: the ratio is 2 in each, though the medians' is not.
  const std::vector<TurnFigures> turns = {Turn(0, 0, 100), Turn(1, 0, 200), Turn(1, 1, 20),
                                          Turn(0, 1, 10),  Turn(0, 2, 50),  Turn(1, 2, 500, false)};
  const std::vector<ContenderFigures> figures = CompareTurns(2, turns);
  EXPECT_EQ(figures[0].counted, 3u);
  EXPECT_EQ(figures[0].ratio.median, 1);
  EXPECT_EQ(figures[1].counted, 2u);
  EXPECT_EQ(figures[1].ratio.low, 2);
  EXPECT_EQ(figures[1].ratio.high, 2);
}

TEST(Comparison, WithoutTheFirstThereIsNoRatio) {
  const std::vector<ContenderFigures> figures = CompareTurns(2, {Turn(0, 0, 100, false), Turn(1, 0, 200)});
  EXPECT_EQ(figures[0].counted, 0u);
  EXPECT_EQ(figures[1].ratio.median, 0);
  const std::string text =
      ComparisonText({{"a", "/a", "", ""}, {"b", "/b", "", ""}}, {Turn(0, 0, 100, false), Turn(1, 0, 200)});
  EXPECT_NE(text.find("NOTE: a, round 1, is not counted: failed"), std::string::npos) << text;
}

TEST(Comparison, APageCacheThatWasFullIsSaid) {
  TurnFigures turn = Turn(0, 0, 100);
  turn.page_cache_before = 0.4;
  TurnFigures cold = Turn(0, 1, 100);
  cold.page_cache_before = 0;
  const std::string text = ComparisonText({{"a", "/a", "/", "ext4"}}, {turn, cold});
  EXPECT_NE(text.find("NOTE: a began with up to 40 % of its dataset"), std::string::npos) << text;
  EXPECT_EQ(ComparisonText({{"a", "/a", "/", "ext4"}}, {cold}).find("NOTE"), std::string::npos);
}

TEST(Comparison, EverybodyIsFirstEquallyOften) {
  for (size_t contenders = 1; contenders <= 5; ++contenders) {
    std::map<std::pair<size_t, size_t>, int> places;
    for (uint64_t round = 0; round < 2 * contenders; ++round) {
      const std::vector<size_t> order = TurnOrder(contenders, round);
      for (size_t i = 0; i < order.size(); ++i) ++places[{order[i], i}];
    }
    EXPECT_EQ(places.size(), contenders * contenders);
    for (const auto& [place, times] : places) EXPECT_EQ(times, 2);
  }
}

class CompareRunTest : public ::testing::Test {
 protected:
  CompareRunTest() {
    options_.command.rules = RulesOf(Edition::kV30);
    options_.command.profile = *LoadProfile(ProfileDirs(""), "unet3d", Edition::kV30, "");
    Profile& profile = options_.command.profile;
    profile.num_files_train = 14;
    profile.record_bytes = 20'000;
    profile.record_bytes_stdev = 0;
    profile.epochs = 1;
    profile.computation_time = 0.001;
    options_.rounds = 2;
    for (const char* name : {"a", "b"}) {
      options_.contenders.push_back({name, dir_ / name, ""});
      Dataset dataset = MakeDataset(profile, dir_ / name, Edition::kV30);
      EXPECT_TRUE(GenerateDataset({dataset, 2, nullptr}, CancelToken()).ok());
    }
  }
  Comparison Run() {
    const Result<std::vector<TrainingPlan>> plans = PlanComparison(options_);
    EXPECT_TRUE(plans.ok());
    return RunComparison(options_, *plans, CancelToken(), nullptr);
  }
  const stoker::testing::TempDir dir_;
  CompareOptions options_;
};

TEST_F(CompareRunTest, TurnsHooksAndKeptRuns) {
  options_.contenders[1].before =
      "echo $STOKER_BENCH_NAME $STOKER_BENCH_ROUND $STOKER_BENCH_DIR >> '" + (dir_ / "hooks") + "'";
  options_.command.results_dir = dir_ / "kept";
  const Comparison comparison = Run();
  EXPECT_TRUE(comparison.failure.ok()) << comparison.failure.message();
  ASSERT_EQ(comparison.turns.size(), 4u);
  std::vector<size_t> order;
  for (const TurnFigures& turn : comparison.turns) {
    EXPECT_TRUE(turn.valid);
    order.push_back(turn.contender);
  }
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 1, 0}));
  std::ifstream in(dir_ / "hooks");
  const std::string hooks((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(hooks, "b 1 " + (dir_ / "b") + "\nb 2 " + (dir_ / "b") + "\n");
  for (const char* path : {"a/round-1", "a/round-2", "b/round-1", "b/round-2"}) {
    EXPECT_TRUE(fs::exists(dir_ / ("kept/" + std::string(path) + "/summary.json"))) << path;
  }
  const nlohmann::json json =
      nlohmann::json::parse(ComparisonJson(comparison.places, comparison.turns, options_.command));
  EXPECT_EQ(json["contenders"].size(), 2u);
  EXPECT_EQ(json["contenders"][1]["rounds"].size(), 2u);
  EXPECT_GT(json["contenders"][0]["true_bytes"], 0);
}

TEST_F(CompareRunTest, AHookThatFailsEndsIt) {
  options_.contenders[1].before = "echo no such cache >&2; exit 7";
  const Comparison comparison = Run();
  EXPECT_EQ(comparison.turns.size(), 1u);
  EXPECT_EQ(comparison.failure.message(),
            "--before b=echo no such cache >&2; exit 7: left with status 7: no such cache");
}

TEST_F(CompareRunTest, AMissingDatasetNamesItsContender) {
  fs::remove_all(dir_ / "b");
  const Status status = PlanComparison(options_).status();
  EXPECT_EQ(status.code(), Code::kNotFound) << status.message();
  EXPECT_EQ(status.message().substr(0, 3), "b: ") << status.message();
}

TEST_F(CompareRunTest, ReadErrorsAreNotCounted) {
  const Result<std::vector<TrainingPlan>> plans = PlanComparison(options_);
  ASSERT_TRUE(plans.ok());
  fs::remove(plans->at(1).options.dataset.Path(5));
  const Comparison comparison = RunComparison(options_, *plans, CancelToken(), nullptr);
  ASSERT_EQ(comparison.turns.size(), 4u);
  const std::vector<ContenderFigures> figures = CompareTurns(2, comparison.turns);
  EXPECT_EQ(figures[0].counted, 2u);
  EXPECT_EQ(figures[1].counted, 0u);
}

TEST_F(CompareRunTest, AnInterruptEndsAHook) {
  options_.contenders[0].before = "touch '" + (dir_ / "began") + "'; sleep 3600";
  const Result<std::vector<TrainingPlan>> plans = PlanComparison(options_);
  ASSERT_TRUE(plans.ok());
  CancelToken cancel;
  std::thread interrupter([&] {
    while (!fs::exists(dir_ / "began")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    cancel.Cancel();
  });
  const Comparison comparison = RunComparison(options_, *plans, cancel, nullptr);
  interrupter.join();
  EXPECT_TRUE(comparison.interrupted);
  EXPECT_TRUE(comparison.failure.ok()) << comparison.failure.message();
  EXPECT_TRUE(comparison.turns.empty());
}

TEST_F(CompareRunTest, ACancelledComparisonEnds) {
  const Result<std::vector<TrainingPlan>> plans = PlanComparison(options_);
  ASSERT_TRUE(plans.ok());
  CancelToken cancel;
  cancel.Cancel();
  const Comparison comparison = RunComparison(options_, *plans, cancel, nullptr);
  EXPECT_TRUE(comparison.interrupted);
  EXPECT_TRUE(comparison.turns.empty());
}

}  // namespace
}  // namespace stoker::bench
