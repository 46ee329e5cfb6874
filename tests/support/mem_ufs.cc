#include "tests/support/mem_ufs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "cache/base/random.h"

namespace stoker::testing {

struct MemUfs::Node {
  mode_t mode = S_IFREG | 0644;
  uint64_t ino = 0;
  uint64_t serial = 0;
  nlink_t nlink = 1;
  std::string content;
  std::vector<ByteRange> holes;

  FileVersion Version() const {
    FileVersion version;
    version.size = content.size();
    version.token = "mem:" + std::to_string(ino) + ":" + std::to_string(serial);
    return version;
  }
  UfsAttr Attr() const {
    UfsAttr attr;
    attr.mode = mode;
    attr.ino = ino;
    attr.nlink = nlink;
    attr.size = content.size();
    attr.blocks = CeilDiv(content.size(), 512);
    if (S_ISREG(mode)) attr.version = Version();
    return attr;
  }
};

struct MemUfs::Tree {
  mutable Mutex mu;
  std::map<std::string, std::shared_ptr<Node>> names GUARDED_BY(mu);
  uint64_t next_ino GUARDED_BY(mu) = 2;
  uint64_t next_serial GUARDED_BY(mu) = 1;

  bool IsDirectory(const std::string& path) const REQUIRES(mu) {
    if (path.empty()) return true;
    const auto found = names.find(path);
    if (found != names.end()) return S_ISDIR(found->second->mode);
    const auto below = names.lower_bound(path + "/");
    return below != names.end() && below->first.compare(0, path.size() + 1, path + "/") == 0;
  }
  Result<UfsAttr> Stat(const std::string& path) const REQUIRES(mu) {
    const auto found = names.find(path);
    if (found != names.end()) return found->second->Attr();
    if (!IsDirectory(path)) return Status::FromErrno(ENOENT, "'" + path + "'");
    UfsAttr attr;
    attr.mode = S_IFDIR | 0755;
    attr.ino = std::hash<std::string>()(path) | (1ULL << 63);
    attr.nlink = 2;
    return attr;
  }
};

class MemFile final : public UfsFile {
 public:
  MemFile(std::shared_ptr<MemUfs::Tree> tree, std::shared_ptr<MemUfs::Node> node, FileVersion version)
      : tree_(std::move(tree)), node_(std::move(node)), version_(std::move(version)) {}

  const FileVersion& version() const override { return version_; }
  int fd() const override { return -1; }
  Result<size_t> Read(uint64_t offset, std::span<std::byte> to, const CancelToken& cancel) override {
    if (cancel.cancelled()) return Status(Code::kCancelled, "cancelled");
    MutexLock lock(tree_->mu);
    const std::string& content = node_->content;
    if (offset >= content.size()) return size_t{0};
    const size_t size = std::min<uint64_t>(to.size(), content.size() - offset);
    std::memcpy(to.data(), content.data() + offset, size);
    return size;
  }
  Status CheckVersion() const override {
    MutexLock lock(tree_->mu);
    if (node_->Version() == version_) return Status::Ok();
    return {Code::kStale, "changed", ESTALE};
  }
  Result<uint64_t> NextData(uint64_t offset) const override {
    MutexLock lock(tree_->mu);
    uint64_t at = offset;
    for (const ByteRange& hole : node_->holes) {  // sorted
      if (hole.begin <= at && at < hole.end) at = hole.end;
    }
    return std::min<uint64_t>(at, version_.size);
  }
  Result<uint64_t> NextHole(uint64_t offset) const override {
    MutexLock lock(tree_->mu);
    for (const ByteRange& hole : node_->holes) {
      if (offset < hole.end) return std::max(offset, hole.begin);
    }
    return version_.size;
  }

 private:
  const std::shared_ptr<MemUfs::Tree> tree_;
  const std::shared_ptr<MemUfs::Node> node_;
  const FileVersion version_;
};

class MemDir final : public UfsDir {
 public:
  MemDir(std::shared_ptr<MemUfs::Tree> tree, std::string path, std::vector<std::string> names)
      : tree_(std::move(tree)), path_(std::move(path)), names_(std::move(names)) {}
  Status Next(size_t max, std::vector<UfsDirEntry>& entries) override {
    MutexLock lock(tree_->mu);
    for (size_t taken = 0; taken < max && next_ < names_.size(); ++taken, ++next_) {
      const Result<UfsAttr> attr = tree_->Stat(path_.empty() ? names_[next_] : path_ + "/" + names_[next_]);
      entries.push_back({names_[next_], attr.ok() ? attr->ino : 0, attr.ok() ? attr->mode & S_IFMT : 0});
    }
    return Status::Ok();
  }
  Result<UfsAttr> StatEntry(const std::string& name) override {
    MutexLock lock(tree_->mu);
    return tree_->Stat(path_.empty() ? name : path_ + "/" + name);
  }

 private:
  const std::shared_ptr<MemUfs::Tree> tree_;
  const std::string path_;
  const std::vector<std::string> names_;
  size_t next_ = 0;
};

MemUfs::MemUfs() : tree_(std::make_shared<Tree>()) {}
MemUfs::~MemUfs() = default;

void MemUfs::Put(const std::string& path, std::string content, std::vector<ByteRange> holes) {
  auto node = std::make_shared<Node>();
  node->content = std::move(content);
  node->holes = std::move(holes);
  MutexLock lock(tree_->mu);
  node->ino = tree_->next_ino++;
  node->serial = tree_->next_serial++;
  tree_->names[path] = node;
}

void MemUfs::Overwrite(const std::string& path, std::string content) {
  MutexLock lock(tree_->mu);
  Node& node = *tree_->names.at(path);
  node.content = std::move(content);
  node.holes.clear();
  node.serial = tree_->next_serial++;
}

void MemUfs::Link(const std::string& from, const std::string& to) {
  MutexLock lock(tree_->mu);
  tree_->names[to] = tree_->names.at(from);
  ++tree_->names[to]->nlink;
}

void MemUfs::PutOther(const std::string& path, mode_t type) {
  auto node = std::make_shared<Node>();
  node->mode = type | 0777;
  MutexLock lock(tree_->mu);
  node->ino = tree_->next_ino++;
  tree_->names[path] = node;
}

void MemUfs::Remove(const std::string& path) {
  MutexLock lock(tree_->mu);
  tree_->names.erase(path);
}

void MemUfs::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(tree_->mu);
  tree_->names[to] = tree_->names.at(from);
  tree_->names.erase(from);
}

std::string MemUfs::Content(const std::string& path) const {
  MutexLock lock(tree_->mu);
  return tree_->names.at(path)->content;
}

Result<UfsAttr> MemUfs::Stat(const std::string& path) {
  MutexLock lock(tree_->mu);
  return tree_->Stat(path);
}

Result<std::string> MemUfs::ReadLink(const std::string& path) {
  MutexLock lock(tree_->mu);
  const auto found = tree_->names.find(path);
  if (found == tree_->names.end() || !S_ISLNK(found->second->mode)) {
    return Status(Code::kInvalidArgument, "no link", EINVAL);
  }
  return found->second->content;
}

Result<std::unique_ptr<UfsDir>> MemUfs::OpenDir(const std::string& path) {
  MutexLock lock(tree_->mu);
  if (!tree_->IsDirectory(path)) return Status::FromErrno(ENOENT, "'" + path + "'");
  const std::string prefix = path.empty() ? "" : path + "/";
  std::set<std::string> names;
  for (auto it = tree_->names.lower_bound(prefix); it != tree_->names.end(); ++it) {
    if (it->first.compare(0, prefix.size(), prefix) != 0) break;
    const std::string rest = it->first.substr(prefix.size());
    if (!rest.empty()) names.insert(rest.substr(0, rest.find('/')));
  }
  return std::unique_ptr<UfsDir>(
      std::make_unique<MemDir>(tree_, path, std::vector<std::string>(names.begin(), names.end())));
}

Result<std::unique_ptr<UfsFile>> MemUfs::OpenFile(const std::string& path) {
  MutexLock lock(tree_->mu);
  const auto found = tree_->names.find(path);
  if (found == tree_->names.end()) return Status::FromErrno(ENOENT, "'" + path + "'");
  if (!S_ISREG(found->second->mode)) return Status(Code::kUnsupported, "not a regular file");
  return std::unique_ptr<UfsFile>(std::make_unique<MemFile>(tree_, found->second, found->second->Version()));
}

Result<struct statvfs> MemUfs::StatFs() {
  struct statvfs fs {};
  fs.f_bsize = 4096;
  return fs;
}

Result<std::string> MemUfs::GetXattr(const std::string& path, const std::string& name) {
  return Status(Code::kNotFound, "'" + path + "' has no attribute '" + name + "'", ENODATA);
}

Result<std::vector<std::string>> MemUfs::ListXattr(const std::string&) {
  return std::vector<std::string>();
}

std::string PatternBytes(uint64_t size, uint64_t seed) {
  std::string bytes(size, '\0');
  Random random(seed);
  for (uint64_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::memcpy(bytes.data() + at, &word, std::min<uint64_t>(sizeof word, size - at));
  }
  return bytes;
}

}  // namespace stoker::testing
