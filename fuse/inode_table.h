#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/ids.h"
#include "cache/base/metrics.h"
#include "cache/base/mutex.h"
#include "cache/base/result.h"
#include "cache/ufs/ufs.h"
#include "fuse/passthrough.h"
#include "fuse/path_rules.h"
#include "prefetch/fetch_engine.h"

namespace stoker {

using NodeId = uint64_t;  // what the kernel calls nodeid; never used twice
inline constexpr NodeId kRootNode = 1;

/// How a node's opens are served; the same for all opens that live at one time (the kernel answers EIO
/// otherwise).
enum class ServeMode : uint8_t { kNone, kCached, kPassthrough };

/// What the kernel is told of a name.
struct NodeAttr {
  NodeId node = 0;
  struct stat attr {};
  Nanos ttl{0};  // what is left of metadata.ttl; 0: must be asked again
};

/// A name that the kernel must look up again.
struct NodeName {
  NodeId parent = 0;
  std::string name;
  friend bool operator==(const NodeName&, const NodeName&) = default;
};

/// One open, counted.
struct NodeOpen {
  ServeMode mode = ServeMode::kNone;
  std::shared_ptr<FetchFile> file;     // shared by all opens of the node; null for an empty file
  std::optional<ObjectId> object;      // what `file` is cached in, when it is
  std::shared_ptr<BackingId> backing;  // passthrough only; the one id of all opens of the node
};

/// The nodes that the kernel knows: one node = one path, one version, one serving mode. Decides which node a
/// path has now, which one is past, and how an open may be served; does no I/O. Any thread; one lock, short
/// sections. Nodes outlive their name: a node goes when the kernel has forgotten it, its children are gone
/// and nothing has it open.
class InodeTable {
 public:
  /// `rules`: what holds instead of `ttl` for the paths that they fit.
  InodeTable(Nanos ttl, Metrics& metrics, std::vector<PathRule> rules = {});
  ~InodeTable();
  InodeTable(const InodeTable&) = delete;
  InodeTable& operator=(const InodeTable&) = delete;

  /// Path relative to the UFS root. kStale: unknown node.
  Result<std::string> Path(NodeId node) const EXCLUDES(mu_);
  /// Path of a name below a node.
  Result<std::string> ChildPath(NodeId parent, std::string_view name) const EXCLUDES(mu_);

  /// The child's node when what is known of it is fresh; counts a lookup. A path that must change its node
  /// (see Retire) gets the new one here.
  std::optional<NodeAttr> LookupFresh(NodeId parent, std::string_view name, Nanos now) EXCLUDES(mu_);

  /// What became of a node that `attr` has replaced: its version, for the cache to forget.
  struct Applied {
    NodeAttr entry;
    std::optional<FileVersion> superseded;
  };
  /// Takes in what the UFS said of parent/name when asked at `asked`; counts a lookup. Older knowledge never
  /// replaces newer. Another version, type or identity is another node. kStale: the parent is unknown.
  Result<Applied> Apply(NodeId parent, std::string_view name, const UfsAttr& attr, Nanos asked, Nanos now)
      EXCLUDES(mu_);
  /// The UFS said, when asked at `asked`, that the name does not exist. False: a newer answer says it does.
  bool ApplyMissing(NodeId parent, std::string_view name, Nanos asked) EXCLUDES(mu_);

  /// What is known of a node itself.
  struct Known {
    NodeAttr attr;        // attr.ttl == 0: not fresh
    bool loaded = false;  // false: nothing known yet (the root at the start)
    bool past = false;    // its path holds something else now
    uint32_t opens = 0;
    bool skip = false;  // a rule says that it is never cached
  };
  std::optional<Known> Get(NodeId node, Nanos now) const EXCLUDES(mu_);
  FileVersion Version(NodeId node) const EXCLUDES(mu_);
  std::optional<NodeName> Name(NodeId node) const EXCLUDES(mu_);

  /// Takes in what the UFS said of the node's path. False when that is something else now: the node is past.
  struct Refreshed {
    bool same = false;
    std::optional<NodeName> forget;  // the kernel should look this name up again
    std::optional<FileVersion> superseded;
  };
  Refreshed Refresh(NodeId node, const UfsAttr& attr, Nanos asked) EXCLUDES(mu_);
  /// The same when the UFS said that there is nothing at the node's path.
  Refreshed RefreshMissing(NodeId node, Nanos asked) EXCLUDES(mu_);
  /// The node's path holds something else, or nothing. The name to invalidate, unless that was known.
  std::optional<NodeName> MarkPast(NodeId node) EXCLUDES(mu_);

  void Forget(NodeId node, uint64_t lookups) EXCLUDES(mu_);

  /// Counts an open of a node that is open already, in its mode. Empty when it is not open. kStale: past.
  Result<std::optional<NodeOpen>> JoinOpen(NodeId node) EXCLUDES(mu_);
  /// Counts an open. A node without opens takes `wish` (passthrough when it has a backing id, else cached);
  /// one that has been opened meanwhile keeps its mode, its file and its id. kStale: past, or unknown.
  Result<NodeOpen> BeginOpen(NodeId node, NodeOpen wish) EXCLUDES(mu_);
  void EndOpen(NodeId node) EXCLUDES(mu_);

  /// The object became complete (`only_cached`: passthrough opens are served best already) or left the cache:
  /// paths whose opens should not be joined by new ones get a new node at their next lookup. The names to
  /// invalidate.
  std::vector<NodeName> Retire(const ObjectId& object, bool only_cached) EXCLUDES(mu_);
  std::optional<NodeName> RetireNode(NodeId node) EXCLUDES(mu_);

  /// True when the directory's listing that the kernel may have kept since the last call is still what the
  /// UFS has, as far as its mtime tells. A directory changed within the last two seconds of `wall_now` is
  /// never kept: it may change again within one tick of its clock.
  bool KeepListing(NodeId dir, timespec wall_now) EXCLUDES(mu_);

  size_t size() const EXCLUDES(mu_);

 private:
  struct Node;
  /// Attributes as kept: struct stat without the padding and without what is always the same.
  struct Packed {
    uint64_t ino = 0, size = 0, blocks = 0, rdev = 0;
    int64_t atime_s = 0, mtime_s = 0, ctime_s = 0;
    uint32_t atime_ns = 0, mtime_ns = 0, ctime_ns = 0;
    uint32_t mode = 0, uid = 0, gid = 0, nlink = 0, block_size = 0;
  };
  struct ChildKey {
    NodeId parent;
    std::string_view name;
  };
  struct ChildHash {
    using is_transparent = void;
    size_t operator()(const ChildKey& key) const;
    size_t operator()(const Node* node) const;
  };
  struct ChildEqual {
    using is_transparent = void;
    bool operator()(const Node* a, const Node* b) const;
    bool operator()(const ChildKey& a, const Node* b) const;
    bool operator()(const Node* a, const ChildKey& b) const { return (*this)(b, a); }
  };

  static Packed Pack(const UfsAttr& attr);
  static struct stat Unpack(const Packed& packed);
  static bool SameThing(const Node& node, const UfsAttr& attr);
  Node* FindLocked(NodeId node) const REQUIRES(mu_);
  Node* FindChildLocked(NodeId parent, std::string_view name) const REQUIRES(mu_);
  Node& AddLocked(Node& parent, std::string_view name) REQUIRES(mu_);
  /// A node in the place of `old` with the same knowledge.
  Node& ReplaceLocked(Node& old) REQUIRES(mu_);
  void DetachLocked(Node& node) REQUIRES(mu_);
  void EraseIfUnusedLocked(Node& node) REQUIRES(mu_);
  std::optional<NodeName> MarkPastLocked(Node& node) REQUIRES(mu_);
  std::optional<NodeName> RetireLocked(Node& node) REQUIRES(mu_);
  std::string PathLocked(const Node& node) const REQUIRES(mu_);
  void ChooseRuleLocked(Node& node) const REQUIRES(mu_);
  Nanos TtlLocked(const Node& node) const REQUIRES(mu_);
  bool SkipLocked(const Node& node) const REQUIRES(mu_);
  NodeAttr AttrLocked(const Node& node, Nanos now) const REQUIRES(mu_);

  const Nanos ttl_;
  const std::vector<PathRule> rules_;
  Metrics& metrics_;
  mutable Mutex mu_;
  std::unordered_map<NodeId, std::unique_ptr<Node>> nodes_ GUARDED_BY(mu_);
  // INVARIANT: holds exactly the nodes with current == true.
  std::unordered_set<Node*, ChildHash, ChildEqual> current_ GUARDED_BY(mu_);
  // INVARIANT: nodes with opens > 0 that have an object.
  std::unordered_multimap<ObjectId, Node*> open_by_object_ GUARDED_BY(mu_);
  NodeId next_ GUARDED_BY(mu_) = kRootNode + 1;
};

}  // namespace stoker
