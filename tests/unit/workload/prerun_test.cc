#include "workload/report/prerun.h"

#include <gtest/gtest.h>

namespace stoker::bench {
namespace {

constexpr double kMiBs = 1048576;

/// One B200 on unet3d: 7 x 146600628 / 0.162 s = 6041.1 MiB/s.
Prerun OneB200() {
  Prerun prerun;
  prerun.bytes_per_s = 7 * 146600628 / 0.162;
  prerun.best_seconds = 100;
  prerun.bytes_of_run = prerun.bytes_per_s * 100;
  prerun.fstype = "nfs4";
  prerun.links = {{"eth0", 100e9}};
  return prerun;
}
ProbeResult Probed(double mib_per_s) {
  ProbeResult probe;
  probe.files = 4;
  probe.bytes = 512 << 20;
  probe.threads = 4;
  probe.seconds = 2;
  probe.bytes_per_s = mib_per_s * kMiBs;
  return probe;
}

TEST(Prerun, OneB200AndA100GigabitLink) {
  EXPECT_EQ(
      PrerunLines(OneB200()),
      (std::vector<std::string>{"Required: 6041.1 MiB/s at AU 100 %, 5437.0 MiB/s at the threshold of 90 %",
                                "Network: where the data comes over one, this is 45.6 Gb/s of file bytes at "
                                "the threshold, 50.7 Gb/s at "
                                "AU 100 %; this host's fastest link: eth0, 100 Gb/s"}));
  EXPECT_TRUE(PrerunWarnings(OneB200()).empty());
}

TEST(Prerun, ALinkThatIsTooThinIsWarnedAbout) {
  Prerun prerun = OneB200();
  prerun.links = {{"eth0", 25e9}, {"eth1", 10e9}};
  ASSERT_EQ(PrerunWarnings(prerun).size(), 1u);
  EXPECT_EQ(PrerunWarnings(prerun)[0],
            "the threshold needs 45.6 Gb/s, this host's links carry 35 Gb/s: unless the bytes are cached on "
            "this host, "
            "AU cannot reach it; use fewer accelerators on each host");
  prerun.fstype = "ext4";
  EXPECT_TRUE(PrerunWarnings(prerun).empty());
  EXPECT_EQ(PrerunLines(prerun).size(), 1u) << "a local disk needs no link";
}

TEST(Prerun, ProbeAgainstDemand) {
  Prerun prerun = OneB200();
  prerun.accelerators = 2;
  prerun.bytes_per_s *= 2;
  prerun.probe = Probed(6041.13);
  const std::vector<std::string> lines = PrerunLines(prerun);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2],
            "Available: 6041.1 MiB/s, 50 % of the demand at AU 100 %: a probe of 512.0 MiB in 4 files by 4 "
            "threads in "
            "2.0 s, its pages given back");
  EXPECT_EQ(lines[3], "By the probe 1 accelerator would be fed, and the run take about 100 s");
  ASSERT_EQ(PrerunWarnings(prerun).size(), 1u);
  EXPECT_EQ(PrerunWarnings(prerun)[0],
            "the probe's 6041.1 MiB/s are less than the 10874.1 MiB/s that AU 90 % needs: the run is not "
            "expected to pass");
  prerun.probe = Probed(11000);
  EXPECT_TRUE(PrerunWarnings(prerun).empty());
}

TEST(Prerun, AProbeThatSaysLittleSaysSo) {
  Prerun prerun = OneB200();
  prerun.probe = Probed(9000);
  prerun.probe->page_cache_before = 0.4;
  EXPECT_EQ(PrerunWarnings(prerun).at(0).substr(0, 42), "40 % of the probed files lay in the page c");
  prerun.probe = Probed(9000);
  prerun.probe->errors = 2;
  prerun.probe->first_error = "/a: open: No such file or directory";
  EXPECT_EQ(PrerunWarnings(prerun).at(0),
            "the probe could not read 2 files; the first: /a: open: No such file or directory");
  EXPECT_EQ(PrerunLines(prerun).size(), 2u) << "no figure from a probe that failed";
  prerun.probe = Probed(9000);
  prerun.probe->hung = true;
  EXPECT_EQ(PrerunWarnings(prerun).at(0),
            "the probe's reads have not come back: the storage does not answer");
  prerun.probe = ProbeResult();
  EXPECT_EQ(PrerunWarnings(prerun).at(0), "the probe found nothing to read");
}

}  // namespace
}  // namespace stoker::bench
