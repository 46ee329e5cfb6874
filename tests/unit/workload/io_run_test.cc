#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/read_file.h"
#include "tests/support/temp_dir.h"
#include "workload/io/crew.h"
#include "workload/io/io_test.h"
#include "workload/io/pattern.h"

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<std::byte> Contents(const std::string& path) {
  const std::string text = stoker::testing::ReadFile(path);
  const auto* const data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

class IoRun : public ::testing::Test {
 protected:
  IoRun() {
    options_.file = dir_ / "data";
    options_.tasks = 3;
    options_.block_bytes = 64 << 10;
    options_.transfer_bytes = 8 << 10;
  }
  IoOutcome Run() {
    const Status complete = CompleteIoOptions(options_);
    EXPECT_TRUE(complete.ok()) << complete.message();
    Team team(options_.tasks);
    IoTest test(options_, team);
    const Result<IoNotes> notes = test.Prepare();
    EXPECT_TRUE(notes.ok()) << notes.status().message();
    return test.Run(cancel_, listener_);
  }
  Status Prepare() {
    EXPECT_TRUE(CompleteIoOptions(options_).ok());
    Team team(options_.tasks);
    return IoTest(options_, team).Prepare().status();
  }

  stoker::testing::TempDir dir_;
  IoOptions options_;
  IoListener listener_;
  CancelToken cancel_;
};

/// Whatever the mode, each file holds the pattern in every byte, and all readers find it.
TEST_F(IoRun, FilesOfEveryModeAreWhole) {
  const Pattern pattern;
  for (const bool own : {false, true}) {
    for (const bool random : {false, true}) {
      for (const int reorder : {0, 1, 2}) {
        if (random && !own && reorder != 0) continue;  // refused
        for (const uint64_t segments : {1, 3}) {
          options_.file_per_process = own;
          options_.random_offsets = random;
          options_.shift_tasks = reorder == 1;
          options_.random_tasks = reorder == 2;
          options_.segments = segments;
          options_.barriers = random;
          options_.write = options_.read = options_.check_read = options_.check_write = options_.keep_files =
              true;
          options_.signature = 99;
          const IoOutcome outcome = Run();
          ASSERT_TRUE(outcome.failure.ok()) << outcome.failure.message();
          ASSERT_EQ(outcome.wrong_words, 0u) << outcome.first_wrong;
          ASSERT_EQ(outcome.phases.size(), 3u);
          for (const PhaseResult& phase : outcome.phases) {
            ASSERT_EQ(phase.bytes, options_.layout().total_bytes());
            ASSERT_GE(phase.total_s, phase.transfer_s);
          }
          const std::vector<std::string> files = AllFiles(options_);
          for (size_t i = 0; i < files.size(); ++i) {
            const std::vector<std::byte> bytes = Contents(files[i]);
            ASSERT_EQ(bytes.size(), options_.layout().file_bytes());
            ASSERT_EQ(pattern.Check(bytes.data(), 99, i, 0, bytes.size()).words, 0u);
          }
        }
      }
    }
  }
}

TEST_F(IoRun, FilesGoAfterEachRepetition) {
  options_.repetitions = 3;
  options_.file_per_process = true;
  uint64_t removed = 0;
  listener_.removed = [&](double, uint64_t) {
    ++removed;
    EXPECT_TRUE(fs::is_empty(dir_.path()));
  };
  const IoOutcome outcome = Run();
  EXPECT_EQ(outcome.phases.size(), 6u);
  EXPECT_EQ(removed, 3u);
}

TEST_F(IoRun, ReadCheckFindsAChangedByte) {
  options_.write = options_.keep_files = true;
  options_.signature = 7;
  EXPECT_TRUE(Run().failure.ok());
  {
    std::fstream file(options_.file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100001);
    file.put('!');
  }
  options_.write = false;
  options_.check_read = true;
  const IoOutcome outcome = Run();
  EXPECT_EQ(outcome.wrong_words, 1u);
  EXPECT_THAT(outcome.first_wrong, HasSubstr("at offset 100000"));
  options_.signature = 8;                                                    // not what was written
  EXPECT_EQ(Run().wrong_words, options_.layout().total_bytes() / 4096 + 1);  // every stamp, and that byte
}

TEST_F(IoRun, ExistingFilesAreReplacedOrWrittenInto) {
  std::ofstream(options_.file) << std::string(1 << 20, 'x');
  options_.write = options_.keep_files = true;
  EXPECT_TRUE(Run().failure.ok());
  EXPECT_EQ(fs::file_size(options_.file), options_.layout().total_bytes());
  fs::resize_file(options_.file, 1 << 20);
  options_.use_existing = true;
  EXPECT_TRUE(Run().failure.ok());
  EXPECT_EQ(fs::file_size(options_.file), 1u << 20);
}

TEST_F(IoRun, FoundWrongBeforeAnyWork) {
  options_.read = true;
  EXPECT_EQ(Prepare().code(), Code::kNotFound);
  std::ofstream(options_.file) << "short";
  EXPECT_THAT(Prepare().message(), HasSubstr("has 5 B, the test reads 192.0 KiB"));
  options_.repetitions = 2;
  fs::resize_file(options_.file, 192 << 10);
  EXPECT_THAT(Prepare().message(), HasSubstr("-k"));
  options_.repetitions = 1;
  EXPECT_TRUE(Prepare().ok());
  options_.write = true;
  options_.block_bytes = uint64_t{1} << 50;
  EXPECT_EQ(Prepare().code(), Code::kNoSpace);
  options_.block_bytes = 64 << 10;
  options_.file = dir_ / "missing/data";
  EXPECT_THAT(Prepare().message(), HasSubstr("make it first"));
  options_.file = dir_.path();
  EXPECT_THAT(Prepare().message(), HasSubstr("not a plain file"));
  options_.file = "/dev/null";
  EXPECT_THAT(Prepare().message(), HasSubstr("not a plain file"));
}

TEST_F(IoRun, AFileThatShrinksMidTestIsAnError) {
  options_.write = options_.read = true;
  listener_.begins = [&](Access access, uint64_t) {
    if (access == Access::kRead) fs::resize_file(options_.file, 50000);
  };
  const IoOutcome outcome = Run();
  EXPECT_EQ(outcome.failure.code(), Code::kIo);
  EXPECT_THAT(outcome.failure.message(), HasSubstr("ends at"));
  EXPECT_EQ(outcome.phases.size(), 1u);  // the write, which was complete
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

TEST_F(IoRun, AFileThatVanishesIsAnError) {
  options_.write = options_.read = options_.file_per_process = true;
  listener_.begins = [&](Access access, uint64_t) {
    if (access == Access::kRead) fs::remove(TaskFile(options_, 1));
  };
  EXPECT_EQ(Run().failure.code(), Code::kNotFound);
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

TEST_F(IoRun, CancelledInTheReadRemovesWhatItWrote) {
  options_.write = options_.read = true;
  listener_.begins = [&](Access access, uint64_t) {
    if (access == Access::kRead) cancel_.Cancel();
  };
  const IoOutcome outcome = Run();
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_TRUE(outcome.failure.ok());
  EXPECT_EQ(outcome.phases.back().bytes, 0u);
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

TEST_F(IoRun, CancelledWhileOnlyReadingKeepsWhatItFound) {
  options_.write = options_.keep_files = true;
  EXPECT_TRUE(Run().failure.ok());
  options_.write = options_.keep_files = false;
  options_.read = true;
  cancel_.Cancel();
  EXPECT_TRUE(Run().interrupted);
  EXPECT_TRUE(fs::exists(options_.file));
}

/// What -D leaves unwritten is not read; with wear-out all tasks write the same.
TEST_F(IoRun, StonewallReadsWhatWasWritten) {
  for (const bool wear_out : {false, true}) {
    options_.file_per_process = true;
    options_.block_bytes = uint64_t{64} << 30;
    options_.transfer_bytes = 1 << 20;
    options_.fsync_per_write = true;
    options_.stonewall_s = 1;
    options_.wear_out = wear_out;
    options_.write = options_.check_write = true;
    const IoOutcome outcome = Run();
    ASSERT_TRUE(outcome.failure.ok()) << outcome.failure.message();
    ASSERT_EQ(outcome.phases.size(), 2u);
    EXPECT_GT(outcome.phases[0].bytes, 0u);
    EXPECT_LT(outcome.phases[0].bytes, outcome.phases[0].expected_bytes);
    EXPECT_EQ(outcome.phases[1].bytes, outcome.phases[0].bytes);
    EXPECT_EQ(outcome.wrong_words, 0u);
    if (wear_out) {
      EXPECT_EQ(outcome.phases[0].transfers % options_.tasks, 0u);
      EXPECT_LE(outcome.phases[0].stonewall_bytes, outcome.phases[0].bytes);
      EXPECT_GE(outcome.phases[0].stonewall_s, 1.0);
    }
  }
}

TEST_F(IoRun, ColdReadGivesBackThePages) {
  options_.write = options_.check_read = options_.cold_read = true;
  const IoOutcome outcome = Run();
  EXPECT_TRUE(outcome.failure.ok()) << outcome.failure.message();
  EXPECT_EQ(outcome.wrong_words, 0u);
}

TEST(SumUp, SpansReachFromTheFirstBeginToTheLastEnd) {
  const TaskRecord early{.open_begin = 10,
                         .open_end = 11,
                         .transfer_begin = 11,
                         .transfer_end = 13,
                         .close_begin = 13,
                         .close_end = 14,
                         .done = 4};
  const TaskRecord late{.open_begin = 10.5,
                        .open_end = 10.75,
                        .transfer_begin = 12,
                        .transfer_end = 18,
                        .close_begin = 18,
                        .close_end = 20,
                        .done = 6,
                        .wrong = 2};
  const PhaseResult sum = SumUp({early, late}, 100);
  EXPECT_DOUBLE_EQ(sum.total_s, 10);
  EXPECT_DOUBLE_EQ(sum.open_s, 1);
  EXPECT_DOUBLE_EQ(sum.transfer_s, 7);
  EXPECT_DOUBLE_EQ(sum.close_s, 7);
  EXPECT_DOUBLE_EQ(sum.latency_s, 0.5);  // the better task's mean
  EXPECT_EQ(sum.bytes, 1000u);
  EXPECT_EQ(sum.wrong_words, 2u);
  EXPECT_DOUBLE_EQ(sum.bandwidth(), 100);
  EXPECT_EQ(SumUp({}, 100).bytes, 0u);
  EXPECT_EQ(SumUp({}, 100).latency_s, 0);
}

TEST(TaskRecord, TravelsUnchanged) {
  const TaskRecord one{.open_begin = 0.1,
                       .close_end = 1e9 / 3,
                       .done = uint64_t{1} << 60,
                       .wrong = 3,
                       .first_wrong = "a \"file\"",
                       .failure = Status(Code::kNoSpace, "full", 28)};
  const Result<ProcessRecord> all =
      JoinRecords({PackRecord({.tasks = {one, {}}, .cpu_s = 1}),
                   PackRecord({.tasks = {{}}, .cpu_s = 2, .interrupted = true})});
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->tasks.size(), 3u);
  EXPECT_EQ(all->tasks[0].close_end, one.close_end);
  EXPECT_EQ(all->tasks[0].done, one.done);
  EXPECT_EQ(all->tasks[0].first_wrong, one.first_wrong);
  EXPECT_EQ(all->tasks[0].failure.code(), Code::kNoSpace);
  EXPECT_EQ(all->tasks[0].failure.os_errno(), 28);
  EXPECT_TRUE(all->tasks[1].failure.ok());
  EXPECT_EQ(all->cpu_s, 3);
  EXPECT_TRUE(all->interrupted);
  for (const char* text : {"", "{}", "[1]", "{\"tasks\":[[1]],\"cpu_s\":0,\"interrupted\":false}"}) {
    EXPECT_EQ(JoinRecords({text}).status().code(), Code::kCorruption) << text;
  }
}

TEST(Crew, AllMeetAndLearnTheLargest) {
  std::vector<uint64_t> reached(16);
  Team team(16);
  const Status done = team.Run(
      [&](uint64_t task, Rendezvous& meeting) {
        for (uint64_t round = 0; round < 200; ++round) {
          if (meeting.Meet(task == round % 16 ? 1000 + round : 1) != 1000 + round) return;
        }
        reached[task] = 1;
      },
      {});
  EXPECT_TRUE(done.ok());
  EXPECT_THAT(reached, ::testing::Each(1u));
}

/// What other processes bring is known to all before anybody goes on.
TEST(Crew, BridgeAddsWhatOthersBring) {
  Rendezvous meeting(3, /*bridged=*/true);
  std::vector<uint64_t> sums(3);
  uint64_t exchanges = 0;
  Status served;
  const Status ran = RunThreads(
      3,
      [&](uint64_t task) {
        for (uint64_t round = 0; round < 50; ++round) sums[task] += meeting.Meet(task);
        meeting.Leave();
      },
      [&] {
        served = meeting.Serve(
            [&](uint64_t largest) -> Result<uint64_t> {
              EXPECT_EQ(largest, 2u);
              return ++exchanges;
            },
            [] {});
      });
  EXPECT_TRUE(ran.ok() && served.ok());
  EXPECT_EQ(exchanges, 50u);
  EXPECT_THAT(sums, ::testing::Each(50u * 51 / 2));
}

TEST(Crew, ABrokenBridgeKeepsNobodyWaiting) {
  Rendezvous meeting(3, /*bridged=*/true);
  Status served;
  const Status ran = RunThreads(
      3,
      [&](uint64_t) {
        for (uint64_t round = 0; round < 50; ++round) meeting.Meet();
        meeting.Leave();
      },
      [&] {
        served = meeting.Serve(
            [](uint64_t) -> Result<uint64_t> { return Status(Code::kUnavailable, "gone"); }, [] {});
      });
  EXPECT_TRUE(ran.ok());
  EXPECT_EQ(served.code(), Code::kUnavailable);
}

TEST(Team, TasksMustDivideEvenly) {
  EXPECT_EQ((*Team::Join(MakeSoloCommunicator(), 0, ""))->tasks(), 1u);
  EXPECT_EQ((*Team::Join(MakeSoloCommunicator(), 5, ""))->tasks(), 5u);
}

}  // namespace
}  // namespace stoker::bench
