#include "workload/run/series_recorder.h"

#include <pthread.h>

#include <utility>

#include "workload/base/steady.h"

namespace stoker::bench {

SeriesRecorder::SeriesRecorder(Options options)
    : options_(std::move(options)),
      start_(SteadyNow()),
      builder_(options_.max_points, std::chrono::duration<double>(options_.first_interval).count()),
      last_look_(start_),
      last_bytes_(options_.meter->bytes()),
      last_files_(options_.meter->files()),
      last_asked_(start_) {
  series_.unix_start =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  series_.hostname = options_.hostname;
  if (options_.ask_daemon) {
    const Result<DaemonCounters> zero = options_.ask_daemon();
    daemon_answers_ = zero.ok();
    if (zero.ok()) {
      daemon_zero_ = *zero;
      series_.daemon.push_back({0, *CountersBetween(*zero, *zero)});
    } else {
      series_.daemon_note = zero.status().message();
    }
  }
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "bench-series");
    Work();
  });
}

SeriesRecorder::~SeriesRecorder() {
  if (thread_.joinable()) static_cast<void>(Finish());
}

TimeSeries SeriesRecorder::Finish() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    wake_.NotifyAll();
  }
  thread_.join();
  Look();
  if (daemon_answers_) AskDaemonAt(SteadyNow());
  series_.points = builder_.Points();
  return std::move(series_);
}

void SeriesRecorder::Work() {
  while (true) {
    const auto interval =
        std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(builder_.interval_s()));
    if (!WaitUntil(last_look_ + interval)) return;
    Look();
    const Nanos now = SteadyNow();
    // Never oftener than points are kept: a long run is not asked more than max_points times either.
    if (daemon_answers_ && now - last_asked_ >= std::max(options_.daemon_interval, interval))
      AskDaemonAt(now);
  }
}

bool SeriesRecorder::WaitUntil(Nanos deadline) {
  MutexLock lock(mu_);
  while (!stop_) {
    const Nanos now = SteadyNow();
    if (now >= deadline) return true;
    wake_.WaitFor(mu_, deadline - now);
  }
  return false;
}

void SeriesRecorder::Look() {
  const Nanos now = SteadyNow();
  const uint64_t bytes = options_.meter->bytes();
  const uint64_t files = options_.meter->files();
  builder_.Add(SecondsAt(last_look_), SecondsAt(now), bytes - last_bytes_, files - last_files_,
               options_.meter->DrainCalls(), options_.meter->DrainFiles());
  last_look_ = now;
  last_bytes_ = bytes;
  last_files_ = files;
}

void SeriesRecorder::AskDaemonAt(Nanos now) {
  last_asked_ = now;
  const Result<DaemonCounters> answer = options_.ask_daemon();
  const Result<DaemonCounters> counted =
      answer.ok() ? CountersBetween(daemon_zero_, *answer) : Result<DaemonCounters>(answer.status());
  if (counted.ok()) {
    series_.daemon.push_back({SecondsAt(SteadyNow()), *counted});
    return;
  }
  // One failure ends the asking: a daemon that is slow or gone should not be pressed by its judge.
  daemon_answers_ = false;
  series_.daemon_note =
      "from " + std::to_string(static_cast<int64_t>(SecondsAt(now))) + " s on: " + counted.status().message();
}

}  // namespace stoker::bench
