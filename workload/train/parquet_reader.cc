#include "workload/train/parquet_reader.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "workload/data/parquet.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kFooterGuess = 64 * kKiB;  // what readers fetch in the hope that the footer is in it
constexpr size_t kFootersKept = 4;
constexpr size_t kGroupsKept = 4;  // the public reader's row_group_cache_size

constexpr size_t kFootersShared = 16;

}  // namespace

Result<std::shared_ptr<const ParquetPlaces>> ParquetFooters::Get(
    const std::string& path, uint64_t size,
    const std::function<Result<std::shared_ptr<const ParquetPlaces>>()>& parse) {
  MutexLock lock(mu_);
  for (const auto& places : known_) {
    if (places->path == path && places->size == size) return places;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const ParquetPlaces> places, parse());
  if (known_.size() == kFootersShared) known_.pop_front();
  known_.push_back(places);
  return places;
}

ParquetReader::ParquetReader(ReaderOptions options, Buffer buffer)
    : FileReader(options), buffer_(std::move(buffer)), file_(options.cache_control) {}

Status ParquetReader::ReadAll(int, uint64_t, ReadStats&) {
  return {Code::kInternal, "parquet files are read by rows"};
}

Status ParquetReader::ReadSamples(const std::string& path, const SampleRun& run, ReadStats& stats) {
  stats.meter = options_.meter.get();
  const Status status = ReadRows(path, run, stats);
  if (status.ok()) return status;
  file_.Abandon();
  return CountError(path, status, stats);
}

Status ParquetReader::ReadRows(const std::string& path, const SampleRun& run, ReadStats& stats) {
  if (!file_.is_open() || file_.path() != path) RETURN_IF_ERROR(Open(path, stats));
  const std::vector<uint64_t>& ends = places_->group_ends;
  const uint64_t rows = ends.empty() ? 0 : ends.back();
  if (run.first + run.count > rows) {
    return {Code::kCorruption, "holds " + std::to_string(rows) + " rows, row " +
                                   std::to_string(run.first + run.count - 1) + " was asked for"};
  }
  auto group = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), run.first) - ends.begin());
  for (; group < ends.size() && (group == 0 ? 0 : ends[group - 1]) < run.first + run.count; ++group) {
    const auto recent = std::find(recent_groups_.begin(), recent_groups_.end(), group);
    if (recent != recent_groups_.end()) {
      recent_groups_.erase(recent);
    } else {
      RETURN_IF_ERROR(ReadGroup(group, stats));
      if (recent_groups_.size() == kGroupsKept) recent_groups_.pop_front();
    }
    recent_groups_.push_back(group);
  }
  return Status::Ok();
}

Status ParquetReader::Open(const std::string& path, ReadStats& stats) {
  file_.Close(stats);
  places_.reset();
  recent_groups_.clear();
  RETURN_IF_ERROR(file_.Open(path));
  const auto known = std::find_if(remembered_.begin(), remembered_.end(), [&](const auto& places) {
    return places->path == path && places->size == file_.size();
  });
  if (known != remembered_.end()) {
    places_ = *known;
    remembered_.erase(known);
  } else {
    ASSIGN_OR_RETURN(places_, ReadFooter(stats));
    if (remembered_.size() == kFootersKept) remembered_.pop_front();
  }
  remembered_.push_back(places_);
  return Status::Ok();
}

Result<std::shared_ptr<const ParquetPlaces>> ParquetReader::ReadFooter(ReadStats& stats) {
  const uint64_t size = file_.size();
  const uint64_t guess = std::min({kFooterGuess, size, options_.piece_bytes});
  ASSIGN_OR_RETURN(const uint64_t got, file_.Pread(buffer_.get(), guess, size - guess, stats));
  if (got < guess) return CutShort(size - guess + got, size);
  if (guess < kParquetTailBytes) return Status(Code::kCorruption, "not a readable parquet file: too short");
  const std::span<const std::byte> end(buffer_.get(), guess);
  ASSIGN_OR_RETURN(const uint64_t footer_bytes, ParseParquetTail(end.last(kParquetTailBytes), size));
  std::span<const std::byte> footer;
  std::vector<std::byte> long_footer;
  if (footer_bytes + kParquetTailBytes <= guess) {
    footer = end.subspan(guess - kParquetTailBytes - footer_bytes, footer_bytes);
  } else {
    long_footer.resize(footer_bytes);
    const uint64_t begin = size - kParquetTailBytes - footer_bytes;
    for (uint64_t at = 0; at < footer_bytes;) {
      ASSIGN_OR_RETURN(const uint64_t more,
                       file_.Pread(long_footer.data() + at, footer_bytes - at, begin + at, stats));
      if (more == 0) return CutShort(begin + at, size);
      at += more;
    }
    footer = long_footer;
  }
  const auto parse = [&] { return Parse(footer); };
  return options_.footers != nullptr ? options_.footers->Get(file_.path(), size, parse) : parse();
}

Result<std::shared_ptr<const ParquetPlaces>> ParquetReader::Parse(std::span<const std::byte> footer) const {
  ASSIGN_OR_RETURN(const ParquetFooter parsed, ParseParquetFooter(footer, file_.size()));
  std::vector<size_t> wanted;
  for (size_t column = 0; column < parsed.columns.size(); ++column) {
    const std::string& name = parsed.columns[column];
    if (options_.columns.empty() ||
        std::find(options_.columns.begin(), options_.columns.end(), name) != options_.columns.end()) {
      wanted.push_back(column);
    }
  }
  if (wanted.empty()) return Status(Code::kCorruption, "has none of the columns that are to be read");
  auto places = std::make_shared<ParquetPlaces>();
  places->path = file_.path();
  places->size = file_.size();
  uint64_t rows = 0;
  for (size_t group = 0; group < parsed.groups(); ++group) {
    places->group_ends.push_back(rows += parsed.group_rows[group]);
    std::vector<ByteRange>& ranges = places->ranges.emplace_back();
    for (const size_t column : wanted) {
      const ByteRange& range = parsed.RangeOf(group, column);
      if (!ranges.empty() && ranges.back().end == range.begin) {
        ranges.back().end = range.end;
      } else {
        ranges.push_back(range);
      }
    }
    ranges.shrink_to_fit();
  }
  return std::shared_ptr<const ParquetPlaces>(std::move(places));
}

Status ParquetReader::ReadGroup(size_t group, ReadStats& stats) {
  for (const ByteRange& range : places_->ranges[group]) {
    for (uint64_t at = range.begin; at < range.end;) {
      const uint64_t bytes = std::min(options_.piece_bytes, range.end - at);
      ASSIGN_OR_RETURN(const uint64_t got, file_.Pread(buffer_.get(), bytes, at, stats));
      if (got == 0) return CutShort(at, file_.size());
      at += got;
    }
  }
  return Status::Ok();
}

}  // namespace stoker::bench
