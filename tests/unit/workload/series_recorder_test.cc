#include "workload/run/series_recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

using std::chrono::milliseconds;

SeriesRecorder::Options Quick(const std::shared_ptr<ReadMeter>& meter) {
  SeriesRecorder::Options options;
  options.meter = meter;
  options.hostname = "host";
  options.max_points = 8;
  options.first_interval = milliseconds(1);
  options.daemon_interval = milliseconds(1);
  return options;
}

TEST(SeriesRecorder, EveryByteIsInOneInterval) {
  const auto meter = std::make_shared<ReadMeter>();
  meter->AddCall(1000, 10);  // before the recorder began
  SeriesRecorder recorder(Quick(meter));
  for (int i = 0; i < 100; ++i) {
    meter->AddCall(7, 1000);
    if (i % 10 == 0) meter->AddFile(5000);
    SleepUntil(SteadyNow() + milliseconds(1), CancelToken());
  }
  const TimeSeries series = recorder.Finish();
  EXPECT_EQ(series.hostname, "host");
  ASSERT_GE(series.points.size(), 2u);
  ASSERT_LE(series.points.size(), 8u);
  uint64_t bytes = 0;
  uint64_t files = 0;
  for (size_t i = 0; i < series.points.size(); ++i) {
    bytes += series.points[i].bytes;
    files += series.points[i].files;
    EXPECT_LE(series.points[i].start_s, series.points[i].end_s);
    EXPECT_EQ(series.points[i].start_s, i == 0 ? 0 : series.points[i - 1].end_s);
  }
  EXPECT_EQ(bytes, 700u);
  EXPECT_EQ(files, 10u);
  EXPECT_TRUE(series.daemon.empty());
}

TEST(SeriesRecorder, TheDaemonsCountersBeginAtZero) {
  SeriesRecorder::Options options = Quick(std::make_shared<ReadMeter>());
  std::atomic<uint64_t> answers{0};
  options.ask_daemon = [&answers]() -> Result<DaemonCounters> {
    DaemonCounters counters;
    counters.pid = 5;
    counters.read_hits = 100 + 10 * answers.fetch_add(1);
    return counters;
  };
  SeriesRecorder recorder(std::move(options));
  while (answers < 4) SleepUntil(SteadyNow() + milliseconds(1), CancelToken());
  const TimeSeries series = recorder.Finish();
  ASSERT_EQ(series.daemon.size(), answers.load());
  for (size_t i = 0; i < series.daemon.size(); ++i) EXPECT_EQ(series.daemon[i].total.read_hits, 10 * i);
  EXPECT_EQ(series.daemon_note, "");
}

TEST(SeriesRecorder, ADaemonThatFailsIsNotAskedAgain) {
  SeriesRecorder::Options options = Quick(std::make_shared<ReadMeter>());
  std::atomic<int> answers{0};
  options.ask_daemon = [&answers]() -> Result<DaemonCounters> {
    DaemonCounters counters;
    counters.pid = answers.fetch_add(1) == 0 ? 5 : 6;  // another daemon from the second answer on
    return counters;
  };
  SeriesRecorder recorder(std::move(options));
  while (answers < 2) SleepUntil(SteadyNow() + milliseconds(1), CancelToken());
  SleepUntil(SteadyNow() + milliseconds(20), CancelToken());
  const TimeSeries series = recorder.Finish();
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(series.daemon.size(), 1u);
  EXPECT_NE(series.daemon_note.find("the daemon was replaced"), std::string::npos) << series.daemon_note;
}

TEST(SeriesRecorder, WithoutAnAnswerTheReasonIsKept) {
  SeriesRecorder::Options options = Quick(std::make_shared<ReadMeter>());
  options.ask_daemon = []() -> Result<DaemonCounters> { return Status(Code::kNotFound, "no program"); };
  SeriesRecorder recorder(std::move(options));
  const TimeSeries series = recorder.Finish();
  EXPECT_TRUE(series.daemon.empty());
  EXPECT_EQ(series.daemon_note, "no program");
  EXPECT_EQ(series.points.size(), 1u);
}

}  // namespace
}  // namespace stoker::bench
