#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cache/base/clock.h"
#include "cache/base/mutex.h"
#include "cache/base/result.h"
#include "workload/base/rules.h"
#include "workload/train/histogram.h"
#include "workload/train/read_meter.h"
#include "workload/train/sampler.h"

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

struct ReaderOptions {
  ReadShape shape = ReadShape::kWhole;
  bool read_labels = false;  // kNpz: y.npy too
  CacheControl cache_control = CacheControl::kNone;
  /// Bytes of one read call, and of the buffer: kWhole and kODirect. The public tool takes a whole file in
  /// one call into fresh memory; that costs page faults for every byte and gigabytes of memory, and the
  /// kernel cuts the call into requests anyhow. 0: DefaultPieceBytes.
  uint64_t piece_bytes = 0;
  std::shared_ptr<ReadMeter> meter;  // may be null; shared, as a thread that hangs may outlive the run
};
/// kWhole 1 MiB: stays in the second-level cache (0.055 CPU s per GB against 0.475 for one call into fresh
/// memory). kODirect 8 MiB: no copy to keep in cache, and the disk sees a deep queue. kNpz 256 KiB, fixed.
uint64_t DefaultPieceBytes(ReadShape shape);

/// Reads one file after the other, as the public benchmark's reader would, into one buffer it reuses. One
/// thread each.
class FileReader {
 public:
  virtual ~FileReader() = default;
  /// Opens, reads to the end, closes, and adds to `stats` what this file took. Error: the file is missing,
  /// unreadable, shorter than it says it is, or (kNpz) not an npz; counted there too.
  Status ReadFile(const std::string& path, ReadStats& stats);
  /// The samples of one run, in the file `path`. A container that is loaded as a whole is loaded again for
  /// each sample, as the public reader does.
  virtual Status ReadSamples(const std::string& path, const SampleRun& run, ReadStats& stats);

 protected:
  explicit FileReader(ReaderOptions options) : options_(options) {}
  /// Flags for open besides O_RDONLY | O_CLOEXEC.
  virtual int OpenFlags() const { return 0; }
  virtual Status ReadAll(int fd, uint64_t size, ReadStats& stats) = 0;
  const ReaderOptions options_;
};

/// kInvalidArgument: piece_bytes is not a multiple of 4 KiB (kODirect), or no memory for the buffer.
Result<std::unique_ptr<FileReader>> MakeFileReader(const ReaderOptions& options);

}  // namespace stoker::bench
