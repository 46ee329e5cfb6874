#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "cache/base/clock.h"
#include "cache/base/mutex.h"
#include "cache/base/result.h"
#include "workload/report/time_series.h"
#include "workload/train/read_meter.h"

namespace stoker::bench {

/// Looks at a run while it works and keeps what it saw: bytes, files and latencies every tenth of a second at
/// first, in intervals that grow with the run; the daemon's counters at most once a second. One thread of its
/// own, some microseconds of CPU a look (and the few ms of `stoker status` when there is a daemon to ask).
class SeriesRecorder {
 public:
  struct Options {
    std::shared_ptr<ReadMeter> meter;
    std::string hostname;
    std::function<Result<DaemonCounters>()> ask_daemon;  // empty: there is none
    size_t max_points = 240;
    Nanos first_interval = std::chrono::milliseconds(100);
    Nanos daemon_interval = std::chrono::seconds(1);
  };

  /// Starts looking. The daemon is asked once before it returns, so that the first answer is the run's zero.
  explicit SeriesRecorder(Options options);
  ~SeriesRecorder();
  SeriesRecorder(const SeriesRecorder&) = delete;
  SeriesRecorder& operator=(const SeriesRecorder&) = delete;

  /// Takes a last look and stops. Once; waits for an answer of the daemon, if one is due.
  TimeSeries Finish();

 private:
  void Work();
  bool WaitUntil(Nanos deadline);
  void Look();
  void AskDaemonAt(Nanos now);
  double SecondsAt(Nanos now) const { return std::chrono::duration<double>(now - start_).count(); }

  const Options options_;
  const Nanos start_;
  // The thread's while it runs, then Finish()'s.
  TimeSeries series_;
  SeriesBuilder builder_;
  Nanos last_look_;
  uint64_t last_bytes_;
  uint64_t last_files_;
  DaemonCounters daemon_zero_;
  bool daemon_answers_ = false;
  Nanos last_asked_;

  Mutex mu_;
  CondVar wake_;
  bool stop_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stoker::bench
