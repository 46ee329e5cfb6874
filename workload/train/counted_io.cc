#include "workload/train/counted_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "cache/base/check.h"
#include "cache/base/units.h"

namespace stoker::bench {
namespace {
constexpr uint64_t kBigPageBytes = 2 * kMiB;
}  // namespace

uint64_t NowNs() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

Buffer AlignedBuffer(uint64_t bytes) {
  const uint64_t alignment = bytes >= kBigPageBytes ? kBigPageBytes : kPageBytes;
  const uint64_t size = AlignUp(bytes, alignment);
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(alignment, size)));
  if (buffer != nullptr && alignment == kBigPageBytes) {
    static_cast<void>(::madvise(buffer.get(), size, MADV_HUGEPAGE));  // a wish; small pages work as well
  }
  return buffer;
}

Result<uint64_t> CountedPread(int fd, std::byte* to, uint64_t bytes, uint64_t offset, ReadStats& stats) {
  while (true) {
    const uint64_t start = NowNs();
    const ssize_t got = ::pread(fd, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(errno, "read at byte " + std::to_string(offset));
    const uint64_t took = NowNs() - start;
    stats.call_ns.Add(took);
    ++stats.calls;
    stats.bytes += static_cast<uint64_t>(got);
    if (stats.meter != nullptr) stats.meter->AddCall(static_cast<uint64_t>(got), took);
    return static_cast<uint64_t>(got);
  }
}

Status CutShort(uint64_t at, uint64_t size) {
  return {Code::kIo, "ends at byte " + std::to_string(at) + " though its size is " + std::to_string(size)};
}

Status CountError(const std::string& path, const Status& status, ReadStats& stats) {
  ++stats.errors;
  const Status named(status.code(), path + ": " + status.message(), status.os_errno());
  if (stats.first_error.empty()) stats.first_error = named.message();
  return named;
}

Status CountedFile::Open(const std::string& path) {
  STOKER_CHECK(!is_open());
  const uint64_t start = NowNs();
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Status::FromErrno(errno, "open");
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return Status::FromErrno(errno, "stat");
  path_ = path;
  fd_ = std::move(fd);
  size_ = static_cast<uint64_t>(info.st_size);
  took_ns_ = NowNs() - start;
  return Status::Ok();
}

Result<uint64_t> CountedFile::Pread(std::byte* to, uint64_t bytes, uint64_t offset, ReadStats& stats) {
  const uint64_t start = NowNs();
  Result<uint64_t> got = CountedPread(fd_.get(), to, bytes, offset, stats);
  took_ns_ += NowNs() - start;
  return got;
}

void CountedFile::GiveBack() {
  // Advice only: where it is not understood the pages stay, and the residency sample in the results says so.
  if (cache_control_ == CacheControl::kFadvise) {
    static_cast<void>(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED));
  }
}

void CountedFile::Abandon() {
  if (!is_open()) return;
  GiveBack();
  fd_.Reset();
}

void CountedFile::Close(ReadStats& stats) {
  if (!is_open()) return;
  GiveBack();
  fd_.Reset();
  ++stats.files;
  stats.file_ns.Add(took_ns_);
  if (stats.meter != nullptr) stats.meter->AddFile(took_ns_);
}

}  // namespace stoker::bench
