#include "workload/io/mdtest.h"

#include <gmock/gmock.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/temp_dir.h"
#include "workload/cli/verb_mdtest.h"
#include "workload/io/item_tree.h"
#include "workload/io/mdtest_report.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<MdtestOptions> Parse(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  const Result<MdtestCommand> command = ParseMdtestArguments(words);
  if (!command.ok()) return command.status();
  return command->options;
}

TEST(ItemTree, NamesOfATree) {
  EXPECT_THAT(
      TreePaths({.branch = 2, .depth = 2}, "t"),
      ElementsAre("t.0", "t.0/t.1", "t.0/t.2", "t.0/t.1/t.3", "t.0/t.1/t.4", "t.0/t.2/t.5", "t.0/t.2/t.6"));
  EXPECT_THAT(TreePaths({.branch = 1, .depth = 2}, "t"), ElementsAre("t.0", "t.0/t.1", "t.0/t.1/t.2"));
}

TEST(ItemTree, CountsAndPlaces) {
  const TreeShape all{.branch = 3, .depth = 2, .items_per_dir = 10};
  EXPECT_EQ(all.dirs(), 13u);
  EXPECT_EQ(all.items(), 130u);
  const TreeShape leaves{.branch = 3, .depth = 2, .leaf_only = true, .items_per_dir = 10, .loops = 2};
  EXPECT_EQ(leaves.first_item_dir(), 4u);
  EXPECT_EQ(leaves.items(), 180u);
  const ItemPlaces places(leaves);
  EXPECT_EQ(places.Of(0).dir, 4u);
  EXPECT_EQ(places.Of(0).number, 40u);
  EXPECT_EQ(places.Of(89).dir, 12u);
  EXPECT_EQ(places.Of(89).number, 129u);
  EXPECT_EQ(places.Of(90).loop, 1u);
  EXPECT_EQ(places.Of(90).number, 40u);
  EXPECT_EQ((TreeShape{.branch = 10, .depth = 30}).dirs(), 0u);  // more than anybody makes
}

TEST(ItemTree, PathsFollowTheirPlaces) {
  const TreeShape shape{.branch = 2, .depth = 1, .items_per_dir = 2, .loops = 2};
  const std::vector<std::string> roots{"a", "b"};
  const std::vector<std::string> dirs = TreePaths(shape, "t");
  const ItemPlaces places(shape);
  ItemPath path(roots, dirs, "file.");
  std::set<std::string> seen;
  for (uint64_t i = 0; i < shape.items(); ++i) seen.insert(path.Of(places.Of(i)));
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_STREQ(path.Of(places.Of(0)), "a/t.0/file.0");
  EXPECT_STREQ(path.Of(places.Of(11)), "b/t.0/t.2/file.5");
  EXPECT_STREQ(path.Of({0, 1, 1234567}), "a/t.0/t.1/file.1234567");
  EXPECT_STREQ(path.Of({0, 1, 9}), "a/t.0/t.1/file.9");  // shorter than the one before
}

TEST(MdtestFlags, DefaultsAndCounts) {
  const Result<MdtestOptions> o = Parse("-n 100 -b 3 -z 2");
  ASSERT_TRUE(o.ok()) << o.status().message();
  EXPECT_TRUE(o->files && o->dirs && o->create && o->stat && o->read && o->remove && o->rename);
  EXPECT_EQ(o->shape.items_per_dir, 7u);  // 100 / 13 directories
  EXPECT_EQ(o->shape.items(), 91u);
  EXPECT_EQ(o->folder, "out");
  EXPECT_EQ(Parse("-n 90 -b 3 -z 2 -L")->shape.items_per_dir, 10u);
  EXPECT_EQ(Parse("-n 20 -I 5")->shape.loops, 4u);
  EXPECT_FALSE(Parse("-n 1 -C")->rename);
  EXPECT_EQ(Parse("-n1 -w4k -e=1k -d dir/")->write_bytes, 4096u);
  EXPECT_EQ(Parse("-n1 -d dir//")->folder, "dir");
}

TEST(MdtestFlags, EveryWrongValueIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "-n"},
      {"-n 0", "-n: \"0\""},
      {"-n x", "-n: \"x\""},
      {"-I 0", "-I: \"0\""},
      {"-n 5 -b 0", "-b: \"0\""},
      {"-n 5 -z -1", "-z: \"-1\""},
      {"-n 5 -b 10 -z 9", "more than 1000000 directories"},
      {"-n 5 -b 3 -z 2", "less than one item"},
      {"-n 5 -I 2", "not a multiple"},
      {"-n 4 -I 2 -u", "exclude each other with -u"},
      {"-n 4 -I 2 -W 1", "exclude each other with -W"},
      {"-n 5 -i 0", "-i: \"0\""},
      {"-n 5 --tasks 0", "--tasks: \"0\""},
      {"-n 5 -N -2", "-N: \"-2\""},
      {"-n 5 -w 1q", "-w: \"1q\""},
      {"-n 5 -w 2g", "at most 1g"},
      {"-n 5 -e 5", "-e 5 reads more"},
      {"-n 5 -X", "add -e"},
      {"-n 5 -T -W 1", "add -C"},
      {"-n 90 -b 2 -z 1 -W 1", "-b 1 only"},
      {"-n 5 --random-seed 4", "-R"},
      {"-n 5 --random-seed x -R", "--random-seed: \"x\""},
      {"-n 5 -D -E", "-E reads files"},
      {"-n 5 -a HDF5", "HDF5"},
      {"-n 5 -p x", "-p: \"x\""},
      {"-n 5 -S", "mdtest's -S is not here"},
      {"-n 5 -q", "unknown option -q"},
      {"-n", "-n needs a value"},
      {"-n 5 word", "\"word\" belongs to no option"},
      {"-n 1099511627776 --tasks 2", "2^40"},
  };
  for (const auto& [line, text] : cases) {
    const Result<MdtestOptions> o = Parse(line);
    ASSERT_FALSE(o.ok()) << line;
    EXPECT_THAT(o.status().message(), ::testing::AllOf(::testing::StartsWith("mdtest: "), HasSubstr(text)))
        << line;
  }
}

class MdtestRun : public ::testing::Test {
 protected:
  MdOutcome Run(const std::string& line) {
    const Result<MdtestOptions> options = Parse(line + " -d " + (dir_.path() + "/tree"));
    EXPECT_TRUE(options.ok()) << options.status().message();
    options_ = *options;
    Team team(options_.tasks);
    Mdtest test(options_, team);
    const Status prepared = test.Prepare();
    EXPECT_TRUE(prepared.ok()) << prepared.message();
    return test.Run(cancel_, {});
  }
  Status Prepare(const std::string& line) {
    const MdtestOptions options = *Parse(line + " -d " + (dir_.path() + "/tree"));
    Team team(options.tasks);
    return Mdtest(options, team).Prepare();
  }
  /// Files and folders below the test's folder.
  std::pair<uint64_t, uint64_t> Count() const {
    uint64_t files = 0;
    uint64_t dirs = 0;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path() + "/tree")) {
      ++(entry.is_directory() ? dirs : files);
    }
    return {files, dirs};
  }

  stoker::testing::TempDir dir_;
  CancelToken cancel_;
  MdtestOptions options_;
};

TEST_F(MdtestRun, EveryPhaseHandlesEveryItem) {
  const MdOutcome outcome = Run("-n 20 --tasks 3 -i 2 -b 2 -z 1 -w 64 -e 64 -X");
  EXPECT_TRUE(outcome.failure.ok()) << outcome.failure.message();
  ASSERT_EQ(outcome.phases.size(), 20u);
  EXPECT_EQ(outcome.wrong_files, 0u);
  for (const MdPhaseResult& phase : outcome.phases) {
    const uint64_t expected = phase.phase >= MdPhase::kTreeCreate ? 3
                              : phase.phase == MdPhase::kDirRename
                                  ? 3 * 19
                                  : 3 * 18;  // 20 / 3 directories = 6 in each
    EXPECT_EQ(phase.items, expected) << MdPhaseName(phase.phase);
  }
  EXPECT_FALSE(fs::exists(dir_.path() + "/tree"));
}

TEST_F(MdtestRun, PhasesApartAndWhatIsThereBetween) {
  const std::string shape = "-n 6 --tasks 2 -b 2 -z 1 -L";
  EXPECT_TRUE(Run(shape + " -C -w 16").failure.ok());
  EXPECT_EQ(Count(), std::make_pair(uint64_t{12}, uint64_t{12 + 3 + 1}));  // items, tree, test-dir
  EXPECT_TRUE(fs::exists(dir_.path() + "/tree/test-dir.0-0/mdtest_tree.0/mdtest_tree.2/file.mdtest.1.8"));
  EXPECT_THAT(Prepare(shape + " -C").message(), HasSubstr("left by an earlier run"));
  EXPECT_THAT(Prepare("-n 8 --tasks 2 -b 2 -z 1 -L -T").message(), HasSubstr("is not there"));
  EXPECT_THAT(Prepare(shape + " -E -e 17").message(), HasSubstr("has 16 bytes, -e asks for 17"));
  const MdOutcome looked = Run(shape + " -T -E -e 16 -X -N 1 -R");
  EXPECT_TRUE(looked.failure.ok()) << looked.failure.message();
  EXPECT_EQ(looked.phases.size(), 3u);
  EXPECT_EQ(looked.wrong_files, 0u);
  EXPECT_TRUE(Run(shape + " -r").failure.ok());
  EXPECT_EQ(Count(), std::make_pair(uint64_t{0}, uint64_t{0}));
}

TEST_F(MdtestRun, WrongBytesAreFound) {
  EXPECT_TRUE(Run("-n 4 --tasks 2 -F -C -w 32").failure.ok());
  const std::string victim = dir_.path() + "/tree/test-dir.0-0/mdtest_tree.0/file.mdtest.1.2";
  fs::copy_file(dir_.path() + "/tree/test-dir.0-0/mdtest_tree.0/file.mdtest.0.2", victim,
                fs::copy_options::overwrite_existing);
  const MdOutcome outcome = Run("-n 4 --tasks 2 -F -E -e 32 -X");
  EXPECT_EQ(outcome.wrong_files, 1u);
  EXPECT_EQ(outcome.first_wrong, victim);
}

TEST_F(MdtestRun, FailureNamesThePathAndLeavesNothingOfTheRun) {
  EXPECT_TRUE(Run("-n 4 --tasks 2 -F -C").failure.ok());
  fs::remove(dir_.path() + "/tree/test-dir.0-0/mdtest_tree.0/file.mdtest.1.1");
  const MdOutcome outcome = Run("-n 4 --tasks 2 -F -T");
  EXPECT_THAT(outcome.failure.message(), HasSubstr("file.mdtest.1.1"));
  EXPECT_EQ(Count().first, 7u);  // what an earlier run made is not this run's to remove
}

TEST_F(MdtestRun, CancelledBeforeItBegins) {
  cancel_.Cancel();
  const MdOutcome outcome = Run("-n 1000 --tasks 2");
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_TRUE(outcome.phases.empty());
  EXPECT_FALSE(fs::exists(dir_.path() + "/tree"));
}

TEST(MdtestReport, RowsOfWhatRan) {
  MdtestOptions options;
  options.iterations = 2;
  const std::vector<MdPhaseResult> phases{
      {.phase = MdPhase::kFileStat, .iteration = 0, .items = 100, .seconds = 0.5},
      {.phase = MdPhase::kFileStat, .iteration = 1, .items = 100, .seconds = 1}};
  const std::string text = MdSummaryText(options, phases, false);
  EXPECT_THAT(text, HasSubstr("SUMMARY rate: (of 2 iterations)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "   File stat                 :        200.000        100.000        150.000         50.000"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("File read")));
  EXPECT_THAT(MdSummaryText(options, phases, true), HasSubstr("0.750"));
}

}  // namespace
}  // namespace stoker::bench
