#include "workload/data/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cache/base/check.h"
#include "cache/base/units.h"

namespace stoker::bench {
namespace {

/// Written bytes after which the kernel is asked to start writing back, so that the flush at the end of the
/// file does not find all of it waiting.
constexpr uint64_t kWriteBackBytes = 16 * kMiB;

Status WriteAll(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Status::FromErrno(errno, path);
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return Status::Ok();
}

}  // namespace

FileWriter::FileWriter(std::atomic<uint64_t>& bytes) : counter_(bytes), buffer_(kWriteBytes + kPieceBytes) {}

void FileWriter::Begin(int fd, const std::string& path) {
  fd_ = fd;
  path_ = &path;
  used_ = 0;
  written_ = 0;
  asked_ = 0;
}

Status FileWriter::Text(std::string_view text) {
  while (!text.empty()) {
    const size_t step = std::min(text.size(), kWriteBytes - used_);
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), step, buffer_.data() + used_);
    text.remove_prefix(step);
    RETURN_IF_ERROR(Used(step));
  }
  return Status::Ok();
}

std::span<std::byte> FileWriter::Room(size_t bytes) {
  STOKER_CHECK(bytes <= kPieceBytes);  // used_ < kWriteBytes between calls, so there is room
  return std::span<std::byte>(buffer_).subspan(used_, bytes);
}

Status FileWriter::Used(size_t bytes) {
  used_ += bytes;
  return used_ >= kWriteBytes ? Flush() : Status::Ok();
}

Status FileWriter::Flush() {
  RETURN_IF_ERROR(WriteAll(fd_, std::span<const std::byte>(buffer_).first(used_), *path_));
  written_ += used_;
  counter_.fetch_add(used_, std::memory_order_relaxed);
  used_ = 0;
  if (written_ - asked_ >= kWriteBackBytes) {
    // A hint: where it does nothing the flush at the end takes longer.
    static_cast<void>(::sync_file_range(fd_, static_cast<off64_t>(asked_),
                                        static_cast<off64_t>(written_ - asked_), SYNC_FILE_RANGE_WRITE));
    asked_ = written_;
  }
  return Status::Ok();
}

}  // namespace stoker::bench
