#include "workload/base/progress.h"

#include <gtest/gtest.h>

#include "cache/base/units.h"

namespace stoker::bench {
namespace {

TEST(Progress, TellsShareRateAndTimeLeft) {
  EXPECT_EQ(Progress::Describe("datagen", 3, 10, 25 * kMiB, 100 * kMiB, 5),
            "datagen: 25 %, 3/10 files, 25.0 MiB of 100.0 MiB, 5.0 MiB/s, 0:15 left");
  EXPECT_EQ(Progress::Describe("datagen", 10, 10, 100 * kMiB, 100 * kMiB, 4000),
            "datagen: 100 %, 10/10 files, 100.0 MiB of 100.0 MiB, 25.6 KiB/s, took 1:06:40");
  EXPECT_EQ(Progress::Describe("datagen", 0, 10, 0, 100 * kMiB, 0),
            "datagen: 0 %, 0/10 files, 0 B of 100.0 MiB");
}

}  // namespace
}  // namespace stoker::bench
