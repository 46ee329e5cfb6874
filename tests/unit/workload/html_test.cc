#include "workload/report/html.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "cache/base/random.h"
#include "tests/support/seed.h"
#include "workload/base/profile.h"
#include "workload/report/chart.h"
#include "workload/report/html_report.h"

namespace stoker::bench {
namespace {

/// Names of the elements and attributes in a page; a failure for markup that no writer of ours makes.
void ReadMarkup(const std::string& page, std::set<std::string>& elements, std::set<std::string>& attributes) {
  size_t at = page.find("</style>");  // the style sheet is constant, and has no markup
  if (at == std::string::npos) at = 0;
  while ((at = page.find('<', at)) != std::string::npos) {
    ++at;
    if (page[at] == '/') ++at;
    const size_t name_end = page.find_first_of(" >/", at);
    ASSERT_NE(name_end, std::string::npos);
    elements.insert(page.substr(at, name_end - at));
    at = name_end;
    while (page[at] != '>') {
      if (page[at] == ' ' || page[at] == '/') {
        ++at;
        continue;
      }
      const size_t equals = page.find_first_of("=> ", at);
      attributes.insert(page.substr(at, equals - at));
      at = equals;
      if (page[at] != '=') continue;
      ASSERT_EQ(page[at + 1], '"') << page.substr(at, 60);
      at = page.find('"', at + 2);
      ASSERT_NE(at, std::string::npos);
      ++at;
    }
  }
}

TEST(Html, EscapesWhatCouldBeMarkup) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(EscapeHtml("größe µ 漢 😀"), "größe µ 漢 😀");
  EXPECT_EQ(EscapeHtml(std::string("a\0b\x1b[1m\x7f\n", 9)), "ab[1m ");
  EXPECT_EQ(EscapeHtml("\xff\xc0\xbc<"), "\ufffd\ufffd\ufffd&lt;");  // an overlong "<" stays none
  EXPECT_EQ(EscapeHtml("\xe2\x82"), "\ufffd\ufffd");
  EXPECT_EQ(EscapeHtml("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");  // a surrogate
}

TEST(Html, NothingComesOutAsMarkup) {
  Random random(testing::TestSeed());
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (uint64_t length = random.Below(40); length > 0; --length)
      text += static_cast<char>(random.Below(256));
    const std::string out = EscapeHtml(text);
    EXPECT_EQ(out.find_first_of("<>\"'"), std::string::npos);
  }
}

TEST(Html, NumbersForPeople) {
  EXPECT_EQ(Num(63810.46, 1), "63\u202f810.5");
  EXPECT_EQ(Num(1234.5, 1), "1234.5");
  EXPECT_EQ(Num(-1234567, 0), "−1\u202f234\u202f567");
  EXPECT_EQ(Num(-0.001, 1), "0.0");
  EXPECT_EQ(Num(std::nan(""), 1), "–");
  EXPECT_EQ(Micros(850), "850 µs");
  EXPECT_EQ(Micros(12'345), "12.3 ms");
  EXPECT_EQ(Micros(999'600), "1.00 s");
  EXPECT_EQ(Micros(0), "0 µs");
}

TEST(Chart, TicksAreRoundAndCoverTheAxis) {
  Random random(testing::TestSeed());
  for (int i = 0; i < 300; ++i) {
    const double low = static_cast<double>(random.Below(1000)) / 7;
    const double high = low + std::pow(10, static_cast<double>(random.Below(12)) - 4);
    const std::vector<double> ticks = AxisTicks(low, high, 5);
    ASSERT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.size(), 13u);
    EXPECT_GE(ticks.back(), high * (1 - 1e-9));
    EXPECT_GE(ticks.front(), low * (1 - 1e-9));
    for (size_t t = 1; t < ticks.size(); ++t) EXPECT_GT(ticks[t], ticks[t - 1]);
  }
  EXPECT_EQ(AxisTicks(0, 100, 5), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(AxisTicks(3, 3, 5), (std::vector<double>{3}));
}

TEST(Chart, StrangeFiguresAreDrawnOrLeftOut) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<std::pair<double, double>>> cases = {{},
                                                                     {{0, 0}},
                                                                     {{0, nan}},
                                                                     {{0, 5}, {1, nan}, {2, 7}},
                                                                     {{1, 1e300}, {2, 1}},
                                                                     {{0, infinity}, {1, 2}},
                                                                     {{3, -1}}};
  for (const auto& points : cases) {
    for (const bool log : {false, true}) {
      Chart chart;
      chart.title = "t";
      chart.log_y = log;
      chart.lines.push_back({"l", 0, true, true, true, points});
      const std::string figure = ChartFigure(chart);
      const std::string picture = figure.substr(0, figure.find("<ul"));
      EXPECT_EQ(picture.find("nan"), std::string::npos) << figure;
      EXPECT_EQ(picture.find("inf"), std::string::npos) << figure;
    }
  }
}

/// A run whose every text tries to become markup.
RunSummary Hostile(const std::string& evil) {
  RunSummary run;
  run.folder = "/r/" + evil;
  run.below = {evil, evil};
  run.model = run.accelerator = run.hostname = run.start = run.end = evil;
  run.edition = Edition::kV30;
  run.accelerators = 2;
  run.au_percent = {91, 92};
  run.samples_per_s = {1, 2};
  run.metric_json = "{}";
  run.overrides = {evil + "=" + evil};
  run.series_fault = evil;
  OwnSummary own;
  own.version = own.status = own.failure = own.note = own.first_read_error = own.division = own.data_dir =
      evil;
  own.mount = own.fstype = evil;
  own.read_errors = 1;
  own.rules = own.parameters = own.daemon = {{evil, evil}};
  own.rule_overrides = {evil};
  own.au_threshold_percent = 90;
  own.call_us.count = own.file_us.count = 1;
  own.epochs = {{100, 101, true, 91, 1, {91, 92}}, {101, 102, true, 92, 1, {90, 93}}};
  run.own = own;
  TimeSeries series;
  series.unix_start = 100;
  series.hostname = series.daemon_note = evil;
  series.points = {{0, 1, 1 << 20, 1, {1, 2, 3, 4}, {1, 2, 3, 4}},
                   {1, 2, 2 << 20, 1, {1, 2, 3, 4}, {1, 2, 3, 4}}};
  series.daemon = {{0, {}}, {1, {}}, {2, {}}};
  run.series = series;
  return run;
}

TEST(HtmlReport, NothingFromAFileBecomesMarkup) {
  std::set<std::string> plain_elements;
  std::set<std::string> plain_attributes;
  ReadMarkup(HtmlReport(Combine({{"/r", {Hostile("a"), Hostile("b")}}}, std::nullopt, ProfileDirs("")), "t"),
             plain_elements, plain_attributes);
  EXPECT_EQ(plain_elements.count("script"), 0u);
  for (const std::string evil : {"<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>",
                                 "' onmouseover='alert(1)", "</style><svg onload=alert(1)>", "&lt;b&gt;",
                                 "\xc0\xbc"
                                 "script\xc0\xbe"}) {
    const std::string page = HtmlReport(
        Combine({{evil, {Hostile(evil), Hostile("x" + evil)}}}, std::nullopt, ProfileDirs("")), evil);
    std::set<std::string> elements;
    std::set<std::string> attributes;
    ReadMarkup(page, elements, attributes);
    EXPECT_EQ(elements, plain_elements) << evil;
    EXPECT_EQ(attributes, plain_attributes) << evil;
  }
}

TEST(HtmlReport, FetchesNothingAndSaysWhatItFound) {
  RunSummary run = Hostile("plain");
  run.model = "unet3d";
  run.accelerator = "b200";
  const std::string page = HtmlReport(Combine({{"/r", {run}}}, std::nullopt, ProfileDirs("")), "");
  EXPECT_EQ(page.find("http:"), std::string::npos);
  EXPECT_EQ(page.find("https:"), std::string::npos);
  EXPECT_EQ(page.find("@import"), std::string::npos);
  EXPECT_EQ(page.find("url("), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("INVALID"), std::string::npos);
  EXPECT_NE(page.find("1 file could not be read"), std::string::npos);
  for (const char* title :
       {"AU per epoch", "Read throughput over time", "Read-call latency over time",
        "Where the bytes came from", "Hits and misses of the daemon", "AU per accelerator"}) {
    EXPECT_NE(page.find(title), std::string::npos) << title;
  }
}

TEST(HtmlReport, MeanThroughputLiesNotAboveTheHighestInterval) {
  RunSummary run = Hostile("plain");
  run.own->true_bytes = 3 << 20;
  // The epochs' own rate leaves out the time between them, which an interval of the series includes.
  run.own->true_mib_per_s = 9;
  const auto page = [&] { return HtmlReport(Combine({{"/r", {run}}}, std::nullopt, ProfileDirs("")), ""); };
  EXPECT_NE(page().find("Mean 1.5 MiB/s, highest interval 2.0 MiB/s."), std::string::npos) << page();
  EXPECT_EQ(page().find("process 0 alone"), std::string::npos);
  // Of four processes, one wrote its series.
  run.own->true_bytes = 12 << 20;
  EXPECT_NE(
      page().find("This is process 0 alone, which read 25.0 % of all bytes; all processes together read "
                  "9.0 MiB/s."),
      std::string::npos);
}

}  // namespace
}  // namespace stoker::bench
