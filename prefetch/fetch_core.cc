#include "prefetch/fetch_core.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "cache/base/check.h"

namespace stoker::fetch {

Status Cancelled() {
  return {Code::kCancelled, "the fetch engine was stopped"};
}

FetchEngineState Core::State() const {
  MutexLock lock(mu);
  FetchEngineState state;
  state.in_flight_bytes = memory_.used_bytes();
  state.queued = queue_.waiting();
  state.io = io;
  state.io_reason = io_reason;
  state.threads = options.threads;
  state.stuck_threads = stuck_;
  return state;
}

// --- queue and admission --------------------------------------------------------------------------------

bool Core::AdmissibleLocked(const Fetch& fetch) const {
  const bool demand = fetch.priority == FetchPriority::kDemand;
  if (!demand && options.threads > 1 && queue_.low_running() + 1 >= options.threads) return false;
  // Bytes that merely linger give way to any fetch.
  if (memory_.CanTake(fetch.range.size(), demand)) return true;
  return !lingering_.empty();
}

void Core::WakeLocked() {
  const std::shared_ptr<Fetch> head = queue_.Head();
  if (head == nullptr || !AdmissibleLocked(*head)) return;
  if (idle_ > 0) work_.NotifyOne();
  // One thread each for what waits, as far as threads may go. The first slot is the timer's.
  if (idle_ < queue_.waiting() && threads_.size() - 1 < options.threads && !cannot_spawn_ && !stopping_) {
    cannot_spawn_ = !SpawnLocked();
  }
}

void Core::EnqueueLocked(const std::shared_ptr<Fetch>& fetch) {
  queue_.Add(fetch);
  UpdateGaugesLocked();
  WakeLocked();
}

std::shared_ptr<Fetch> Core::DequeueLocked(PartMemory::Block* block, Later& later) {
  // Only the head may go: a smaller, less urgent one that slipped past would delay it again and again.
  const std::shared_ptr<Fetch> fetch = queue_.Head();
  if (fetch == nullptr || !AdmissibleLocked(*fetch)) return nullptr;
  const bool demand = fetch->priority == FetchPriority::kDemand;
  while (!memory_.CanTake(fetch->range.size(), demand) && !lingering_.empty()) {
    DropOldestLingeringLocked(later);
  }
  *block = memory_.Take(fetch->range.size(), demand, later.blocks);
  if (block->bytes == 0) {
    UpdateGaugesLocked();
    return nullptr;  // replies still hold what lingered; their end wakes us
  }
  queue_.Start(fetch);
  last_fetch_ = clock.Now();
  UpdateGaugesLocked();
  WakeLocked();
  return fetch;
}

void Core::SetPriorityLocked(const std::shared_ptr<Fetch>& fetch, FetchPriority priority) {
  if (queue_.SetPriority(fetch, priority)) WakeLocked();
}

void Core::AfterLeaveLocked(const std::shared_ptr<Fetch>& fetch, Later& later) {
  if (fetch->running) return;
  if (fetch->waiters.empty() && fetch->wishes.empty()) {
    queue_.Remove(fetch);
    later.fetches.push_back(fetch);
    CountLocked(&Metrics::fetch_cancelled);
    UpdateGaugesLocked();
    WakeLocked();
    return;
  }
  FetchPriority priority = fetch->waiters.empty() ? FetchPriority::kWarm : FetchPriority::kDemand;
  for (const Wish& wish : fetch->wishes) priority = std::min(priority, wish.priority);
  SetPriorityLocked(fetch, priority);
}

void Core::LeaveRunningLocked(const std::shared_ptr<Fetch>& fetch) {
  queue_.Remove(fetch);
  last_fetch_ = clock.Now();
}

// --- memory ---------------------------------------------------------------------------------------------

void Core::ReleaseLocked(PartBuffer& buffer) {
  memory_.Give(std::exchange(buffer.block, {}));
  UpdateGaugesLocked();
}

void Core::GiveBack(PartBuffer& buffer) {
  std::vector<PartMemory::Block> garbage;
  {
    MutexLock lock(mu);
    ReleaseLocked(buffer);
    if (stopping_) memory_.TakeIdle(garbage);
    WakeLocked();
    timer_.NotifyOne();  // idle memory ages
  }
  PartMemory::UnmapBlocks(garbage);
}

void Core::DropOldestLingeringLocked(Later& later) {
  Lingering::Entry oldest = lingering_.TakeOldest();
  thrift_.Wasted(oldest.part.size() - std::min(oldest.part.size(), oldest.buffer->delivered));
  // Copies are made under this mutex only, so a sole owner stays one: its memory is free at once.
  if (oldest.buffer.use_count() == 1) ReleaseLocked(*oldest.buffer);
  later.keeps.push_back(std::move(oldest.buffer));
}

// --- wishes ---------------------------------------------------------------------------------------------

Status Core::Want(const std::shared_ptr<FetchFile>& file, PartIndex part, FetchPriority priority,
                  FetchEngine::DoneCallback done) {
  const ObjectRef& object = file->object();
  if (ToInt(part) >= object.part_count()) {
    return {Code::kInvalidArgument, "'" + file->path() + "' has no part " + std::to_string(ToInt(part)) +
                                        ", only " + std::to_string(object.part_count())};
  }
  Status at_once;
  {
    MutexLock lock(mu);
    if (stopping_) return Cancelled();
    const PartKey key{object.id(), part};
    const std::shared_ptr<Fetch> found = queue_.Find(key);
    if (object.IsResident(part)) {
      // answered below
    } else if (found == nullptr && lingering_.Has(key)) {
      at_once = Status(Code::kNoSpace, "the cache has no room for it", ENOSPC);
    } else {
      if (found == nullptr && priority != FetchPriority::kDemand && queue_.full()) {
        return {Code::kBusy, "the fetch queue is full (" + std::to_string(options.max_queued) + " parts)"};
      }
      Wish wish{file, priority, std::move(done), 0, found == nullptr};
      if (priority == FetchPriority::kDemand) {
        wish.ticket = next_ticket_++;
        waiting_wishes_.emplace(wish.ticket, WaitingWish{key, clock.Now() + options.deadline});
        timer_.NotifyOne();
      }
      if (found != nullptr) {
        CountLocked(&Metrics::fetch_joined);
        // A wish without a callback says no more than an equal one before it.
        const bool known =
            !wish.done && std::any_of(found->wishes.begin(), found->wishes.end(), [&](const Wish& w) {
              return w.file == file && w.priority == priority && wish.ticket == 0;
            });
        if (!known) found->wishes.push_back(std::move(wish));
        if (priority < found->priority) SetPriorityLocked(found, priority);
        return Status::Ok();
      }
      auto fetch = std::make_shared<Fetch>(key, part, object.PartRange(part));
      fetch->file = file;
      fetch->priority = priority;
      fetch->wishes.push_back(std::move(wish));
      EnqueueLocked(fetch);
      return Status::Ok();
    }
  }
  if (done) done(at_once, FetchedFor::kOther);
  return Status::Ok();
}

void Core::FinishWishLocked(Wish wish, const Status& status, Later& later) {
  if (wish.ticket != 0) waiting_wishes_.erase(wish.ticket);
  if (wish.done) {
    const FetchedFor whose = status.ok() && wish.began_fetch ? FetchedFor::kThisWish : FetchedFor::kOther;
    later.calls.push_back([done = std::move(wish.done), status, whose] { done(status, whose); });
  }
  later.wishes.push_back(std::move(wish));  // its file may be the last to hold a pin
}

void Core::Forget(const FetchFile& file, FetchPriority priority) {
  Later later;
  MutexLock lock(mu);
  for (const std::shared_ptr<Fetch>& fetch :
       queue_.WaitingOf(file.object().id(), file.object().part_count())) {
    std::vector<Wish> kept;
    for (Wish& wish : fetch->wishes) {
      if (wish.file.get() == &file && wish.priority >= priority) {
        FinishWishLocked(std::move(wish), Status(Code::kCancelled, "not wanted any more"), later);
      } else {
        kept.push_back(std::move(wish));
      }
    }
    const bool changed = kept.size() != fetch->wishes.size();
    fetch->wishes = std::move(kept);
    if (changed) AfterLeaveLocked(fetch, later);
  }
}

// --- how a fetch ends -----------------------------------------------------------------------------------

void Core::FinishFetched(const std::shared_ptr<Fetch>& fetch, const Status& stored, bool bytes_in_memory) {
  std::vector<std::shared_ptr<ReadRequest>> complete;
  std::vector<Waiter> left;
  std::vector<Waiter> zeros;
  std::shared_ptr<PartBuffer> buffer;
  {
    Later later;
    MutexLock lock(mu);
    LeaveRunningLocked(fetch);
    buffer = std::move(fetch->buffer);
    if (bytes_in_memory) left.swap(fetch->waiters);
    // Else the whole part is a hole, and nothing is in memory. A reader whose object is another one for the
    // same version (the older was invalidated) does not find it in his file: he gets zeros of his own.
    for (Waiter& waiter : fetch->waiters) {
      if (!waiter.request->file->object().IsResident(fetch->part)) {
        zeros.push_back(std::move(waiter));
        continue;
      }
      ReadRequest::Slice& slice = waiter.request->slices[waiter.slice];
      slice.ready = slice.resident = true;
      if (--waiter.request->missing == 0) complete.push_back(waiter.request);
    }
    fetch->waiters.clear();
    std::vector<Wish> again;
    for (Wish& wish : fetch->wishes) {
      // Its object may be a newer one for the same version, after the older was invalidated.
      if (stored.ok() && !stopping_ && !wish.file->object().IsResident(fetch->part)) {
        again.push_back(std::move(wish));
      } else {
        FinishWishLocked(std::move(wish), stored, later);
      }
    }
    fetch->wishes.clear();
    if (bytes_in_memory) {
      CountLocked(&Metrics::fetch_parts);
      if (fetch->priority == FetchPriority::kDemand) CountLocked(&Metrics::fetch_demand);
    }
    if (!stored.ok() && bytes_in_memory && !stopping_) {
      CountLocked(&Metrics::fetch_bypassed);
      lingering_.Add(fetch->key, fetch->range, buffer, clock.Now());
      while (lingering_.over_limit()) DropOldestLingeringLocked(later);
      timer_.NotifyOne();
    }
    if (!again.empty()) {
      auto next = std::make_shared<Fetch>(fetch->key, fetch->part, fetch->range);
      next->file = again.front().file;
      for (Wish& wish : again) {
        wish.began_fetch = &wish == &again.front();
        next->priority = std::min(next->priority, wish.priority);
      }
      next->wishes = std::move(again);
      EnqueueLocked(next);
    }
    later.fetches.push_back(fetch);
    WakeLocked();
  }
  Deliver(left, *fetch, buffer);
  for (const Waiter& waiter : zeros) {
    DeliverOwn(waiter, std::vector<std::byte>(waiter.request->slices[waiter.slice].range.size()));
  }
  Complete(complete);
}

bool Core::WorthFetching(const Fetch& fetch) const {
  MutexLock lock(mu);
  if (!fetch.waiters.empty()) return true;
  // A reader will be here soon. Not at the price of what lingers for one already.
  return fetch.priority <= FetchPriority::kReadAhead && !thrift_.saving() &&
         lingering_.HasRoomFor(PartMemory::BlockBytes(fetch.range.size()));
}

bool Core::FinishUnwanted(const std::shared_ptr<Fetch>& fetch, const Status& stored) {
  Later later;
  MutexLock lock(mu);
  if (!fetch->waiters.empty()) return false;
  LeaveRunningLocked(fetch);
  for (Wish& wish : fetch->wishes) FinishWishLocked(std::move(wish), stored, later);
  fetch->wishes.clear();
  later.keeps.push_back(std::move(fetch->buffer));
  later.fetches.push_back(fetch);
  WakeLocked();
  return true;
}

bool Core::FinishFailed(const std::shared_ptr<Fetch>& fetch, const FetchFile* file, const Status& status) {
  Later later;
  MutexLock lock(mu);
  const auto concerns = [&](const std::shared_ptr<FetchFile>& other) {
    return file == nullptr || other.get() == file;
  };
  std::vector<std::shared_ptr<ReadRequest>> readers;
  for (const Waiter& waiter : fetch->waiters) {
    if (concerns(waiter.request->file)) readers.push_back(waiter.request);
  }
  for (const std::shared_ptr<ReadRequest>& request : readers) {
    if (!request->finished) FinishReadLocked(request, status, later);
  }
  std::vector<Wish> kept;
  for (Wish& wish : fetch->wishes) {
    if (concerns(wish.file)) {
      FinishWishLocked(std::move(wish), status, later);
    } else {
      kept.push_back(std::move(wish));
    }
  }
  fetch->wishes = std::move(kept);
  if (!fetch->waiters.empty() || !fetch->wishes.empty()) {
    if (!stopping_) {
      fetch->file =
          fetch->waiters.empty() ? fetch->wishes.front().file : fetch->waiters.front().request->file;
      return false;
    }
    STOKER_CHECK(fetch->waiters.empty());  // Stop() took them all
  }
  LeaveRunningLocked(fetch);
  later.keeps.push_back(std::move(fetch->buffer));
  later.fetches.push_back(fetch);
  if (status.code() == Code::kCancelled) {
    CountLocked(&Metrics::fetch_cancelled);
  } else if (status.code() != Code::kNoSpace) {  // no failure of the UFS: cache_no_space counts it
    CountLocked(&Metrics::fetch_failed);
  }
  WakeLocked();
  return true;
}

bool Core::Pause(Nanos time) {
  const auto end = std::chrono::steady_clock::now() + time;
  MutexLock lock(mu);
  while (!stopping_) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return true;
    paused_.WaitFor(mu, end - now);
  }
  return false;
}

}  // namespace stoker::fetch
