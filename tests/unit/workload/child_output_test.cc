#include "workload/base/child_output.h"

#include <gtest/gtest.h>

#include <csignal>

#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

constexpr Nanos kPlenty = std::chrono::seconds(60);

Result<ChildOutput> Shell(const std::string& script, Nanos timeout = kPlenty) {
  return RunChild({"/bin/sh", "-c", script}, timeout);
}

TEST(RunChild, TakesBothStreamsAndTheStatus) {
  const Result<ChildOutput> done = Shell("echo out; echo err >&2; exit 7");
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(done->out, "out\n");
  EXPECT_EQ(done->err, "err\n");
  EXPECT_EQ(done->exit_status, 7);
}

TEST(RunChild, ArgumentsAreNotReadByAShell) {
  const Result<ChildOutput> done = RunChild({"/bin/echo", "$(echo x)", "a b", "`c`"}, kPlenty);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->out, "$(echo x) a b `c`\n");
}

TEST(RunChild, InputIsEmpty) {
  const Result<ChildOutput> done = Shell("cat; echo end");
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->out, "end\n");
}

TEST(RunChild, OutputBeyondTheBoundIsDroppedAndTheChildStillEnds) {
  const Result<ChildOutput> done = Shell("head -c 3000000 /dev/zero; exit 3");
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->out.size(), 1u << 20);
  EXPECT_EQ(done->exit_status, 3);
}

TEST(RunChild, ASignalIsAStatusAboveTheOthers) {
  const Result<ChildOutput> done = Shell("kill -TERM $$");
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->exit_status, 128 + SIGTERM);
}

TEST(RunChild, SignalsBlockedHereReachTheChild) {
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  const Result<ChildOutput> done = Shell("kill -TERM $$; echo survived");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->exit_status, 128 + SIGTERM);
}

/// A grandchild that holds the pipes, or a child that closed them, must not make us wait past the time.
TEST(RunChild, ATimeOutKillsTheChildAndWhatItStarted) {
  for (const char* script : {"sleep 1000", "echo $$; sleep 1000 & wait", "exec >&- 2>&-; sleep 1000",
                             "trap '' TERM INT; sleep 1000"}) {
    const Nanos start = SteadyNow();
    const Result<ChildOutput> done = Shell(script, std::chrono::milliseconds(300));
    ASSERT_FALSE(done.ok()) << script;
    EXPECT_EQ(done.status().code(), Code::kDeadlineExceeded) << script;
    EXPECT_EQ(done.status().message(), "/bin/sh did not end within 300ms");
    EXPECT_LT(SteadyNow() - start, std::chrono::seconds(100)) << "the child's own time";
  }
}

TEST(RunChild, WhatCannotBeStartedIsAnError) {
  EXPECT_EQ(RunChild({"/nonexistent/stoker"}, kPlenty).status().code(), Code::kNotFound);
  EXPECT_EQ(RunChild({"/etc/passwd"}, kPlenty).status().code(), Code::kPermissionDenied);
}

}  // namespace
}  // namespace stoker::bench
