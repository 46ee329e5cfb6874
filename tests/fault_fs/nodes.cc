#include "tests/fault_fs/nodes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace stoker::testing {

int Nodes::Lookup(fuse_ino_t parent, const char* name, fuse_entry_param* entry) {
  *entry = {};
  const std::string path = PathOf(parent, name);
  const int fd = ::openat(Get(parent)->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno;
  if (::fstatat(fd, "", &entry->attr, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0) {
    const int error = errno;
    ::close(fd);
    return error;
  }
  const std::lock_guard lock(mutex_);
  auto& node = nodes_[{entry->attr.st_dev, entry->attr.st_ino}];
  if (node == nullptr) {
    node = std::make_unique<Node>();
    node->fd = fd;
    node->key = {entry->attr.st_dev, entry->attr.st_ino};
  } else {
    ::close(fd);
  }
  node->path = path;
  ++node->lookups;
  entry->ino = reinterpret_cast<fuse_ino_t>(node.get());  // NOLINT: as libfuse's own examples
  return 0;
}

void Nodes::Forget(fuse_ino_t ino, uint64_t count) {
  if (ino == FUSE_ROOT_ID) return;
  const std::lock_guard lock(mutex_);
  Node* const node = Get(ino);
  node->lookups -= count;
  if (node->lookups != 0) return;
  ::close(node->fd);
  nodes_.erase(node->key);
}

void Nodes::Renamed(fuse_ino_t parent, const char* name) {
  const std::string path = PathOf(parent, name);
  struct stat info = {};
  if (::fstatat(Get(parent)->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  const std::lock_guard lock(mutex_);
  const auto it = nodes_.find({info.st_dev, info.st_ino});
  if (it != nodes_.end()) it->second->path = path;
}

}  // namespace stoker::testing
