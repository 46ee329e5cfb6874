#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "cache/store/ghost_list.h"
#include "cache/store/name_cache.h"
#include "cache/store/queue_policy.h"

namespace stoker {

/// Picks one of the fixed policies by what is being read. Each of them runs on a shadow: a cache of names for
/// a sample of the objects, one in 2^k by their ids, with the same share of the capacity. All shadows see
/// every use of a sampled object, so their hits say what each policy would have done (Waldspurger and others,
/// "Cache modeling and optimization using miniature simulations", USENIX ATC 2017). Three things follow from
/// them:
///
/// Choice: for each policy that does not decide, the bytes by which its shadow is ahead of the deciding one's
/// are added up, less one in a hundred of what is asked for, down to one capacity behind. Whose sum passes an
/// eighth of the capacity, and what chance could do, takes over: a large lead decides within a fraction of
/// the cache's size, a small one after several times it. What a policy gained before must be made up for
/// first, since a scan that comes round pays `retain` all at once.
///
/// When all is equal, recency: `retain` decides first, as it costs nothing to find out. Where lru would have
/// hit as much all the while that two capacities were hit, what is used fits, and lru takes over: it follows
/// at once when something else comes. Each time that proves wrong, four times as much is needed to try again.
///
/// Eras: what `retain` keeps may be of no use any more. When another shadow gets ahead of retain's as above,
/// or when what was useful once (or is left from an earlier run) is not asked for while nearly all that is
/// asked for was never seen before, then what is not used from now on may go, also under `retain`. A scan
/// that comes round is told from that by names: it asks for what was seen before.
///
/// Memory: kMaxShadowObjects names in each of three shadows and kMaxSeen names, about 2 MiB in all, whatever
/// the size of the cache; and the ghosts of the policy itself (QueuePolicy).
class AutoPolicy final : public EvictionPolicy {
 public:
  /// `max_shadow_objects`: for tests.
  explicit AutoPolicy(uint64_t seed, size_t max_shadow_objects = kMaxShadowObjects);

  void Use(const ObjectId& id, bool here, uint64_t bytes, uint64_t capacity) override;
  void Insert(EvictionNode& node, bool used) override;
  void Erase(EvictionNode& node) override { queues_.Erase(node); }
  EvictionNode* Victim(RoomFor what) override;
  void Forgotten(const EvictionNode& node) override;
  PolicyState State() const override;
  std::string Reason() const override;

  /// One in 2^this objects is sampled.
  unsigned sample_shift() const { return shift_; }

  /// Memory of shadows and names now; for tests of the bound.
  size_t shadow_objects() const;

 private:
  static constexpr size_t kMaxShadowObjects = 4096;  // chance moves a ratio of so many by a hundredth or two
  static constexpr size_t kMaxSeen = 8 * kMaxShadowObjects;
  static constexpr unsigned kMaxShift = 40;

  struct Shadow {
    explicit Shadow(CachePolicy rule) : policy(rule, kMaxSeen), names(policy) {}
    QueuePolicy policy;
    NameCache names;
    double lead = 0;   // bytes, over the deciding one; see 1.
    double block = 0;  // bytes hit in this block
    double faded = 0;  // bytes hit, the older the less; for people
  };
  enum class Why : uint8_t { kStart, kAhead, kFits };

  Shadow& Of(CachePolicy policy) { return shadows_[static_cast<size_t>(policy)]; }
  const Shadow& Of(CachePolicy policy) const { return shadows_[static_cast<size_t>(policy)]; }
  void LookAtLeads(double bytes, const std::array<bool, kFixedPolicies>& hit);
  void LookAtBlock();
  void LookAtContent();
  void Choose(CachePolicy policy, Why why);
  void BeginEra();
  void FitSample();
  /// The sample becomes twice (half) as large: what was counted in bytes of it follows.
  void Rescale(unsigned shift);
  /// A lead of so many bytes decides.
  double Enough() const;

  const uint64_t seed_;
  const size_t max_shadow_objects_;
  QueuePolicy queues_{CachePolicy::kRetain};  // the real candidates
  std::array<Shadow, kFixedPolicies> shadows_{Shadow(CachePolicy::kRetain), Shadow(CachePolicy::kLru),
                                              Shadow(CachePolicy::kS3Fifo)};
  GhostList seen_{kMaxSeen};
  unsigned shift_ = 0;
  unsigned too_large_ = 0;  // uses of objects beyond the shadows' capacity, less those of others
  uint64_t switches_ = 0;
  Why why_ = Why::kStart;

  // All bytes are of the sample.
  uint64_t share_ = 0;        // of the capacity
  double object_bytes_ = 0;   // mean size of the objects asked for lately
  double object_square_ = 0;  // and mean square of it
  double retain_behind_ = 0;  // like Shadow::lead: of the deciding one over retain's
  double since_era_ = 0;      // asked for
  double faded_asked_ = 0;
  struct Block {
    double asked = 0;
    double here = 0;   // of it: in the real cache
    double fresh = 0;  // of it: never seen before
    uint64_t uses = 0;
  };
  Block block_;        // of one capacity
  unsigned ties_ = 0;  // blocks in a row in which lru was as good as retain
  unsigned ties_needed_ = 1;
  Block content_;         // of a small part of it
  bool useful_ = false;   // what this era keeps has been asked for again, or is left from an earlier run
  bool pressed_ = false;  // something was refused or forgotten since content_ began
};

}  // namespace stoker
