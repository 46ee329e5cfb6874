#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/store/eviction_policy.h"
#include "cache/store/ghost_list.h"

namespace stoker {

/// Ring of nodes in order of insertion.
class EvictionRing {
 public:
  EvictionRing() { ends_.newer = ends_.older = &ends_; }
  EvictionRing(const EvictionRing&) = delete;
  EvictionRing& operator=(const EvictionRing&) = delete;

  bool empty() const { return ends_.newer == &ends_; }
  EvictionNode* oldest() const { return empty() ? nullptr : ends_.newer; }
  /// REQUIRES: in no ring.
  void PushNewest(EvictionNode& node) { Link(node, *ends_.older, ends_); }
  void PushOldest(EvictionNode& node) { Link(node, ends_, *ends_.newer); }
  /// REQUIRES: in a ring; whichever.
  static void Remove(EvictionNode& node);

 private:
  static void Link(EvictionNode& node, EvictionNode& older, EvictionNode& newer);

  EvictionNode ends_;  // ends_.older is the newest, ends_.newer the oldest
};

/// The three fixed policies. They share two queues, so that the rule may be changed at any time without
/// touching an object:
///
/// kLru: everything in the main queue, in order of last use; the oldest goes.
///
/// kRetain: the same order, but nobody goes for something new, with one exception: an object that was last
/// used before the era began (BeginEra; never, unless somebody calls it). What must go goes in that order.
///
/// kS3Fifo (after Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023): what is new
/// waits in a small queue of a tenth of the bytes; whoever was used again by its end moves to the main queue,
/// the others are forgotten and remembered by name; what comes back while its name is remembered goes to the
/// main queue at once. There a use (at most three count) buys one more round. Unlike there, a use brings an
/// object to the young end of its queue: it has to leave the queue while it is held anyway.
class QueuePolicy final : public EvictionPolicy {
 public:
  /// Names remembered in all; 4 MiB at 16 bytes each. As many are remembered as there are candidates: beyond
  /// 262,144 objects s3fifo forgets names earlier than it should.
  static constexpr size_t kMaxGhosts = size_t{1} << 18;

  explicit QueuePolicy(CachePolicy rule, size_t max_ghosts = kMaxGhosts) : rule_(rule), ghosts_(max_ghosts) {}

  void Use(const ObjectId&, bool, uint64_t, uint64_t) override {}
  void Insert(EvictionNode& node, bool used) override;
  void Erase(EvictionNode& node) override;
  EvictionNode* Victim(RoomFor what) override;
  void Forgotten(const EvictionNode& node) override;
  PolicyState State() const override { return {rule_, 0, ghost_hits_, ghosts_.size()}; }
  std::string Reason() const override;

  CachePolicy rule() const { return rule_; }
  /// REQUIRES: not kAuto.
  void SetRule(CachePolicy rule) { rule_ = rule; }
  /// Objects that are not used from here on may go, also under kRetain.
  void BeginEra() { ++era_; }
  /// Victim(kRead), whatever the rule would keep.
  EvictionNode* AnyVictim() { return rule_ == CachePolicy::kS3Fifo ? S3Victim() : Oldest(); }

 private:
  enum Queue : uint8_t { kNone = 0, kSmall = 1, kMain = 2 };
  static constexpr uint8_t kMaxUses = 3;
  static constexpr uint64_t kSmallShare = 10;  // the small queue is one in so many bytes
  /// Rounds that one call may grant; then the oldest goes whatever its uses. Keeps a call short when a
  /// million objects have all been used.
  static constexpr int kMaxRounds = 64;

  EvictionNode* Oldest() const { return small_.empty() ? main_.oldest() : small_.oldest(); }
  EvictionNode* S3Victim();
  void Push(EvictionNode& node, Queue queue, bool newest = true);

  CachePolicy rule_;
  uint32_t era_ = 0;
  EvictionRing small_;  // filled under kS3Fifo only; what another rule finds in it goes first
  EvictionRing main_;
  uint64_t small_bytes_ = 0;  // INVARIANT: charged bytes in small_
  uint64_t main_bytes_ = 0;   // INVARIANT: charged bytes in main_
  size_t count_ = 0;          // INVARIANT: nodes in both
  GhostList ghosts_;
  uint64_t ghost_hits_ = 0;
};

}  // namespace stoker
