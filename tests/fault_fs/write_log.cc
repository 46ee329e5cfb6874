#include "tests/fault_fs/write_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>

namespace stoker::testing {

namespace {

std::string ReadBack(int fd, off_t offset, size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = ::pread(fd, bytes.data(), size, offset);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

bool Put(int fd, const std::string& bytes, off_t offset) {
  return ::pwrite(fd, bytes.data(), bytes.size(), offset) == static_cast<ssize_t>(bytes.size());
}

off_t LengthOf(int fd) {
  struct stat info = {};
  return ::fstat(fd, &info) == 0 ? info.st_size : 0;
}

}  // namespace

WriteLog::~WriteLog() {
  for (auto& [key, file] : files_) ::close(file.fd);
}

WriteLog::File* WriteLog::Of(int fd) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return nullptr;
  File& file = files_[{info.st_dev, info.st_ino}];
  if (file.fd < 0) file.fd = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC);
  return &file;
}

ssize_t WriteLog::Write(int fd, const char* data, size_t size, off_t offset) {
  const std::lock_guard lock(mutex_);
  Change change;
  change.offset = offset;
  change.old_length = LengthOf(fd);
  change.replaced = ReadBack(fd, offset, size);
  const ssize_t put = ::pwrite(fd, data, size, offset);
  if (put < 0) return -errno;
  change.written.assign(data, static_cast<size_t>(put));
  if (File* const file = Of(fd)) file->changes.push_back(std::move(change));
  return put;
}

int WriteLog::Truncate(int fd, off_t size) {
  const std::lock_guard lock(mutex_);
  Change change;
  change.truncate = true;
  change.offset = size;
  change.old_length = LengthOf(fd);
  if (change.old_length > size) {
    change.replaced = ReadBack(fd, size, static_cast<size_t>(change.old_length - size));
  }
  if (::ftruncate(fd, size) != 0) return -errno;
  if (File* const file = Of(fd)) file->changes.push_back(std::move(change));
  return 0;
}

void WriteLog::Synced(int fd) {
  const std::lock_guard lock(mutex_);
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return;
  const auto it = files_.find({info.st_dev, info.st_ino});
  if (it == files_.end()) return;
  ::close(it->second.fd);
  files_.erase(it);
}

std::string WriteLog::PowerLoss(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  std::mt19937_64 random(seed);
  int landed = 0, vanished = 0, garbled = 0, failed = 0;
  for (auto& [key, file] : files_) {
    // Back to what was synced, newest first; then forward again with what the disk is drawn to have kept.
    for (auto it = file.changes.rbegin(); it != file.changes.rend(); ++it) {
      if (!it->replaced.empty() && !Put(file.fd, it->replaced, it->offset)) ++failed;
      if (::ftruncate(file.fd, it->old_length) != 0) ++failed;
    }
    for (Change& change : file.changes) {
      const uint64_t fate = random() % 3;
      if (fate == 0) {
        ++vanished;
        continue;
      }
      if (change.truncate) {
        ++landed;
        if (::ftruncate(file.fd, change.offset) != 0) ++failed;
        continue;
      }
      if (fate == 2 && !change.written.empty()) {
        // A run of garbage in it, not all of it: harder to notice.
        ++garbled;
        const size_t from = random() % change.written.size();
        const size_t to = from + 1 + random() % (change.written.size() - from);
        for (size_t at = from; at < to; ++at) change.written[at] = static_cast<char>(random());
      } else {
        ++landed;
      }
      if (!Put(file.fd, change.written, change.offset)) ++failed;
    }
    ::close(file.fd);
  }
  files_.clear();
  return std::to_string(landed) + " landed, " + std::to_string(vanished) + " vanished, " +
         std::to_string(garbled) + " garbled" +
         (failed != 0 ? ", " + std::to_string(failed) + " failed" : "");
}

}  // namespace stoker::testing
