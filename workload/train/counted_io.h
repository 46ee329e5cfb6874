#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "cache/base/fd.h"
#include "cache/base/result.h"
#include "workload/base/rules.h"
#include "workload/train/read_stats.h"

namespace stoker::bench {

/// Steady time, ns.
uint64_t NowNs();

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<std::byte, FreeDeleter>;
/// Aligned for O_DIRECT; big ones get big pages, since O_DIRECT pins every page of each call. Null: no
/// memory.
Buffer AlignedBuffer(uint64_t bytes);

/// One counted and timed pread; short only at the end of the file.
Result<uint64_t> CountedPread(int fd, std::byte* to, uint64_t bytes, uint64_t offset, ReadStats& stats);

/// kIo: `at` is the end of the file and `size` was its end before.
Status CutShort(uint64_t at, uint64_t size);

/// `status` with the path in front, counted as an error of that file.
Status CountError(const std::string& path, const Status& status, ReadStats& stats);

/// A file that stays open over several reads. Its time in the statistics is what its calls took, without what
/// lay between them. One thread.
class CountedFile {
 public:
  explicit CountedFile(CacheControl cache_control) : cache_control_(cache_control) {}
  ~CountedFile() { Abandon(); }
  CountedFile(const CountedFile&) = delete;
  CountedFile& operator=(const CountedFile&) = delete;

  /// REQUIRES !is_open(). Error: the file is missing or unreadable; not counted, see CountError().
  Status Open(const std::string& path);
  Result<uint64_t> Pread(std::byte* to, uint64_t bytes, uint64_t offset, ReadStats& stats);
  /// Closes and counts the file as read; gives its pages back if that was asked for. Nothing when not open.
  void Close(ReadStats& stats);
  /// Closes what failed or was not read to its end, without counting it; gives its pages back as Close()
  /// does.
  void Abandon();
  bool is_open() const { return fd_.valid(); }
  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

 private:
  void GiveBack();

  const CacheControl cache_control_;
  std::string path_;
  Fd fd_;
  uint64_t size_ = 0;
  uint64_t took_ns_ = 0;
};

}  // namespace stoker::bench
