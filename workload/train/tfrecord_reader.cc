#include "workload/train/tfrecord_reader.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "cache/base/units.h"
#include "workload/data/crc32c.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kCrcBytes = 4;

template <typename T>
T LittleEndian(const std::byte* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace

Result<uint64_t> TfRecordFraming::Feed(std::span<const std::byte> chunk) {
  uint64_t completed = 0;
  while (!chunk.empty()) {
    if (left_ > 0) {
      const uint64_t part = std::min<uint64_t>(left_, chunk.size());
      left_ -= part;
      at_ += part;
      chunk = chunk.subspan(part);
      if (left_ == 0) ++completed;
      continue;
    }
    const uint64_t part = std::min<uint64_t>(head_.size() - head_have_, chunk.size());
    std::memcpy(head_.data() + head_have_, chunk.data(), part);
    head_have_ += part;
    at_ += part;
    chunk = chunk.subspan(part);
    if (head_have_ < head_.size()) break;
    head_have_ = 0;
    const auto length = LittleEndian<uint64_t>(head_.data());
    if (MaskedCrc32c(Crc32c(0, head_.data(), 8)) != LittleEndian<uint32_t>(head_.data() + 8) ||
        length > UINT64_MAX - kCrcBytes) {
      return Status(Code::kCorruption,
                    "not a readable TFRecord file: no record at byte " + std::to_string(at_ - head_.size()));
    }
    left_ = length + kCrcBytes;
  }
  records_ += completed;
  return completed;
}

Status TfRecordFraming::AtEnd() const {
  if (left_ > 0 || head_have_ > 0) {
    return {Code::kIo, "ends at byte " + std::to_string(at_) + ", in the middle of a record"};
  }
  if (records_ == 0) return {Code::kCorruption, "holds no record"};
  return Status::Ok();
}

Result<std::unique_ptr<TfRecordReader>> TfRecordReader::Make(uint64_t buffer_bytes,
                                                             CacheControl cache_control) {
  Buffer buffer = AlignedBuffer(buffer_bytes);
  if (buffer == nullptr) {
    return Status(Code::kInvalidArgument, "no memory for a read buffer of " + FormatBytes(buffer_bytes));
  }
  return std::unique_ptr<TfRecordReader>(new TfRecordReader(std::move(buffer), buffer_bytes, cache_control));
}

Result<TfRecordReader::Chunk> TfRecordReader::Read(const std::string& path, uint64_t opening,
                                                   ReadStats& stats) {
  const auto read = [&]() -> Result<Chunk> {
    if (opening != opening_) {
      opening_ = opening;
      file_.Abandon();
      RETURN_IF_ERROR(file_.Open(path));
      framing_ = TfRecordFraming();
      at_ = 0;
    }
    return ReadOpen(stats);
  };
  Result<Chunk> chunk = read();
  if (chunk.ok()) return chunk;
  file_.Abandon();
  return CountError(path, chunk.status(), stats);
}

Result<TfRecordReader::Chunk> TfRecordReader::ReadOpen(ReadStats& stats) {
  ASSIGN_OR_RETURN(const uint64_t got, file_.Pread(buffer_.get(), buffer_bytes_, at_, stats));
  Chunk chunk;
  if (got == 0) {
    RETURN_IF_ERROR(framing_.AtEnd());
    file_.Close(stats);
    chunk.ended = true;
    return chunk;
  }
  at_ += got;
  ASSIGN_OR_RETURN(chunk.records, framing_.Feed({buffer_.get(), got}));
  return chunk;
}

}  // namespace stoker::bench
