// The files the kernel knows of, each with a descriptor of its backing file.
#pragma once

#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace stoker::testing {

/// One inode. `path` is where it was last seen, relative to the root ("" is the root): what the rules' globs
/// match. A directory that is renamed leaves its children with their old paths until they are looked up
/// again.
struct Node {
  int fd = -1;  ///< O_PATH
  std::pair<dev_t, ino_t> key;
  uint64_t lookups = 0;
  std::string path;
};

/// Nodes live from their first lookup until the kernel forgets them; a nodeid is the node's address. Any
/// thread.
class Nodes {
 public:
  explicit Nodes(int root_fd) { root_.fd = root_fd; }
  [[nodiscard]] Node* Get(fuse_ino_t ino) {
    return ino == FUSE_ROOT_ID ? &root_ : reinterpret_cast<Node*>(ino);  // NOLINT: as libfuse's own examples
  }
  [[nodiscard]] std::string PathOf(fuse_ino_t ino) {
    const std::lock_guard lock(mutex_);
    return Get(ino)->path;
  }
  [[nodiscard]] std::string PathOf(fuse_ino_t parent, const char* name) {
    const std::string above = PathOf(parent);
    return above.empty() ? name : above + "/" + name;
  }
  /// Finds or makes the node of `name` and counts one lookup. Returns 0 or an errno.
  int Lookup(fuse_ino_t parent, const char* name, fuse_entry_param* entry);
  void Forget(fuse_ino_t ino, uint64_t count);
  /// The file has another name now.
  void Renamed(fuse_ino_t parent, const char* name);

 private:
  std::mutex mutex_;
  Node root_;
  std::map<std::pair<dev_t, ino_t>, std::unique_ptr<Node>> nodes_;
};

/// "/proc/self/fd/N": opens again what an O_PATH descriptor stands for.
[[nodiscard]] inline std::string ProcPath(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace stoker::testing
