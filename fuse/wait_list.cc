#include "fuse/wait_list.h"

#include <utility>
#include <vector>

namespace stoker {

WaitId WaitList::Add(std::function<void(Status)> fail) {
  MutexLock lock(mu_);
  if (closed_) return 0;
  const WaitId id = next_++;
  waiting_.emplace(id, Entry{std::move(fail), nullptr});
  return id;
}

bool WaitList::Take(WaitId id) {
  Entry entry;  // destroyed after the lock: what it captured may be large
  MutexLock lock(mu_);
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return false;
  entry = std::move(it->second);
  waiting_.erase(it);
  lock.Unlock();
  return true;
}

bool WaitList::Waiting(WaitId id) const {
  MutexLock lock(mu_);
  return waiting_.count(id) != 0;
}

void WaitList::OnGivenUp(WaitId id, std::function<void()> cleanup) {
  {
    MutexLock lock(mu_);
    const auto it = waiting_.find(id);
    if (it != waiting_.end()) {
      it->second.cleanup = std::move(cleanup);
      return;
    }
  }
  cleanup();
}

void WaitList::Fail(WaitId id, const Status& why) {
  Entry entry;
  {
    MutexLock lock(mu_);
    const auto it = waiting_.find(id);
    if (it == waiting_.end()) return;
    entry = std::move(it->second);
    waiting_.erase(it);
  }
  entry.fail(why);
  if (entry.cleanup) entry.cleanup();
}

void WaitList::Close(const Status& why) {
  std::unordered_map<WaitId, Entry> all;
  {
    MutexLock lock(mu_);
    closed_ = true;
    all.swap(waiting_);
  }
  for (auto& [id, entry] : all) {
    entry.fail(why);
    if (entry.cleanup) entry.cleanup();
  }
}

size_t WaitList::size() const {
  MutexLock lock(mu_);
  return waiting_.size();
}

}  // namespace stoker
