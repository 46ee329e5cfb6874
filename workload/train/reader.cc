#include "workload/train/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/units.h"
#include "workload/data/npz.h"
#include "workload/train/counted_io.h"
#include "workload/train/parquet_reader.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kAllBuffersBytes = kGiB;
constexpr uint64_t kSmallestPiece = 128 * kKiB;

/// Front to back in equal pieces.
class SequentialReader : public FileReader {
 public:
  SequentialReader(ReaderOptions options, Buffer buffer) : FileReader(options), buffer_(std::move(buffer)) {}

 protected:
  Status ReadAll(int fd, uint64_t size, ReadStats& stats) override {
    End end{};
    uint64_t at = 0;
    while (at < size) {
      ASSIGN_OR_RETURN(const uint64_t got, CountedPread(fd, buffer_.get(), options_.piece_bytes, at, stats));
      if (got == 0) return CutShort(at, size);
      Append(end, got);
      at += got;
    }
    if (options_.format != Format::kNpz) return Status::Ok();
    // A file that was cut reads well to its end; that it is no longer a whole npz shows there.
    if (size < end.size()) return Status(Code::kCorruption, "not a readable npz: too short");
    return ParseZipEnd(end).status();
  }

 private:
  using End = std::array<std::byte, kZipEndBytes>;

  /// The last bytes read so far, of which `got` are new in the buffer.
  void Append(End& end, uint64_t got) const {
    const uint64_t fresh = std::min<uint64_t>(got, end.size());
    std::copy(end.begin() + static_cast<ptrdiff_t>(fresh), end.end(), end.begin());
    std::copy_n(buffer_.get() + (got - fresh), fresh, end.end() - static_cast<ptrdiff_t>(fresh));
  }

  const Buffer buffer_;
};

/// The same past the page cache.
class DirectReader final : public SequentialReader {
 public:
  using SequentialReader::SequentialReader;

 protected:
  int OpenFlags() const override { return O_DIRECT; }
};

/// The call sequence of numpy.load on an npz: start, three small reads at the end, start again, then x's data
/// in steps of 256 KiB that fall into 4096 + 258 048 bytes (a buffered reader's own fill, then the rest).
class NpzReader final : public FileReader {
 public:
  NpzReader(ReaderOptions options, Buffer buffer) : FileReader(options), buffer_(std::move(buffer)) {}

 protected:
  Status ReadAll(int fd, uint64_t size, ReadStats& stats) override {
    if (size < kZipEndBytes) return Status(Code::kCorruption, "not a readable npz: too short");
    RETURN_IF_ERROR(Exactly(fd, std::min<uint64_t>(kFill, size), 0, size, stats));
    RETURN_IF_ERROR(Exactly(fd, kZipEndBytes, size - kZipEndBytes, size, stats));
    ASSIGN_OR_RETURN(ZipDirectory directory, ParseZipEnd(Bytes(kZipEndBytes)));
    const uint64_t locator_bytes = kZipEndBytes + kZip64LocatorBytes;
    if (size >= locator_bytes) {
      RETURN_IF_ERROR(Exactly(fd, locator_bytes, size - locator_bytes, size, stats));
      if (directory.zip64) {
        ASSIGN_OR_RETURN(const uint64_t record, ParseZip64Locator(Bytes(kZip64LocatorBytes)));
        RETURN_IF_ERROR(Exactly(fd, kZip64EndBytes, record, size, stats));
        ASSIGN_OR_RETURN(directory, ParseZip64End(Bytes(kZip64EndBytes)));
      }
    }
    if (directory.bytes > kBuffer - kZipEndBytes || directory.offset > size ||
        directory.bytes > size - directory.offset) {
      return Status(Code::kCorruption, "not a readable npz: its directory lies outside the file");
    }
    const uint64_t to_end = std::min(size - directory.offset, kBuffer);
    RETURN_IF_ERROR(Exactly(fd, to_end, directory.offset, size, stats));
    ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ParseZipDirectory(Bytes(directory.bytes)));
    RETURN_IF_ERROR(ReadMember(fd, "x.npy", members, size, stats));
    if (options_.read_labels) RETURN_IF_ERROR(ReadMember(fd, "y.npy", members, size, stats));
    return Status::Ok();
  }

 private:
  static constexpr uint64_t kBuffer = 256 * kKiB;
  static constexpr uint64_t kFill = 4096;

  std::span<const std::byte> Bytes(uint64_t count) const { return {buffer_.get(), count}; }

  Status Exactly(int fd, uint64_t bytes, uint64_t offset, uint64_t size, ReadStats& stats) {
    if (offset > size || bytes > size - offset) return CutShort(size, offset + bytes);
    ASSIGN_OR_RETURN(const uint64_t got, CountedPread(fd, buffer_.get(), bytes, offset, stats));
    return got == bytes ? Status::Ok() : CutShort(offset + got, size);
  }

  Status ReadMember(int fd, const char* name, const std::vector<ZipMember>& members, uint64_t size,
                    ReadStats& stats) {
    const auto member = std::find_if(members.begin(), members.end(),
                                     [&](const ZipMember& candidate) { return candidate.name == name; });
    if (member == members.end()) {
      return Status(Code::kCorruption, std::string("not a readable sample file: no member ") + name);
    }
    if (member->header_offset >= size) {
      return Status(Code::kCorruption, std::string("not a readable npz: no header of ") + name);
    }
    const uint64_t first = std::min(kFill, size - member->header_offset);
    RETURN_IF_ERROR(Exactly(fd, first, member->header_offset, size, stats));
    ASSIGN_OR_RETURN(const uint64_t header, ParseZipLocalHeader(Bytes(first)));
    const uint64_t end = member->header_offset + header + member->bytes;
    uint64_t at = member->header_offset + first;
    for (bool fill = true; at < end; fill = !fill) {
      const uint64_t step = fill ? kFill : kBuffer - kFill;
      // The filling read takes what the file has; the other stops at the member's end.
      const uint64_t bytes = fill ? std::min(step, size - std::min(at, size)) : std::min(step, end - at);
      RETURN_IF_ERROR(Exactly(fd, std::max<uint64_t>(bytes, 1), at, size, stats));
      at += bytes;
    }
    return Status::Ok();
  }

  const Buffer buffer_;
};

}  // namespace

Status FileReader::ReadFile(const std::string& path, ReadStats& stats) {
  stats.meter = options_.meter.get();
  uint64_t start = NowNs();
  const auto read = [&]() -> Status {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | OpenFlags()));
    if (!fd.valid()) {
      return Status::FromErrno(errno, OpenFlags() == O_DIRECT && errno == EINVAL
                                          ? "open with O_DIRECT, which this file system refuses"
                                          : "open");
    }
    struct stat info;
    if (::fstat(fd.get(), &info) != 0) return Status::FromErrno(errno, "stat");
    RETURN_IF_ERROR(ReadAll(fd.get(), static_cast<uint64_t>(info.st_size), stats));
    if (options_.cache_control == CacheControl::kFadvise) {
      // Advice only: where it is not understood the pages stay, and the residency sample in the results says
      // so. Its time is ours, not the storage's.
      const uint64_t advice_start = NowNs();
      static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED));
      start += NowNs() - advice_start;
    }
    return Status::Ok();
  };
  const Status status = read();
  if (status.ok()) {
    const uint64_t took = NowNs() - start;
    ++stats.files;
    stats.file_ns.Add(took);
    if (stats.meter != nullptr) stats.meter->AddFile(took);
    return status;
  }
  return CountError(path, status, stats);
}

Status FileReader::ReadSamples(const std::string& path, const SampleRun& run, ReadStats& stats) {
  Status status;
  for (uint64_t i = 0; i < run.count && status.ok(); ++i) status = ReadFile(path, stats);
  return status;
}

uint64_t DefaultPieceBytes(Format format, ReadShape shape, uint64_t readers) {
  if (format == Format::kTfRecord || (format == Format::kNpz && shape == ReadShape::kNpz)) return 256 * kKiB;
  uint64_t bytes = shape == ReadShape::kODirect && format != Format::kParquet ? 8 * kMiB : kMiB;
  while (bytes > kSmallestPiece && readers > kAllBuffersBytes / bytes) bytes /= 2;
  return bytes;
}

Result<std::unique_ptr<FileReader>> MakeFileReader(const ReaderOptions& options) {
  ReaderOptions effective = options;
  // Only an npz has the inside that the calls of numpy.load look for.
  if (effective.format != Format::kNpz && effective.shape == ReadShape::kNpz) {
    effective.shape = ReadShape::kWhole;
  }
  if (effective.format == Format::kTfRecord) {
    return Status(Code::kInvalidArgument,
                  "dataset.format: tfrecord files are read as a stream: framework tensorflow");
  }
  const bool direct = effective.shape == ReadShape::kODirect;
  if (direct && effective.format == Format::kParquet) {
    return Status(Code::kInvalidArgument,
                  "--read-shape: odirect reads whole files, not parquet's byte ranges");
  }
  if (effective.piece_bytes == 0 || effective.shape == ReadShape::kNpz) {
    effective.piece_bytes = DefaultPieceBytes(effective.format, effective.shape, 1);
  }
  if (direct && effective.piece_bytes % kPageBytes != 0) {
    return Status(Code::kInvalidArgument, "--read-piece: " + FormatBytesExact(effective.piece_bytes) +
                                              " is not a multiple of 4KiB, which O_DIRECT needs");
  }
  Buffer buffer = AlignedBuffer(effective.piece_bytes);
  if (buffer == nullptr) {
    return Status(Code::kInvalidArgument,
                  "no memory for a read buffer of " + FormatBytes(effective.piece_bytes));
  }
  if (effective.format == Format::kParquet) {
    return std::unique_ptr<FileReader>(new ParquetReader(effective, std::move(buffer)));
  }
  switch (effective.shape) {
    case ReadShape::kNpz:
      return std::unique_ptr<FileReader>(new NpzReader(effective, std::move(buffer)));
    case ReadShape::kODirect:
      return std::unique_ptr<FileReader>(new DirectReader(effective, std::move(buffer)));
    case ReadShape::kWhole:
      break;
  }
  return std::unique_ptr<FileReader>(new SequentialReader(effective, std::move(buffer)));
}

}  // namespace stoker::bench
