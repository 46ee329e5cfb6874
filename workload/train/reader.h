#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/base/result.h"
#include "workload/base/format.h"
#include "workload/base/rules.h"
#include "workload/train/read_stats.h"
#include "workload/train/sampler.h"

namespace stoker::bench {

class ParquetFooters;

struct ReaderOptions {
  Format format = Format::kNpz;  // what the files are; how they are read is `shape`'s for npz and jpeg only
  ReadShape shape = ReadShape::kWhole;
  std::vector<std::string> columns;  // kParquet: those that are read; empty: all
  bool read_labels = false;          // kNpz: y.npy too
  CacheControl cache_control = CacheControl::kNone;
  /// Bytes of one read call, and of the buffer: kWhole and kODirect. The public tool takes a whole file in
  /// one call into fresh memory; that costs page faults for every byte and gigabytes of memory, and the
  /// kernel cuts the call into requests anyhow. 0: DefaultPieceBytes.
  uint64_t piece_bytes = 0;
  std::shared_ptr<ParquetFooters> footers;  // kParquet: shared by the readers of a run; null: parsed by each
  std::shared_ptr<ReadMeter> meter;         // may be null; shared, as a thread that hangs may outlive the run
};
/// kWhole 1 MiB: stays in the second-level cache (0.055 CPU s per GB against 0.475 for one call into fresh
/// memory); so does parquet. kODirect 8 MiB: no copy to keep in cache, and the disk sees a deep queue. kNpz
/// 256 KiB, fixed; so is a TFRecord reader's. `readers`: threads that have such a buffer; when there are so
/// many that all would take more than 1 GiB, whole and odirect get smaller ones, down to 128 KiB.
uint64_t DefaultPieceBytes(Format format, ReadShape shape, uint64_t readers);

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
  explicit FileReader(ReaderOptions options) : options_(std::move(options)) {}
  /// Flags for open besides O_RDONLY | O_CLOEXEC.
  virtual int OpenFlags() const { return 0; }
  virtual Status ReadAll(int fd, uint64_t size, ReadStats& stats) = 0;
  const ReaderOptions options_;
};

/// kInvalidArgument: piece_bytes is not a multiple of 4 KiB (kODirect), no memory for the buffer, or a format
/// that is not read file by file (kTfRecord) or not past the page cache.
Result<std::unique_ptr<FileReader>> MakeFileReader(const ReaderOptions& options);

}  // namespace stoker::bench
