#include "workload/base/daemon_counters.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

constexpr char kStatus[] =
    R"({"pid": 41, "version": "0.1.0", "passthrough": {"active": true, "reason": ""},
        "reads": {"hits": 10, "misses": 2, "bytes_cache": 750, "bytes_ufs": 300, "bytes_delivered": 1000},
        "opens": 9, "passthrough_opens": 4, "errors": {"reads": 1, "ufs": 2, "cache": 0}})";

class FakeStoker : public ::testing::Test {
 protected:
  /// A program called stoker that runs `script`.
  std::string Make(const std::string& script) {
    std::string path = dir_ / "stoker";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
    return path;
  }
  const testing::TempDir dir_;
};

TEST(DaemonStatus, IsRead) {
  const Result<DaemonCounters> counters = ParseDaemonStatus(kStatus);
  ASSERT_TRUE(counters.ok()) << counters.status().ToString();
  EXPECT_EQ(counters->pid, 41);
  EXPECT_EQ(counters->version, "0.1.0");
  EXPECT_TRUE(counters->passthrough);
  EXPECT_EQ(counters->read_hits, 10u);
  EXPECT_EQ(counters->read_misses, 2u);
  EXPECT_EQ(counters->bytes_cache, 750u);
  EXPECT_EQ(counters->bytes_ufs, 300u);
  EXPECT_EQ(counters->bytes_delivered, 1000u);
  EXPECT_EQ(counters->opens, 9u);
  EXPECT_EQ(counters->passthrough_opens, 4u);
  EXPECT_EQ(counters->read_errors, 1u);
  EXPECT_EQ(counters->ufs_errors, 2u);
}

TEST(DaemonStatus, AnotherTextIsRefused) {
  for (const char* text :
       {"", "{", "[]", "null", R"({"pid": "x"})", R"({"pid": 1, "version": "2"})", "stoker: no mount\n"}) {
    EXPECT_EQ(ParseDaemonStatus(text).status().code(), Code::kCorruption) << text;
  }
}

TEST(DaemonCounters, DifferencesAndShares) {
  const DaemonCounters before = *ParseDaemonStatus(kStatus);
  DaemonCounters after = before;
  after.bytes_cache += 300;
  after.bytes_delivered += 400;
  after.bytes_ufs += 250;
  after.passthrough_opens += 3;
  const Result<DaemonCounters> between = CountersBetween(before, after);
  ASSERT_TRUE(between.ok());
  EXPECT_EQ(between->bytes_cache, 300u);
  EXPECT_EQ(between->passthrough_opens, 3u);
  EXPECT_EQ(between->opens, 0u);
  EXPECT_DOUBLE_EQ(HitShare(*between), 0.75);
  EXPECT_DOUBLE_EQ(ShareWithoutUfs(*between, 1000), 0.75);
  EXPECT_DOUBLE_EQ(ShareWithoutUfs(*between, 100), 0) << "more was fetched than read";
  EXPECT_DOUBLE_EQ(ShareWithoutUfs(*between, 0), 0);
  EXPECT_DOUBLE_EQ(HitShare(DaemonCounters{}), 0);

  after.pid = 42;
  EXPECT_EQ(CountersBetween(before, after).status().message(),
            "the daemon was replaced (process 41, then 42): its counters began anew");
}

TEST_F(FakeStoker, IsAskedAboutTheMountPoint) {
  const std::string program =
      Make("echo \"$@\" > \"$(dirname \"$0\")/asked\"\ncat <<'END'\n" + std::string(kStatus) + "\nEND");
  const Result<DaemonCounters> counters = AskDaemon(program, "/mnt/with blank; $(x)");
  ASSERT_TRUE(counters.ok()) << counters.status().ToString();
  EXPECT_EQ(counters->bytes_ufs, 300u);
  std::ifstream asked(dir_ / "asked");
  std::string line;
  std::getline(asked, line);
  EXPECT_EQ(line, "status --json /mnt/with blank; $(x)");
}

TEST_F(FakeStoker, WhateverItDoesIsANote) {
  std::string program = Make("echo 'stoker: no daemon answers' >&2; echo more >&2; exit 1");
  EXPECT_EQ(AskDaemon(program, "/mnt").status().message(),
            program + " status left with 1: stoker: no daemon answers");
  program = Make("echo '{\"pid\": 1}'");
  EXPECT_EQ(AskDaemon(program, "/mnt").status().code(), Code::kCorruption);
  program = Make("sleep 1000");
  EXPECT_EQ(AskDaemon(program, "/mnt", std::chrono::milliseconds(200)).status().code(),
            Code::kDeadlineExceeded);
  EXPECT_EQ(AskDaemon(dir_ / "missing", "/mnt").status().code(), Code::kNotFound);
}

TEST_F(FakeStoker, IsFoundInPathWhenNoneIsBesideUs) {
  const std::string program = Make("exit 0");
  const char* const old = std::getenv("PATH");
  const std::string kept = old == nullptr ? "" : old;
  ::setenv("PATH", ("relative::/nonexistent:" + dir_.path()).c_str(), 1);
  const Result<std::string> found = FindStokerProgram();
  ::setenv("PATH", kept.c_str(), 1);
  ASSERT_TRUE(found.ok());
  // The build folder, where this test lies, may hold the real one.
  EXPECT_TRUE(*found == program || found->compare(found->rfind('/'), std::string::npos, "/stoker") == 0);
}

}  // namespace
}  // namespace stoker::bench
