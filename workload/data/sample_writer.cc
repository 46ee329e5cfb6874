#include "workload/data/sample_writer.h"

#include <algorithm>
#include <cstring>

#include "cache/base/units.h"
#include "workload/data/crc32.h"
#include "workload/data/crc32c.h"
#include "workload/data/npz.h"
#include "workload/data/parquet_layout.h"
#include "workload/data/tfrecord.h"

namespace stoker::bench {
namespace {

/// Bits of a random word that stay, and those that are set, so that its elements are numbers in [1, 2).
struct WordForm {
  uint64_t keep = ~uint64_t{0};
  uint64_t set = 0;
};

WordForm FormOf(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {0x03ff03ff03ff03ffULL, 0x3c003c003c003c00ULL};
    case DataType::kFloat32:
      return {0x007fffff007fffffULL, 0x3f8000003f800000ULL};
    case DataType::kFloat64:
      return {0x000fffffffffffffULL, 0x3ff0000000000000ULL};
    default:
      return {};
  }
}

/// `bytes` begin at an element and end at one. Little-endian words, as the files have them.
void Shape(const WordForm& form, std::span<std::byte> bytes) {
  if (form.set == 0) return;
  const auto shape = [&form](std::byte* at, size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, at, size);
    word = (word & form.keep) | form.set;
    std::memcpy(at, &word, size);
  };
  const size_t whole = AlignDown(bytes.size(), 8);
  for (size_t at = 0; at < whole; at += 8) shape(bytes.data() + at, 8);  // wide instructions
  if (whole < bytes.size()) shape(bytes.data() + whole, bytes.size() - whole);
}

}  // namespace

/// One file on its way out.
class SampleWriter::Job {
 public:
  Job(const SampleWriter& writer, uint64_t file, FileWriter& out, const std::function<bool()>& stop)
      : dataset_(writer.dataset_), content_(writer.content_), file_(file), out_(out), stop_(stop) {}

  Status Npz() {
    const NpzShape shape = dataset_.ShapeOf(file_);
    const std::string header = SampleHeader(shape);
    const NpzFrame frame =
        MakeNpzFrame(shape, content_.Crc(Crc32(0, header.data(), header.size()), file_, shape.data_bytes()));
    RETURN_IF_ERROR(out_.Text(frame.head));
    RETURN_IF_ERROR(Fill(shape.data_bytes(), [](std::span<std::byte>) {}));
    return out_.Text(frame.tail);
  }

  Status TfRecord() {
    const uint64_t sample_bytes = dataset_.ShapeOf(file_).data_bytes() / dataset_.samples_per_file;
    const TfRecordFrame frame = MakeTfRecordFrame(dataset_.layout, sample_bytes, dataset_.NominalSide());
    const uint32_t start =
        Crc32c(0, frame.head.data() + kTfRecordHeadBytes, frame.head.size() - kTfRecordHeadBytes);
    for (uint64_t sample = 0; sample < dataset_.samples_per_file; ++sample) {
      uint32_t crc = start;
      RETURN_IF_ERROR(out_.Text(frame.head));
      RETURN_IF_ERROR(Fill(sample_bytes, [&crc](std::span<std::byte> piece) {
        crc = Crc32c(crc, piece.data(), piece.size());
      }));
      RETURN_IF_ERROR(out_.Text(frame.tail));
      RETURN_IF_ERROR(out_.Text(TfRecordCrc(Crc32c(crc, frame.tail.data(), frame.tail.size()))));
    }
    return Status::Ok();
  }

  Status Jpeg() {
    return Fill(dataset_.ShapeOf(file_).data_bytes(), [](std::span<std::byte>) {});
  }

  Status Parquet() {
    const std::shared_ptr<const ParquetLayout> layout = dataset_.ParquetOf(file_);
    RETURN_IF_ERROR(out_.Text({kParquetMagic, kParquetMagicBytes}));
    for (uint64_t group = 0; group < layout->groups(); ++group) {
      for (size_t column = 0; column < layout->columns(); ++column) {
        const uint64_t pages = layout->PagesOf(group, column);
        for (uint64_t i = 0; i < pages; ++i) {
          const ParquetPage page = layout->Page(group, column, i);
          const WordForm form = FormOf(page.type);
          RETURN_IF_ERROR(out_.Text(page.head));
          RETURN_IF_ERROR(
              Fill(page.value_bytes, [&form](std::span<std::byte> piece) { Shape(form, piece); }));
        }
      }
    }
    return out_.Text(layout->end());
  }

 private:
  /// The next `bytes` of the file's content, each piece shown to `seen` before it is written. Every call
  /// begins at a whole word of the content.
  template <typename Seen>
  Status Fill(uint64_t bytes, const Seen& seen) {
    while (bytes > 0) {
      if (stop_()) return Status(Code::kCancelled, "stopped");
      const auto step = static_cast<size_t>(
          std::min<uint64_t>(bytes, FileWriter::kPieceBytes - used_ % Content::kBlockBytes));
      const std::span<std::byte> room = out_.Room(step);
      content_.FillRange(file_, used_, room);
      seen(room);
      RETURN_IF_ERROR(out_.Used(step));
      used_ += step;
      bytes -= step;
    }
    used_ = AlignUp(used_, 8);
    return Status::Ok();
  }

  const Dataset& dataset_;
  const Content& content_;
  const uint64_t file_;
  FileWriter& out_;
  const std::function<bool()>& stop_;
  uint64_t used_ = 0;  // bytes of the content
};

// Parquet's columns are of several types: FormOf gives each its own numbers, whatever the element.
SampleWriter::SampleWriter(const Dataset& dataset)
    : dataset_(dataset),
      content_(dataset.seed, dataset.format == Format::kParquet ? Element::kUint8 : dataset.element()) {}

Status SampleWriter::Write(uint64_t file, FileWriter& out, const std::function<bool()>& stop) const {
  Job job(*this, file, out, stop);
  const auto write = [&] {
    switch (dataset_.format) {
      case Format::kNpz:
        return job.Npz();
      case Format::kTfRecord:
        return job.TfRecord();
      case Format::kJpeg:
        return job.Jpeg();
      case Format::kParquet:
        break;
    }
    return job.Parquet();
  };
  RETURN_IF_ERROR(write());
  return out.Flush();
}

}  // namespace stoker::bench
