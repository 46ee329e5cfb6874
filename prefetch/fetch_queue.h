#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "prefetch/fetch.h"

namespace stoker::fetch {

/// Every fetch there is, once per part (single flight), and the order in which those that wait are started:
/// by priority, then by when they got it. Pure bookkeeping: who may start is the caller's decision (threads,
/// memory), and the bound is told (full()) for him to refuse what is not urgent.
///
/// Not thread-safe: the engine's mutex covers it.
class FetchQueue {
 public:
  explicit FetchQueue(size_t max_queued) : max_queued_(max_queued) {}

  /// The fetch of this part, waiting or running; null when there is none.
  std::shared_ptr<Fetch> Find(const PartKey& key) const;
  /// A new fetch, behind those of its priority. REQUIRES: nobody fetches its part.
  void Add(const std::shared_ptr<Fetch>& fetch);
  /// Takes it off the waiting ones; it stays findable.
  void Start(const std::shared_ptr<Fetch>& fetch);
  /// Forgets it, waiting or running.
  void Remove(const std::shared_ptr<Fetch>& fetch);
  /// Raises or lowers. True when another fetch may be the one to start now, or a thread counts as free for
  /// less urgent work.
  bool SetPriority(const std::shared_ptr<Fetch>& fetch, FetchPriority priority);

  /// The one to start next; null when none waits.
  std::shared_ptr<Fetch> Head() const { return waiting_.empty() ? nullptr : *waiting_.begin(); }
  size_t waiting() const { return waiting_.size(); }
  bool full() const { return waiting_.size() >= max_queued_; }
  /// Running for nobody who waits: started below kDemand and not raised to it since.
  size_t low_running() const { return low_running_; }
  /// Those of one object that wait. Looks by part or along the queue, whichever is shorter.
  std::vector<std::shared_ptr<Fetch>> WaitingOf(const ObjectId& object, uint32_t part_count) const;
  std::vector<std::shared_ptr<Fetch>> All() const;

 private:
  struct Order {
    bool operator()(const std::shared_ptr<Fetch>& a, const std::shared_ptr<Fetch>& b) const {
      return std::tie(a->priority, a->sequence) < std::tie(b->priority, b->sequence);
    }
  };

  const size_t max_queued_;
  std::unordered_map<PartKey, std::shared_ptr<Fetch>> fetches_;  // waiting and running
  std::set<std::shared_ptr<Fetch>, Order> waiting_;
  uint64_t next_sequence_ = 1;
  size_t low_running_ = 0;
};

}  // namespace stoker::fetch
