#include "cache/store/queue_policy.h"

#include <algorithm>
#include <functional>

#include "cache/base/check.h"

namespace stoker {
namespace {

uint64_t KeyOf(const EvictionNode& node) {
  return std::hash<ObjectId>()(*node.id);
}

}  // namespace

void EvictionRing::Link(EvictionNode& node, EvictionNode& older, EvictionNode& newer) {
  STOKER_CHECK(node.newer == nullptr && node.older == nullptr);
  node.older = &older;
  node.newer = &newer;
  older.newer = &node;
  newer.older = &node;
}

void EvictionRing::Remove(EvictionNode& node) {
  STOKER_CHECK(node.newer != nullptr && node.older != nullptr);
  node.newer->older = node.older;
  node.older->newer = node.newer;
  node.newer = nullptr;
  node.older = nullptr;
}

void QueuePolicy::Push(EvictionNode& node, Queue queue, bool newest) {
  node.queue = queue;
  EvictionRing& ring = queue == kSmall ? small_ : main_;
  if (newest) {
    ring.PushNewest(node);
  } else {
    ring.PushOldest(node);
  }
  (queue == kSmall ? small_bytes_ : main_bytes_) += node.charged;
  ++count_;
}

void QueuePolicy::Insert(EvictionNode& node, bool used) {
  const bool fresh = node.queue == kNone;
  const bool back = fresh && ghosts_.Take(KeyOf(node));
  if (back) ++ghost_hits_;
  if (used) {
    node.era = era_;
    if (!fresh) node.uses = std::min<uint8_t>(kMaxUses, node.uses + 1);
  }
  if (rule_ == CachePolicy::kS3Fifo && (fresh ? !back : node.queue == kSmall)) return Push(node, kSmall);
  // That the store itself had it makes nothing newer that was not used in this era.
  Push(node, kMain, used || node.era == era_);
}

void QueuePolicy::Erase(EvictionNode& node) {
  EvictionRing::Remove(node);
  (node.queue == kSmall ? small_bytes_ : main_bytes_) -= node.charged;
  --count_;
}

EvictionNode* QueuePolicy::S3Victim() {
  for (int round = 0;; ++round) {
    const bool small =
        main_.empty() || (!small_.empty() && small_bytes_ >= (small_bytes_ + main_bytes_) / kSmallShare);
    EvictionNode* const oldest = (small ? small_ : main_).oldest();
    if (oldest == nullptr || oldest->uses == 0 || round >= kMaxRounds) return oldest;
    // Each round was paid for by a use: constant on average.
    Erase(*oldest);
    oldest->uses = small ? 0 : static_cast<uint8_t>(oldest->uses - 1);
    Push(*oldest, kMain);
  }
}

EvictionNode* QueuePolicy::Victim(RoomFor what) {
  if (rule_ != CachePolicy::kRetain || what == RoomFor::kOverLimit) return AnyVictim();
  EvictionNode* const oldest = Oldest();
  return oldest != nullptr && oldest->era != era_ ? oldest : nullptr;
}

void QueuePolicy::Forgotten(const EvictionNode& node) {
  // In the main queue of s3fifo it had its rounds, and came to nothing.
  if (rule_ == CachePolicy::kS3Fifo && node.queue == kMain) return;
  ghosts_.Add(KeyOf(node), std::max<size_t>(count_, 1));
}

std::string QueuePolicy::Reason() const {
  switch (rule_) {
    case CachePolicy::kRetain:
      return "when the cache is full, what is there stays and what is new streams through";
    case CachePolicy::kLru:
      return "when the cache is full, what was used longest ago goes";
    default:
      return "when the cache is full, what was used once goes first";
  }
}

}  // namespace stoker
