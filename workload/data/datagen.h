#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "cache/base/cancel.h"
#include "cache/base/result.h"
#include "workload/data/dataset.h"

namespace stoker::bench {

struct DatagenOptions {
  Dataset dataset;
  uint64_t writers = 2;
  std::FILE* progress = nullptr;  // where progress goes; nullptr: nowhere
  /// Several processes share the work: this one writes the files `part`, part + parts, … One of them has part
  /// 0, which keeps other calls away from the folder.
  uint64_t part = 0;
  uint64_t parts = 1;
};

struct DatagenOutcome {
  uint64_t files_written = 0;
  uint64_t files_kept = 0;  // were there already, with the right size
  uint64_t bytes_written = 0;
};

/// Makes the dataset's files. A file appears under its name only when it is complete (from 1 MiB on: and on
/// the disk), so running it again after the process was ended in any way writes what is missing. What the
/// files hold depends on the dataset's values alone. Nothing is left in the page cache, and all is on the
/// disk when this returns. Memory: a bit per file and 1.3 MiB per writer. kInvalidArgument: the folder cannot
/// be written. kNoSpace: less free space than the missing files need (found before writing), or the disk ran
/// full. kBusy: another datagen works there. kCancelled: `cancel`; what is complete stays. Error of the
/// operating system otherwise, with path.
Result<DatagenOutcome> GenerateDataset(const DatagenOptions& options, const CancelToken& cancel);

/// Parallel writers when the user gives no number: enough to keep a disk busy while one waits for it.
uint64_t DefaultWriters();

}  // namespace stoker::bench
