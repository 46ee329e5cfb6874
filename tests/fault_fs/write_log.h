// What a power loss needs to know: every write since its file was last synced, with the bytes that were there
// before.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace stoker::testing {

/// The unsynced writes of all files. Memory: twice their bytes. Any thread; changes of one log are
/// serialised, so this disk writes one piece at a time while it keeps a log. Names (create, rename, unlink)
/// are kept as done.
class WriteLog {
 public:
  ~WriteLog();
  /// Writes and remembers. `fd` is open for reading and writing. Returns the bytes written, or -errno.
  ssize_t Write(int fd, const char* data, size_t size, off_t offset);
  /// Changes the length and remembers. Returns 0 or -errno.
  int Truncate(int fd, off_t size);
  /// The file is on the disk now.
  void Synced(int fd);
  /// The power fails: each remembered change lands, vanishes or (a write) leaves garbage, drawn by the seed.
  /// The log is empty after it. Returns what happened: "12 landed, 3 vanished, 4 garbled".
  std::string PowerLoss(uint64_t seed);

 private:
  struct Change {
    bool truncate = false;
    off_t offset = 0;      // for a truncation: the new length
    std::string written;   // what it put there
    std::string replaced;  // what was there; for a truncation: what was cut off
    off_t old_length = 0;
  };
  struct File {
    int fd = -1;
    std::vector<Change> changes;
  };
  using Key = std::pair<dev_t, ino_t>;
  File* Of(int fd);  // caller holds mutex_

  std::mutex mutex_;
  std::map<Key, File> files_;
};

}  // namespace stoker::testing
