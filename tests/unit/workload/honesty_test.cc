#include "workload/report/honesty.h"

#include <gtest/gtest.h>

namespace stoker::bench {
namespace {

RunRecord Record() {
  RunRecord record;
  record.cpu = {2, 0.25, 0.5};
  record.log.reads.bytes = 4'000'000'000;
  return record;
}

TEST(Honesty, ClientCpuIsAlwaysSaid) {
  EXPECT_EQ(HonestyLines(Record()),
            std::vector<std::string>{
                "Client CPU: the generator used 25.0 % of 2 cores; 50.0 % of the machine was busy"});
  EXPECT_TRUE(HonestyWarnings(Record()).empty());
}

TEST(Honesty, ABusyClientIsWarnedAbout) {
  RunRecord record = Record();
  record.cpu = {1.5, 0.93, 0.97};
  ASSERT_EQ(HonestyWarnings(record).size(), 1u);
  EXPECT_EQ(
      HonestyWarnings(record)[0],
      "the generator used 93.0 % of its 1.5 cores: the client and not the storage may be the limit; use "
      "more client hosts, fewer accelerators on each, or --read-shape odirect");
  record.cpu = {2, 0.1, 0.8};
  ASSERT_EQ(HonestyWarnings(record).size(), 1u);
  EXPECT_EQ(HonestyWarnings(record)[0].substr(0, 65),
            "this machine was 80.0 % busy (the generator: 10.0 % of its 2 core");
  record.cpu = {2, 0.799, 0.799};
  EXPECT_TRUE(HonestyWarnings(record).empty());
}

TEST(Honesty, TheDaemonsCountersAndTheirBlindSpot) {
  RunRecord record = Record();
  DaemonCounters daemon;
  daemon.bytes_ufs = 1'000'000'000;
  daemon.bytes_delivered = 2'000'000'000;
  daemon.bytes_cache = 1'500'000'000;
  daemon.opens = 28;
  daemon.passthrough_opens = 12;
  record.cache.daemon = daemon;
  EXPECT_EQ(
      HonestyLines(record).at(1),
      "Cache: 953.7 MiB came from the UFS for 3.7 GiB read (75.0 % needed no UFS); of 1.9 GiB that the "
      "daemon handed out itself 75.0 % came from its cache; 12 of 28 opens were passed through, whose reads "
      "the daemon does not see");
}

TEST(Honesty, ADaemonThatDoesNotAnswerIsANote) {
  RunRecord record = Record();
  record.cache.daemon_note = "no program \"stoker\" beside stoker-bench or in PATH";
  EXPECT_EQ(
      HonestyLines(record).at(1),
      "Cache: the daemon's counters are not known: no program \"stoker\" beside stoker-bench or in PATH");
}

}  // namespace
}  // namespace stoker::bench
