#include "fuse/wait_list.h"

#include <utility>
#include <vector>

namespace stoker {

WaitId WaitList::Add(std::function<void(Status)> fail, const std::function<void(WaitId)>& announce) {
  MutexLock lock(mu_);
  if (closed_) {
    const Status why = *closed_;
    lock.Unlock();
    fail(why);
    return 0;
  }
  const WaitId id = next_++;
  Entry& added = waiting_[id];
  added.fail = std::move(fail);
  if (!announce) return id;
  added.announcing = true;
  lock.Unlock();
  announce(id);
  lock.Lock();
  const auto it = waiting_.find(id);
  it->second.announcing = false;
  if (!it->second.failed) return id;
  const Entry entry = std::move(it->second);
  waiting_.erase(it);
  lock.Unlock();
  entry.fail(*entry.failed);
  return 0;
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
    if (it->second.announcing) {
      it->second.failed = why;
      return;
    }
    entry = std::move(it->second);
    waiting_.erase(it);
  }
  entry.fail(why);
  if (entry.cleanup) entry.cleanup();
}

void WaitList::Close(const Status& why) {
  std::vector<Entry> all;
  {
    MutexLock lock(mu_);
    closed_ = why;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->second.announcing) {
        it->second.failed = why;
        ++it;
      } else {
        all.push_back(std::move(it->second));
        it = waiting_.erase(it);
      }
    }
  }
  for (const Entry& entry : all) {
    entry.fail(why);
    if (entry.cleanup) entry.cleanup();
  }
}

size_t WaitList::size() const {
  MutexLock lock(mu_);
  return waiting_.size();
}

}  // namespace stoker
