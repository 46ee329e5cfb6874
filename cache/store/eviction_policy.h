#pragma once

namespace stoker {

/// What a policy keeps in each object, so that a million objects need no second table.
struct EvictionNode {
  EvictionNode* newer = nullptr;
  EvictionNode* older = nullptr;
};

/// Decides whom to forget next among the candidates: objects that nobody holds and nothing protects. When to
/// forget is the store's decision. Not thread-safe: the store's lock covers it.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  /// The object became a candidate; its last use has just ended. REQUIRES: it is none now. The node must stay
  /// where it is until erased.
  virtual void Insert(EvictionNode& node) = 0;
  /// No longer a candidate: somebody holds it, or it is being removed. REQUIRES: it is one.
  virtual void Erase(EvictionNode& node) = 0;
  /// The candidate to forget next, which stays a candidate; null when there is none.
  virtual EvictionNode* Victim() = 0;
};

}  // namespace stoker
