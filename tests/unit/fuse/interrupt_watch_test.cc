#include "fuse/interrupt_watch.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace stoker {
namespace {

uint64_t Bit(int signal) {
  return uint64_t{1} << (signal - 1);
}

std::string Status(uint64_t own, uint64_t shared, uint64_t blocked) {
  char text[512];
  std::snprintf(text, sizeof text,
                "Name:\tapp\nThreads:\t1\nSigQ:\t0/1\nSigPnd:\t%016llx\nShdPnd:\t%016llx\nSigBlk:\t%016llx\n"
                "SigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n",
                static_cast<unsigned long long>(own), static_cast<unsigned long long>(shared),
                static_cast<unsigned long long>(blocked));
  return text;
}

TEST(WantsOut, TheKilledAndThoseAskedToStop) {
  EXPECT_TRUE(WantsOut(Status(Bit(SIGKILL), 0, 0)));
  EXPECT_TRUE(WantsOut(Status(0, Bit(SIGKILL), 0)));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    EXPECT_TRUE(WantsOut(Status(0, Bit(signal), 0))) << signal;
    EXPECT_TRUE(WantsOut(Status(Bit(signal), 0, 0))) << signal;
    EXPECT_FALSE(WantsOut(Status(0, Bit(signal), Bit(signal)))) << "blocked: " << signal;
  }
}

TEST(WantsOut, NobodyElse) {
  EXPECT_FALSE(WantsOut(Status(0, 0, 0)));
  for (const int signal : {SIGURG, SIGCHLD, SIGPROF, SIGALRM, SIGWINCH, SIGUSR1}) {
    EXPECT_FALSE(WantsOut(Status(Bit(signal), Bit(signal), 0))) << signal;
  }
}

TEST(WantsOut, WhatCannotBeReadCountsAsYes) {
  EXPECT_TRUE(WantsOut(""));
  EXPECT_TRUE(WantsOut("Name:\tapp\nSigPnd:\tzzz\nShdPnd:\t0\nSigBlk:\t0\n"));
}

}  // namespace
}  // namespace stoker
