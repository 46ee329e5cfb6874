#include "workload/report/student_t.h"

#include <gtest/gtest.h>

namespace stoker::bench {
namespace {

TEST(StudentT, QuantilesOfThePrintedTables) {
  const struct {
    double tail;
    uint64_t degrees;
    double t;
  } rows[] = {{0.25, 1, 1.000},   {0.05, 1, 6.314},    {0.025, 1, 12.706}, {0.005, 1, 63.657},
              {0.025, 2, 4.303},  {0.0005, 2, 31.599}, {0.025, 3, 3.182},  {0.025, 4, 2.776},
              {0.01, 5, 3.365},   {0.005, 9, 3.250},   {0.05, 10, 1.812},  {0.1, 19, 1.328},
              {0.025, 30, 2.042}, {0.001, 60, 3.232},  {0.025, 120, 1.980}};
  for (const auto& row : rows) {
    EXPECT_NEAR(StudentQuantile(row.tail, row.degrees), row.t, 0.00051) << row.tail << ", " << row.degrees;
  }
}

TEST(StudentT, DistributionAndQuantileAreInverse) {
  for (uint64_t degrees = 1; degrees <= 12; ++degrees) {
    EXPECT_DOUBLE_EQ(StudentCdf(0, degrees), 0.5);
    for (const double tail : {0.4, 0.1, 0.01, 0.0001}) {
      const double t = StudentQuantile(tail, degrees);
      EXPECT_NEAR(1 - StudentCdf(t, degrees), tail, tail * 1e-6);
      EXPECT_NEAR(StudentCdf(-t, degrees), tail, tail * 1e-6);
    }
  }
}

}  // namespace
}  // namespace stoker::bench
