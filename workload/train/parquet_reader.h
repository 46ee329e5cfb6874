#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "workload/train/counted_io.h"
#include "workload/train/reader.h"

namespace stoker::bench {

/// Of one parquet file, the places that matter to a reader.
struct ParquetPlaces {
  std::string path;
  uint64_t size = 0;                           // of the file they were read from
  std::vector<uint64_t> group_ends;            // [groups]: rows up to the end of each
  std::vector<std::vector<ByteRange>> ranges;  // [groups]: of the wanted columns, neighbours joined
};

/// Footers as they were understood, shared by the readers of a run: each reads the footer, as workers of
/// their own would, but a footer of ten megabytes (dlrm) is taken apart once. Any thread.
class ParquetFooters {
 public:
  /// What is known of the file, or what `parse` makes of it; others that ask for the same wait meanwhile.
  Result<std::shared_ptr<const ParquetPlaces>> Get(
      const std::string& path, uint64_t size,
      const std::function<Result<std::shared_ptr<const ParquetPlaces>>()>& parse) EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::deque<std::shared_ptr<const ParquetPlaces>> known_ GUARDED_BY(mu_);  // latest last, a few
};

/// Reads rows of parquet files by byte ranges: the footer, as a real reader finds it (the last 64 KiB, and
/// all of it when it is longer), then of each row group the chunks of the wanted columns, neighbours in one
/// call. No value is decoded. As the public reader does, one file stays open until another is asked for, and
/// the last row groups are not read again; unlike there, only the last few footers are remembered, so that
/// memory is bounded. A batch's rows lie in as many row groups as they touch, and all of each is read.
class ParquetReader final : public FileReader {
 public:
  ParquetReader(ReaderOptions options, Buffer buffer);
  Status ReadSamples(const std::string& path, const SampleRun& run, ReadStats& stats) override;

 protected:
  /// Every row of the file: for readers that take files whole.
  Status ReadAll(int fd, uint64_t size, ReadStats& stats) override;

 private:
  Status ReadRows(const std::string& path, const SampleRun& run, ReadStats& stats);
  Status Open(const std::string& path, ReadStats& stats);
  Result<std::shared_ptr<const ParquetPlaces>> ReadFooter(ReadStats& stats);
  Result<std::shared_ptr<const ParquetPlaces>> Parse(std::span<const std::byte> footer) const;
  Status ReadGroup(size_t group, ReadStats& stats);

  const Buffer buffer_;
  CountedFile file_;
  std::shared_ptr<const ParquetPlaces> places_;                  // of file_
  std::deque<std::shared_ptr<const ParquetPlaces>> remembered_;  // latest last
  std::deque<size_t> recent_groups_;                             // of file_, latest last
};

}  // namespace stoker::bench
