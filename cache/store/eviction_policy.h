#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cache/base/ids.h"
#include "cache/store/cache_policy.h"

namespace stoker {

/// What a policy keeps in each object, so that a million objects need no second table.
struct EvictionNode {
  EvictionNode* newer = nullptr;
  EvictionNode* older = nullptr;
  const ObjectId* id = nullptr;  // set by the owner; outlives the node's time with the policy
  uint64_t charged = 0;  // set by the owner: what forgetting it gives back; constant while a candidate
  // The policy's own; they stay with the object while it is no candidate.
  uint32_t era = 0;
  uint8_t queue = 0;
  uint8_t uses = 0;
};

/// For what room is asked.
enum class RoomFor : uint8_t {
  kRead,       // something is being read and might as well be kept
  kWarm,       // somebody has asked for it to be in the cache
  kOverLimit,  // nothing new: the limit or the disk has become smaller than what is there
};

/// Counts since the policy was made, and what it remembers now.
struct PolicyState {
  CachePolicy deciding = CachePolicy::kLru;
  uint64_t switches = 0;    // of `deciding`
  uint64_t ghost_hits = 0;  // objects that came back soon after they were forgotten
  uint64_t ghosts = 0;      // names remembered of objects that are not here
};

/// Decides whom to forget next among the candidates (objects that nobody holds and nothing protects), and
/// whether anybody should be forgotten at all for something new. When to forget is the store's decision.
/// Every call takes constant time, some on average only; none waits, reads a clock or draws a random number.
/// Not thread-safe: the store's lock covers it.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  /// Somebody begins to use an object: once per use, before anything else is told of it. `here`: some of it
  /// is in the cache. `bytes`: what it takes when whole; `capacity`: what all objects together may take now.
  virtual void Use(const ObjectId& id, bool here, uint64_t bytes, uint64_t capacity) = 0;
  /// The object became a candidate. `used`: a use has just ended; else the store itself had it, or an earlier
  /// run left it. REQUIRES: it is none now. The node must stay where it is until erased.
  virtual void Insert(EvictionNode& node, bool used) = 0;
  /// No longer a candidate: somebody holds it, or it is being removed. REQUIRES: it is one.
  virtual void Erase(EvictionNode& node) = 0;
  /// The candidate to forget next, which stays a candidate; null when there is none, or (kRead, kWarm) when
  /// the candidates are worth more than what the room is for.
  virtual EvictionNode* Victim(RoomFor what) = 0;
  /// It was forgotten to make room. REQUIRES: a Victim(), erased since.
  virtual void Forgotten(const EvictionNode& node) = 0;

  virtual PolicyState State() const = 0;
  /// Why it decides as it does, in one line. Not constant time: for status pages.
  virtual std::string Reason() const = 0;
};

/// Same seed, same calls: same decisions.
std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(CachePolicy policy, uint64_t seed);

}  // namespace stoker
