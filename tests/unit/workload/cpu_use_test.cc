#include "workload/base/cpu_use.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

namespace stoker::bench {
namespace {

TEST(CpuUse, StatLine) {
  CpuSample sample;
  ASSERT_TRUE(ParseStatLine("cpu  100 20 30 800 40 5 6 7 9 9", sample));
  EXPECT_EQ(sample.total_ticks, 1008u) << "guest times are in user and nice already";
  EXPECT_EQ(sample.busy_ticks, 168u) << "all but idle and waiting for disks";
  EXPECT_FALSE(ParseStatLine("cpu0 1 2 3 4 5 6 7 8", sample));
  EXPECT_FALSE(ParseStatLine("cpu 1 2", sample));
  EXPECT_FALSE(ParseStatLine("", sample));
}

TEST(CpuUse, QuotaOfAControlGroup) {
  EXPECT_EQ(ParseCpuMax("150000 100000"), 1.5);
  EXPECT_FALSE(ParseCpuMax("max 100000").has_value());
  EXPECT_FALSE(ParseCpuMax("").has_value());
  EXPECT_FALSE(ParseCpuMax("0 100000").has_value());
}

TEST(CpuUse, SharesBetweenTwoMoments) {
  const CpuSample before{std::chrono::seconds(10), 3, 1000, 4000};
  const CpuSample after{std::chrono::seconds(20), 13, 1300, 4400};
  const CpuUse use = CpuUseBetween(before, after, 2);
  EXPECT_DOUBLE_EQ(use.process, 0.5) << "10 s of CPU in 10 s on two cores";
  EXPECT_DOUBLE_EQ(use.machine, 0.75);
  EXPECT_FALSE(use.client_limits());
  EXPECT_TRUE(CpuUseBetween(before, after, 1.25).client_limits());
  const CpuUse none = CpuUseBetween(before, before, 2);
  EXPECT_EQ(none.process, 0);
  EXPECT_EQ(none.machine, 0);
}

TEST(CpuUse, ThisProcessIsSeenWorking) {
  const double cores = UsableCores();
  EXPECT_GT(cores, 0);
  const CpuSample before = SampleCpu();
  volatile double sink = 1;
  // Until the process's own clock says so: a loaded machine takes longer, the share is smaller, and above 0.
  while (static_cast<double>(std::clock()) / CLOCKS_PER_SEC < before.process_s + 0.1)
    sink = std::sqrt(sink + 1);
  const CpuUse use = CpuUseBetween(before, SampleCpu(), cores);
  EXPECT_GT(use.process, 0);
  EXPECT_GT(use.machine, 0);
  EXPECT_LE(use.process, 1);
}

}  // namespace
}  // namespace stoker::bench
