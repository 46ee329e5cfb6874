#include "fuse/inode_table.h"

#include <algorithm>
#include <utility>

#include "cache/base/check.h"

namespace stoker {

struct InodeTable::Node {
  NodeId id = 0;
  Node* parent = nullptr;  // alive as long as this node: it counts in parent->children
  std::string name;
  Packed attr;
  std::string token;  // FileVersion::token; its size is attr.size
  Nanos validated_at{0};
  int64_t listed_mtime_s = 0;  // directories: mtime at the last KeepListing that may be trusted
  uint64_t lookups = 0;
  uint32_t listed_mtime_ns = 0;
  uint32_t children = 0;
  uint32_t opens = 0;
  uint16_t rule = 0;  // of its path: index in rules_ + 1, 0 for none
  bool loaded = false;
  bool current = false;  // what its path has
  bool past = false;     // its path holds another version, another thing, or nothing
  bool retired = false;  // same version, but the path gets another node at the next lookup
  bool has_listing = false;
  std::unique_ptr<NodeOpen> open;  // INVARIANT: set exactly while opens > 0; open->mode is the node's mode
};

namespace {
constexpr Nanos kImmutableTtl = std::chrono::hours(24 * 3650);  // longer than any mount lives

timespec Stamp(int64_t seconds, uint32_t nanoseconds) {
  timespec stamp{};
  stamp.tv_sec = seconds;
  stamp.tv_nsec = nanoseconds;
  return stamp;
}
}  // namespace

size_t InodeTable::ChildHash::operator()(const ChildKey& key) const {
  return std::hash<std::string_view>()(key.name) ^ (key.parent * 0x9e3779b97f4a7c15ULL);
}
size_t InodeTable::ChildHash::operator()(const Node* node) const {
  return (*this)(ChildKey{node->parent->id, node->name});
}
bool InodeTable::ChildEqual::operator()(const Node* a, const Node* b) const {
  return a->parent == b->parent && a->name == b->name;
}
bool InodeTable::ChildEqual::operator()(const ChildKey& a, const Node* b) const {
  return a.parent == b->parent->id && a.name == b->name;
}

InodeTable::InodeTable(Nanos ttl, Metrics& metrics, std::vector<PathRule> rules)
    : ttl_(ttl), rules_(std::move(rules)), metrics_(metrics) {
  MutexLock lock(mu_);
  auto root = std::make_unique<Node>();
  root->id = kRootNode;
  root->lookups = 1;  // never forgotten
  root->attr.mode = S_IFDIR;
  ChooseRuleLocked(*root);
  nodes_.emplace(kRootNode, std::move(root));
}

InodeTable::~InodeTable() {
  MutexLock lock(mu_);
  metrics_.inodes.Sub(static_cast<int64_t>(nodes_.size()) - 1);  // the root was not counted
}

InodeTable::Packed InodeTable::Pack(const UfsAttr& attr) {
  Packed p;
  p.ino = attr.ino;
  p.size = attr.size;
  p.blocks = attr.blocks;
  p.rdev = attr.rdev;
  p.atime_s = attr.atime.tv_sec;
  p.mtime_s = attr.mtime.tv_sec;
  p.ctime_s = attr.ctime.tv_sec;
  p.atime_ns = static_cast<uint32_t>(attr.atime.tv_nsec);
  p.mtime_ns = static_cast<uint32_t>(attr.mtime.tv_nsec);
  p.ctime_ns = static_cast<uint32_t>(attr.ctime.tv_nsec);
  p.mode = attr.mode;
  p.uid = attr.uid;
  p.gid = attr.gid;
  p.nlink = static_cast<uint32_t>(attr.nlink);
  p.block_size = attr.block_size;
  return p;
}

struct stat InodeTable::Unpack(const Packed& p) {
  struct stat st {};
  st.st_ino = p.ino;
  st.st_size = static_cast<off_t>(p.size);
  st.st_blocks = static_cast<blkcnt_t>(p.blocks);
  st.st_rdev = p.rdev;
  st.st_atim = Stamp(p.atime_s, p.atime_ns);
  st.st_mtim = Stamp(p.mtime_s, p.mtime_ns);
  st.st_ctim = Stamp(p.ctime_s, p.ctime_ns);
  st.st_mode = p.mode;
  st.st_uid = p.uid;
  st.st_gid = p.gid;
  st.st_nlink = p.nlink;
  st.st_blksize = static_cast<blksize_t>(p.block_size);
  return st;
}

bool InodeTable::SameThing(const Node& node, const UfsAttr& attr) {
  if ((node.attr.mode & S_IFMT) != (attr.mode & S_IFMT)) return false;
  if (S_ISREG(attr.mode)) return node.attr.size == attr.version.size && node.token == attr.version.token;
  if (node.attr.ino != attr.ino || node.attr.rdev != attr.rdev) return false;
  // The kernel keeps link targets by inode, and inode numbers come back: another ctime is another link.
  if (S_ISLNK(attr.mode)) {
    return node.attr.ctime_s == attr.ctime.tv_sec &&
           node.attr.ctime_ns == static_cast<uint32_t>(attr.ctime.tv_nsec);
  }
  return true;
}

InodeTable::Node* InodeTable::FindLocked(NodeId node) const {
  const auto it = nodes_.find(node);
  return it == nodes_.end() ? nullptr : it->second.get();
}

InodeTable::Node* InodeTable::FindChildLocked(NodeId parent, std::string_view name) const {
  const auto it = current_.find(ChildKey{parent, name});
  return it == current_.end() ? nullptr : *it;
}

InodeTable::Node& InodeTable::AddLocked(Node& parent, std::string_view name) {
  auto made = std::make_unique<Node>();
  Node& node = *made;
  node.id = next_++;
  node.parent = &parent;
  node.name = name;
  node.current = true;
  ChooseRuleLocked(node);
  ++parent.children;
  nodes_.emplace(node.id, std::move(made));
  const bool inserted = current_.insert(&node).second;
  STOKER_CHECK(inserted);
  metrics_.inodes.Add();
  return node;
}

InodeTable::Node& InodeTable::ReplaceLocked(Node& old) {
  DetachLocked(old);
  Node& node = AddLocked(*old.parent, old.name);
  node.attr = old.attr;
  node.token = old.token;
  node.validated_at = old.validated_at;
  node.loaded = old.loaded;
  return node;
}

void InodeTable::DetachLocked(Node& node) {
  if (!node.current) return;
  current_.erase(&node);
  node.current = false;
}

void InodeTable::EraseIfUnusedLocked(Node& start) {
  Node* node = &start;
  while (node->lookups == 0 && node->children == 0 && node->opens == 0) {
    Node* parent = node->parent;
    DetachLocked(*node);
    nodes_.erase(node->id);
    metrics_.inodes.Sub();
    --parent->children;
    node = parent;
  }
}

std::string InodeTable::PathLocked(const Node& node) const {
  size_t length = 0;
  for (const Node* n = &node; n->parent != nullptr; n = n->parent) length += n->name.size() + 1;
  if (length == 0) return {};
  std::string path(length - 1, '/');
  size_t end = path.size();
  for (const Node* n = &node; n->parent != nullptr; n = n->parent) {
    end -= n->name.size();
    std::copy(n->name.begin(), n->name.end(), path.begin() + static_cast<std::ptrdiff_t>(end));
    if (end > 0) --end;  // the '/' that is there already
  }
  return path;
}

void InodeTable::ChooseRuleLocked(Node& node) const {
  if (rules_.empty()) return;
  const PathRule* const rule = FindRule(rules_, PathLocked(node));
  node.rule = rule == nullptr ? 0 : static_cast<uint16_t>(rule - rules_.data() + 1);
}

Nanos InodeTable::TtlLocked(const Node& node) const {
  if (node.rule == 0) return ttl_;
  const PathRule& rule = rules_[node.rule - 1U];
  if (rule.path_class == PathClass::kImmutable) return kImmutableTtl;
  return rule.ttl.value_or(ttl_);
}

bool InodeTable::SkipLocked(const Node& node) const {
  return node.rule != 0 && rules_[node.rule - 1U].path_class == PathClass::kSkip;
}

NodeAttr InodeTable::AttrLocked(const Node& node, Nanos now) const {
  NodeAttr attr;
  attr.node = node.id;
  attr.attr = Unpack(node.attr);
  const Nanos age = now - node.validated_at;
  const Nanos ttl = TtlLocked(node);
  attr.ttl = node.loaded && age < ttl ? ttl - std::max(age, Nanos(0)) : Nanos(0);
  return attr;
}

Result<std::string> InodeTable::Path(NodeId node) const {
  MutexLock lock(mu_);
  const Node* found = FindLocked(node);
  if (found == nullptr) return Status(Code::kStale, "unknown node");
  return PathLocked(*found);
}

Result<std::string> InodeTable::ChildPath(NodeId parent, std::string_view name) const {
  MutexLock lock(mu_);
  const Node* found = FindLocked(parent);
  if (found == nullptr) return Status(Code::kStale, "unknown node");
  std::string path = PathLocked(*found);
  if (!path.empty()) path += '/';
  path += name;
  return path;
}

std::optional<NodeAttr> InodeTable::LookupFresh(NodeId parent, std::string_view name, Nanos now) {
  MutexLock lock(mu_);
  Node* node = FindChildLocked(parent, name);
  if (node == nullptr) return std::nullopt;
  NodeAttr attr = AttrLocked(*node, now);
  if (attr.ttl == Nanos(0)) return std::nullopt;
  if (node->retired) {
    node = &ReplaceLocked(*node);
    attr.node = node->id;
  }
  ++node->lookups;
  return attr;
}

Result<InodeTable::Applied> InodeTable::Apply(NodeId parent, std::string_view name, const UfsAttr& attr,
                                              Nanos asked, Nanos now) {
  MutexLock lock(mu_);
  Node* up = FindLocked(parent);
  if (up == nullptr) return Status(Code::kStale, "the directory is not known any more");
  Applied applied;
  Node* node = FindChildLocked(parent, name);
  Node* replaced = nullptr;
  const bool newer_known = node != nullptr && node->validated_at > asked;
  if (node != nullptr && !newer_known && !SameThing(*node, attr)) {
    if (S_ISREG(node->attr.mode)) applied.superseded = FileVersion{node->attr.size, node->token};
    node->past = true;
    DetachLocked(*node);
    replaced = std::exchange(node, nullptr);
  }
  if (node != nullptr && node->retired) node = &ReplaceLocked(*node);
  if (node == nullptr) node = &AddLocked(*up, name);
  if (!newer_known) {
    node->attr = Pack(attr);
    if (S_ISREG(attr.mode)) {
      node->token = attr.version.token;
      node->attr.size = attr.version.size;
    }
    node->validated_at = asked;
    node->loaded = true;
  }
  ++node->lookups;
  applied.entry = AttrLocked(*node, now);
  if (replaced != nullptr) EraseIfUnusedLocked(*replaced);  // last: the parent now has the new child
  return applied;
}

bool InodeTable::ApplyMissing(NodeId parent, std::string_view name, Nanos asked) {
  MutexLock lock(mu_);
  Node* node = FindChildLocked(parent, name);
  if (node == nullptr) return true;
  if (node->validated_at > asked) return false;
  node->past = true;
  DetachLocked(*node);
  EraseIfUnusedLocked(*node);
  return true;
}

std::optional<InodeTable::Known> InodeTable::Get(NodeId id, Nanos now) const {
  MutexLock lock(mu_);
  const Node* node = FindLocked(id);
  if (node == nullptr) return std::nullopt;
  return Known{AttrLocked(*node, now), node->loaded, node->past, node->opens, SkipLocked(*node)};
}

FileVersion InodeTable::Version(NodeId id) const {
  MutexLock lock(mu_);
  const Node* node = FindLocked(id);
  if (node == nullptr) return {};
  return {node->attr.size, node->token};
}

std::optional<NodeName> InodeTable::Name(NodeId id) const {
  MutexLock lock(mu_);
  const Node* node = FindLocked(id);
  if (node == nullptr || node->parent == nullptr) return std::nullopt;
  return NodeName{node->parent->id, node->name};
}

InodeTable::Refreshed InodeTable::Refresh(NodeId id, const UfsAttr& attr, Nanos asked) {
  MutexLock lock(mu_);
  Node* node = FindLocked(id);
  Refreshed refreshed;
  if (node == nullptr || node->past) return refreshed;
  const bool newer_known = node->loaded && node->validated_at > asked;
  // The root is whatever the UFS's root is: nothing else can take its place.
  if (newer_known || node->parent == nullptr || SameThing(*node, attr)) {
    if (!newer_known) {
      node->attr = Pack(attr);
      if (S_ISREG(attr.mode)) node->attr.size = attr.version.size;
      node->validated_at = asked;
      node->loaded = true;
    }
    refreshed.same = true;
    return refreshed;
  }
  if (S_ISREG(node->attr.mode)) refreshed.superseded = FileVersion{node->attr.size, node->token};
  node->past = true;
  if (node->current) refreshed.forget = NodeName{node->parent->id, node->name};
  DetachLocked(*node);
  return refreshed;
}

InodeTable::Refreshed InodeTable::RefreshMissing(NodeId id, Nanos asked) {
  MutexLock lock(mu_);
  Node* node = FindLocked(id);
  Refreshed refreshed;
  if (node == nullptr) return refreshed;
  refreshed.same = !node->past && node->loaded && node->validated_at > asked;
  if (!refreshed.same) refreshed.forget = MarkPastLocked(*node);
  return refreshed;
}

std::optional<NodeName> InodeTable::MarkPastLocked(Node& node) {
  if (node.parent == nullptr || node.past) return std::nullopt;
  node.past = true;
  if (!node.current) return std::nullopt;
  DetachLocked(node);
  return NodeName{node.parent->id, node.name};
}

std::optional<NodeName> InodeTable::MarkPast(NodeId id) {
  MutexLock lock(mu_);
  Node* node = FindLocked(id);
  if (node == nullptr) return std::nullopt;
  return MarkPastLocked(*node);
}

void InodeTable::Forget(NodeId id, uint64_t lookups) {
  MutexLock lock(mu_);
  Node* node = FindLocked(id);
  if (node == nullptr || node->parent == nullptr) return;
  node->lookups -= std::min(lookups, node->lookups);  // the kernel's count, not ours to trust with our life
  EraseIfUnusedLocked(*node);
}

Result<std::optional<NodeOpen>> InodeTable::JoinOpen(NodeId id) {
  MutexLock lock(mu_);
  Node* node = FindLocked(id);
  if (node == nullptr || node->past) return Status(Code::kStale, "the file has changed");
  if (node->opens == 0) return std::optional<NodeOpen>();
  ++node->opens;
  return std::optional<NodeOpen>(*node->open);
}

Result<NodeOpen> InodeTable::BeginOpen(NodeId id, NodeOpen wish) {
  MutexLock lock(mu_);
  Node* node = FindLocked(id);
  if (node == nullptr || node->past) return Status(Code::kStale, "the file has changed");
  if (node->opens == 0) {
    wish.mode = wish.backing != nullptr ? ServeMode::kPassthrough : ServeMode::kCached;
    node->open = std::make_unique<NodeOpen>(std::move(wish));
    node->retired = false;  // nothing keeps it from the mode that fits
    if (node->open->object) open_by_object_.emplace(*node->open->object, node);
  }
  ++node->opens;
  return *node->open;
}

void InodeTable::EndOpen(NodeId id) {
  std::unique_ptr<NodeOpen> closed;  // a pin and perhaps an ioctl go with it: after the lock
  MutexLock lock(mu_);
  Node* node = FindLocked(id);
  STOKER_CHECK(node != nullptr && node->opens > 0);
  if (--node->opens == 0) {
    closed = std::move(node->open);
    node->retired = false;
    if (closed->object) {
      auto [it, end] = open_by_object_.equal_range(*closed->object);
      while (it != end && it->second != node) ++it;
      STOKER_CHECK(it != end);
      open_by_object_.erase(it);
    }
    EraseIfUnusedLocked(*node);
  }
  lock.Unlock();
}

std::optional<NodeName> InodeTable::RetireLocked(Node& node) {
  if (node.retired || !node.current || node.opens == 0) return std::nullopt;
  node.retired = true;
  return NodeName{node.parent->id, node.name};
}

std::vector<NodeName> InodeTable::Retire(const ObjectId& object, bool only_cached) {
  std::vector<NodeName> names;
  MutexLock lock(mu_);
  auto [it, end] = open_by_object_.equal_range(object);
  for (; it != end; ++it) {
    if (only_cached && it->second->open->mode != ServeMode::kCached) continue;
    if (std::optional<NodeName> name = RetireLocked(*it->second)) names.push_back(std::move(*name));
  }
  return names;
}

std::optional<NodeName> InodeTable::RetireNode(NodeId id) {
  MutexLock lock(mu_);
  Node* node = FindLocked(id);
  if (node == nullptr) return std::nullopt;
  return RetireLocked(*node);
}

bool InodeTable::KeepListing(NodeId dir, timespec wall_now) {
  constexpr int64_t kSettledSeconds = 2;  // coarser than any file system's clock tick that we know (FAT)
  MutexLock lock(mu_);
  Node* node = FindLocked(dir);
  if (node == nullptr) return false;
  const bool keep = node->has_listing && node->listed_mtime_s == node->attr.mtime_s &&
                    node->listed_mtime_ns == node->attr.mtime_ns;
  node->has_listing = wall_now.tv_sec - node->attr.mtime_s > kSettledSeconds;
  node->listed_mtime_s = node->attr.mtime_s;
  node->listed_mtime_ns = node->attr.mtime_ns;
  return keep;
}

size_t InodeTable::size() const {
  MutexLock lock(mu_);
  return nodes_.size();
}

}  // namespace stoker
