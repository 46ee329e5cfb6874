#pragma once

#include <functional>

#include "cache/base/result.h"
#include "workload/data/content.h"
#include "workload/data/dataset.h"
#include "workload/data/file_writer.h"

namespace stoker::bench {

/// Writes a dataset's files, whatever their format. What a file holds depends on the dataset's values and the
/// file's number alone. Immutable after construction; any thread, each with a FileWriter of its own.
class SampleWriter {
 public:
  /// REQUIRES that `dataset` outlives this.
  explicit SampleWriter(const Dataset& dataset);

  /// All bytes of `file` into `out`, up to its last Flush(). `stop` is asked between pieces. kCancelled: it
  /// said yes. Errors of the operating system otherwise.
  Status Write(uint64_t file, FileWriter& out, const std::function<bool()>& stop) const;

 private:
  class Job;
  const Dataset& dataset_;
  const Content content_;
};

}  // namespace stoker::bench
