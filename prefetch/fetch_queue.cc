#include "prefetch/fetch_queue.h"

#include <utility>

#include "cache/base/check.h"

namespace stoker::fetch {

std::shared_ptr<Fetch> FetchQueue::Find(const PartKey& key) const {
  const auto found = fetches_.find(key);
  return found == fetches_.end() ? nullptr : found->second;
}

void FetchQueue::Add(const std::shared_ptr<Fetch>& fetch) {
  const bool fresh = fetches_.emplace(fetch->key, fetch).second;
  STOKER_CHECK(fresh);
  fetch->sequence = next_sequence_++;
  waiting_.insert(fetch);
}

void FetchQueue::Start(const std::shared_ptr<Fetch>& fetch) {
  waiting_.erase(fetch);
  fetch->running = true;
  fetch->counted_low = fetch->priority != FetchPriority::kDemand;
  if (fetch->counted_low) ++low_running_;
}

void FetchQueue::Remove(const std::shared_ptr<Fetch>& fetch) {
  if (!fetch->running) waiting_.erase(fetch);
  fetches_.erase(fetch->key);
  fetch->running = false;
  if (std::exchange(fetch->counted_low, false)) --low_running_;
}

bool FetchQueue::SetPriority(const std::shared_ptr<Fetch>& fetch, FetchPriority priority) {
  if (fetch->priority == priority) return false;
  if (fetch->running) {
    fetch->priority = priority;
    if (!fetch->counted_low || priority != FetchPriority::kDemand) return false;
    fetch->counted_low = false;
    --low_running_;
    return true;
  }
  waiting_.erase(fetch);
  fetch->priority = priority;
  fetch->sequence = next_sequence_++;
  waiting_.insert(fetch);
  return true;
}

std::vector<std::shared_ptr<Fetch>> FetchQueue::WaitingOf(const ObjectId& object, uint32_t part_count) const {
  std::vector<std::shared_ptr<Fetch>> waiting;
  if (part_count <= waiting_.size()) {
    for (uint32_t i = 0; i < part_count; ++i) {
      const auto found = fetches_.find({object, PartIndex{i}});
      if (found != fetches_.end() && !found->second->running) waiting.push_back(found->second);
    }
  } else {
    for (const std::shared_ptr<Fetch>& fetch : waiting_) {
      if (fetch->key.object == object) waiting.push_back(fetch);
    }
  }
  return waiting;
}

std::vector<std::shared_ptr<Fetch>> FetchQueue::All() const {
  std::vector<std::shared_ptr<Fetch>> all;
  all.reserve(fetches_.size());
  for (const auto& [key, fetch] : fetches_) all.push_back(fetch);
  return all;
}

}  // namespace stoker::fetch
