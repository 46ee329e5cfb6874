#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cache/base/clock.h"
#include "cache/base/mutex.h"
#include "workload/train/histogram.h"
#include "workload/train/read_meter.h"

namespace stoker::bench {

/// What was read, and how long it took.
struct ReadStats {
  uint64_t files = 0;
  uint64_t bytes = 0;  // true bytes that read calls returned
  uint64_t calls = 0;
  uint64_t errors = 0;  // files that could not be read whole
  std::string first_error;
  Histogram file_ns;           // open to close, per file
  Histogram call_ns;           // per read call
  ReadMeter* meter = nullptr;  // counts along, if there is one; not merged

  void Merge(const ReadStats& other);
};

/// Counts that several threads add to, and others may look at any time.
class SharedReadStats {
 public:
  void Add(const ReadStats& more) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    stats_.Merge(more);
  }
  ReadStats Snapshot() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return stats_;
  }

 private:
  mutable Mutex mu_;
  ReadStats stats_ GUARDED_BY(mu_);
};

/// One thread's counts on their way to shared ones: passed on now and then (adding 30 KiB of histograms for
/// every small file would cost more than reading it), at once after an error, and at the end. One thread.
class BufferedReadStats {
 public:
  explicit BufferedReadStats(SharedReadStats& to);
  ~BufferedReadStats();
  BufferedReadStats(const BufferedReadStats&) = delete;
  BufferedReadStats& operator=(const BufferedReadStats&) = delete;
  ReadStats& local() { return *local_; }
  /// After each file or call.
  void Tick(bool ok);

 private:
  void PassOn();

  SharedReadStats& to_;
  const std::unique_ptr<ReadStats> local_;
  Nanos next_;
};

}  // namespace stoker::bench
