#include "fuse/inode_table.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using std::chrono::seconds;

constexpr Nanos kTtl = seconds(60);
constexpr Nanos kNow = seconds(1000);

UfsAttr File(uint64_t ino, const std::string& token, uint64_t size = 10) {
  UfsAttr attr;
  attr.mode = S_IFREG | 0644;
  attr.ino = ino;
  attr.size = size;
  attr.version = {size, token};
  return attr;
}
UfsAttr Dir(uint64_t ino, time_t mtime = 0) {
  UfsAttr attr;
  attr.mode = S_IFDIR | 0755;
  attr.ino = ino;
  attr.mtime.tv_sec = mtime;
  return attr;
}
ObjectId Object(uint8_t n) {
  ObjectId id;
  id.bytes[0] = n;
  return id;
}

class FakeDevice final : public BackingDevice {
 public:
  Result<int32_t> Register(int) override { return ++last; }
  void Unregister(int32_t) override {}
  int32_t last = 0;
};

class InodeTableTest : public ::testing::Test {
 protected:
  NodeId Look(NodeId parent, const std::string& name, const UfsAttr& attr, Nanos asked = kNow) {
    Result<InodeTable::Applied> applied = table_.Apply(parent, name, attr, asked, asked);
    EXPECT_TRUE(applied.ok());
    return applied.ok() ? applied->entry.node : 0;
  }
  NodeOpen Passthrough(uint8_t object) {
    NodeOpen wish;
    wish.object = Object(object);
    wish.backing = std::make_shared<BackingId>(device_, ++next_id_, metrics_);
    return wish;
  }
  NodeOpen Cached(uint8_t object) {
    NodeOpen wish;
    wish.object = Object(object);
    return wish;
  }
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  int32_t next_id_ = 0;
  Metrics metrics_;
  InodeTable table_{kTtl, metrics_};
};

TEST_F(InodeTableTest, PathsFollowTheParents) {
  EXPECT_EQ(*table_.Path(kRootNode), "");
  EXPECT_EQ(*table_.ChildPath(kRootNode, "a"), "a");
  const NodeId a = Look(kRootNode, "a", Dir(2));
  const NodeId b = Look(a, "b", Dir(3));
  const NodeId c = Look(b, std::string("c\xff") + "d", File(4, "v"));
  EXPECT_EQ(*table_.Path(c), std::string("a/b/c\xff") + "d");
  EXPECT_EQ(*table_.ChildPath(b, "x"), "a/b/x");
  EXPECT_EQ(table_.Path(999).status().code(), Code::kStale);
}

TEST_F(InodeTableTest, SameVersionIsTheSameNodeOtherVersionIsAnother) {
  const NodeId first = Look(kRootNode, "f", File(5, "v1"));
  EXPECT_EQ(Look(kRootNode, "f", File(5, "v1"), kNow + seconds(1)), first);
  const Result<InodeTable::Applied> second =
      table_.Apply(kRootNode, "f", File(5, "v2"), kNow + seconds(2), kNow + seconds(2));
  ASSERT_TRUE(second.ok());
  EXPECT_NE(second->entry.node, first);
  ASSERT_TRUE(second->superseded.has_value());
  EXPECT_EQ(second->superseded->token, "v1");
  EXPECT_TRUE(table_.Get(first, kNow)->past);
  EXPECT_FALSE(table_.Get(second->entry.node, kNow)->past);
  EXPECT_EQ(table_.JoinOpen(first).status().code(), Code::kStale);
  EXPECT_EQ(table_.BeginOpen(first, Cached(1)).status().code(), Code::kStale);
}

TEST_F(InodeTableTest, AnotherTypeOrIdentityIsAnotherNode) {
  const NodeId dir = Look(kRootNode, "x", Dir(7));
  EXPECT_EQ(Look(kRootNode, "x", Dir(7, 99), kNow + seconds(1)), dir);  // changed, still that directory
  EXPECT_NE(Look(kRootNode, "x", Dir(8), kNow + seconds(2)), dir);
  UfsAttr link;
  link.mode = S_IFLNK | 0777;
  link.ino = 20;
  link.ctime.tv_sec = 1;
  const NodeId first = Look(kRootNode, "l", link);
  link.ctime.tv_sec = 2;  // the inode number was used again
  EXPECT_NE(Look(kRootNode, "l", link, kNow + seconds(1)), first);
}

TEST_F(InodeTableTest, OldAnswersDoNotReplaceNewerKnowledge) {
  const NodeId newer = Look(kRootNode, "f", File(5, "v2"), kNow + seconds(10));
  EXPECT_EQ(Look(kRootNode, "f", File(5, "v1"), kNow), newer);
  EXPECT_EQ(table_.Version(newer).token, "v2");
  table_.ApplyMissing(kRootNode, "f", kNow);
  EXPECT_FALSE(table_.Get(newer, kNow)->past);
  EXPECT_TRUE(table_.Refresh(newer, File(5, "v1"), kNow).same);
  EXPECT_EQ(table_.Version(newer).token, "v2");
}

TEST_F(InodeTableTest, FreshnessEndsWithTheTtlOfTheQuestionNotOfTheAnswer) {
  const NodeId node = Look(kRootNode, "f", File(5, "v"), kNow);
  EXPECT_EQ(table_.Get(node, kNow + seconds(20))->attr.ttl, kTtl - seconds(20));
  EXPECT_TRUE(table_.LookupFresh(kRootNode, "f", kNow + kTtl - Nanos(1)).has_value());
  EXPECT_FALSE(table_.LookupFresh(kRootNode, "f", kNow + kTtl).has_value());
  EXPECT_EQ(table_.Get(node, kNow + kTtl)->attr.ttl, Nanos(0));
}

TEST_F(InodeTableTest, NodesOutliveUnlinkUntilForgottenAndClosed) {
  const NodeId node = Look(kRootNode, "f", File(5, "v"));
  ASSERT_TRUE(table_.BeginOpen(node, Cached(1)).ok());
  table_.ApplyMissing(kRootNode, "f", kNow + seconds(1));
  EXPECT_TRUE(table_.Get(node, kNow)->past);
  table_.Forget(node, 1);
  EXPECT_TRUE(table_.Get(node, kNow).has_value());
  table_.EndOpen(node);
  EXPECT_FALSE(table_.Get(node, kNow).has_value());
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(InodeTableTest, ParentsOutliveTheirChildren) {
  const NodeId a = Look(kRootNode, "a", Dir(2));
  const NodeId f = Look(a, "f", File(3, "v"));
  table_.Forget(a, 1);
  EXPECT_EQ(*table_.Path(f), "a/f");
  table_.Forget(f, 1);
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_EQ(metrics_.inodes.value(), 0);
}

TEST_F(InodeTableTest, OpensOfOneNodeShareModeAndId) {
  const NodeId node = Look(kRootNode, "f", File(5, "v"));
  const NodeOpen first = *table_.BeginOpen(node, Passthrough(1));
  EXPECT_EQ(first.mode, ServeMode::kPassthrough);
  const NodeOpen other_id = *table_.BeginOpen(node, Passthrough(1));
  EXPECT_EQ(other_id.backing, first.backing);
  const NodeOpen wants_cached = *table_.BeginOpen(node, Cached(1));
  EXPECT_EQ(wants_cached.mode, ServeMode::kPassthrough);
  for (int i = 0; i < 3; ++i) table_.EndOpen(node);
  EXPECT_EQ(table_.BeginOpen(node, Cached(1))->mode, ServeMode::kCached);
  EXPECT_EQ(table_.BeginOpen(node, Passthrough(1))->mode, ServeMode::kCached);
}

TEST_F(InodeTableTest, ACompletedObjectGivesThePathANewNodeWhileTheOldStaysCached) {
  const NodeId cold = Look(kRootNode, "f", File(5, "v"));
  ASSERT_TRUE(table_.BeginOpen(cold, Cached(1)).ok());
  const std::vector<NodeName> names = table_.Retire(Object(1), true);
  EXPECT_EQ(names, (std::vector<NodeName>{{kRootNode, "f"}}));
  EXPECT_TRUE(table_.Retire(Object(1), true).empty()) << "told once is enough";
  // A late open of the cold node joins it.
  EXPECT_EQ((*table_.JoinOpen(cold))->mode, ServeMode::kCached);
  const std::optional<NodeAttr> hot = table_.LookupFresh(kRootNode, "f", kNow);
  ASSERT_TRUE(hot.has_value());
  EXPECT_NE(hot->node, cold);
  EXPECT_EQ(hot->attr.st_ino, 5U);
  EXPECT_EQ(table_.BeginOpen(hot->node, Passthrough(1))->mode, ServeMode::kPassthrough);
  EXPECT_FALSE(table_.Get(cold, kNow)->past);
}

TEST_F(InodeTableTest, ARetiredNodeWithoutOpensServesAgain) {
  const NodeId cold = Look(kRootNode, "f", File(5, "v"));
  ASSERT_TRUE(table_.BeginOpen(cold, Cached(1)).ok());
  ASSERT_EQ(table_.Retire(Object(1), true).size(), 1U);
  table_.EndOpen(cold);
  EXPECT_EQ(table_.LookupFresh(kRootNode, "f", kNow)->node, cold);
  EXPECT_EQ(table_.BeginOpen(cold, Passthrough(1))->mode, ServeMode::kPassthrough);
}

TEST_F(InodeTableTest, AGoneObjectRetiresPassthroughOpensToo) {
  const NodeId hot = Look(kRootNode, "f", File(5, "v"));
  const NodeOpen open = *table_.BeginOpen(hot, Passthrough(1));
  EXPECT_TRUE(table_.Retire(Object(1), true).empty());
  EXPECT_EQ(table_.Retire(Object(1), false).size(), 1U);
  EXPECT_EQ((*table_.JoinOpen(hot))->backing, open.backing) << "a late open gets the same id";
  EXPECT_NE(table_.LookupFresh(kRootNode, "f", kNow)->node, hot);
}

TEST_F(InodeTableTest, HardLinksAreNodesOfTheirOwnWithOneIno) {
  const NodeId a = Look(kRootNode, "a", File(5, "v"));
  const NodeId b = Look(kRootNode, "b", File(5, "v"));
  EXPECT_NE(a, b);
  EXPECT_EQ(table_.Get(a, kNow)->attr.attr.st_ino, table_.Get(b, kNow)->attr.attr.st_ino);
  ASSERT_TRUE(table_.BeginOpen(a, Cached(1)).ok());
  ASSERT_TRUE(table_.BeginOpen(b, Cached(1)).ok());
  EXPECT_EQ(table_.Retire(Object(1), true).size(), 2U);
}

TEST_F(InodeTableTest, AListingIsKeptOnlyWhenTheDirectoryStoodStill) {
  timespec wall{};
  wall.tv_sec = 1000;
  const NodeId dir = Look(kRootNode, "d", Dir(2, 500));
  EXPECT_FALSE(table_.KeepListing(dir, wall));  // the kernel has none yet
  EXPECT_TRUE(table_.KeepListing(dir, wall));
  Look(kRootNode, "d", Dir(2, 999), kNow + seconds(1));
  EXPECT_FALSE(table_.KeepListing(dir, wall));
  EXPECT_FALSE(table_.KeepListing(dir, wall))
      << "changed a second ago: it may change within the same tick again";
  wall.tv_sec = 2000;
  EXPECT_FALSE(table_.KeepListing(dir, wall));
  EXPECT_TRUE(table_.KeepListing(dir, wall));
}

/// Random lookups, forgets, version changes, opens, completions, evictions and closes against what the kernel
/// demands: opens of one node that live at one time have one mode and, in passthrough, one id.
TEST_F(InodeTableTest, RandomHistoriesKeepTheKernelsRules) {
  Random random(testing::TestSeed());
  constexpr int kNames = 4;
  struct KernelNode {
    uint64_t lookups = 0;
    std::vector<NodeOpen> opens;
    int name = 0;
    int version = 0;
  };
  struct Path {
    int version = 1;
    bool complete = false;
  };
  std::map<NodeId, KernelNode> kernel;
  std::vector<Path> paths(kNames);
  std::map<uint8_t, std::shared_ptr<BackingId>> ids;
  const auto object_of = [](int name, int version) { return static_cast<uint8_t>(name * 32 + version % 32); };
  Nanos now = kNow;
  for (int step = 0; step < 20000; ++step) {
    now += std::chrono::milliseconds(random.Below(3000));
    const int name = static_cast<int>(random.Below(kNames));
    Path& path = paths[name];
    const std::string text = "f" + std::to_string(name);
    switch (random.Below(7)) {
      case 0:
      case 1: {  // lookup
        NodeId node = 0;
        if (const auto fresh = table_.LookupFresh(kRootNode, text, now)) {
          node = fresh->node;
        } else {
          node = Look(kRootNode, text, File(static_cast<uint64_t>(name) + 10, std::to_string(path.version)),
                      now);
        }
        KernelNode& known = kernel[node];
        if (known.lookups++ == 0) {
          known.name = name;
          known.version = std::stoi(table_.Version(node).token);
        }
        ASSERT_EQ(known.name, name);
        ASSERT_EQ(std::to_string(known.version), table_.Version(node).token) << "a node changed its version";
        break;
      }
      case 2: {  // the UFS changes
        path.version++;
        path.complete = false;
        break;
      }
      case 3: {  // the object becomes complete
        path.complete = true;
        table_.Retire(Object(object_of(name, path.version)), true);
        break;
      }
      case 4: {  // evicted
        path.complete = false;
        const uint8_t object = object_of(name, path.version);
        ids.erase(object);
        table_.Retire(Object(object), false);
        break;
      }
      case 5: {  // open some node that the kernel knows
        if (kernel.empty()) break;
        auto it = kernel.begin();
        std::advance(it, static_cast<long>(random.Below(kernel.size())));
        KernelNode& node = it->second;
        const Path& its_path = paths[node.name];
        Result<std::optional<NodeOpen>> joined = table_.JoinOpen(it->first);
        std::optional<NodeOpen> open;
        if (joined.ok() && joined->has_value()) {
          open = **joined;
        } else if (joined.ok()) {
          const uint8_t object = object_of(node.name, node.version);
          NodeOpen wish = Cached(object);
          if (its_path.complete && its_path.version == node.version) {
            std::shared_ptr<BackingId>& id = ids[object];
            if (id == nullptr) id = std::make_shared<BackingId>(device_, ++next_id_, metrics_);
            wish.backing = id;
          }
          Result<NodeOpen> begun = table_.BeginOpen(it->first, wish);
          ASSERT_TRUE(begun.ok());
          open = *begun;
        }
        if (!open) break;
        for (const NodeOpen& other : node.opens) {
          ASSERT_EQ(other.mode, open->mode) << "the kernel would answer EIO";
          ASSERT_EQ(other.backing, open->backing) << "the kernel would answer EIO";
        }
        ASSERT_EQ(open->mode == ServeMode::kPassthrough, open->backing != nullptr);
        node.opens.push_back(*open);
        break;
      }
      case 6: {  // close or forget
        if (kernel.empty()) break;
        auto it = kernel.begin();
        std::advance(it, static_cast<long>(random.Below(kernel.size())));
        KernelNode& node = it->second;
        if (!node.opens.empty()) {
          node.opens.pop_back();
          table_.EndOpen(it->first);
        } else {
          const uint64_t some = 1 + random.Below(node.lookups);
          table_.Forget(it->first, some);
          node.lookups -= some;
          if (node.lookups == 0) {
            ASSERT_FALSE(table_.Get(it->first, now).has_value());
            kernel.erase(it);
          }
        }
        break;
      }
    }
    ASSERT_EQ(table_.size(), kernel.size() + 1) << "step " << step;
    ASSERT_EQ(metrics_.inodes.value(), static_cast<int64_t>(kernel.size()));
  }
  for (auto& [id, node] : kernel) {
    for (size_t i = 0; i < node.opens.size(); ++i) table_.EndOpen(id);
    table_.Forget(id, node.lookups);
  }
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_EQ(metrics_.inodes.value(), 0);
}

}  // namespace
}  // namespace stoker
