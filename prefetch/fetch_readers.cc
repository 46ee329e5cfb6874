#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "prefetch/fetch_core.h"

// Core's half that faces readers: what a read waits for, how its slices come together, how it is answered.

namespace stoker::fetch {

void Core::SubscribeLocked(const std::shared_ptr<ReadRequest>& request, size_t slice,
                           std::vector<AtHand>& at_hand) {
  ReadRequest::Slice& wanted = request->slices[slice];
  const ObjectRef& object = request->file->object();
  const PartKey key{object.id(), wanted.part};
  const std::shared_ptr<Fetch> found = queue_.Find(key);
  // Asked after the table was looked at: a fetch commits before it leaves the table.
  if (object.IsResident(wanted.part)) {
    wanted.ready = wanted.resident = true;
    --request->missing;
    return;
  }
  if (found != nullptr) {
    CountLocked(&Metrics::fetch_joined);
    const ByteRange relative{wanted.range.begin - found->range.begin, wanted.range.end - found->range.begin};
    if (found->running && found->buffer != nullptr && found->progress.IsVerified(relative)) {
      found->buffer->delivered += relative.size();
      at_hand.push_back({{request, slice}, found->buffer->block.data + relative.begin, found->buffer});
      return;
    }
    CountLocked(&Metrics::prefetch_stalls);
    found->waiters.push_back({request, slice});
    SetPriorityLocked(found, FetchPriority::kDemand);
    return;
  }
  if (const Lingering::Entry* entry = lingering_.Use(key, clock.Now()); entry != nullptr) {
    entry->buffer->delivered += wanted.range.size();
    at_hand.push_back({{request, slice},
                       entry->buffer->block.data + (wanted.range.begin - entry->part.begin),
                       entry->buffer});
    return;
  }
  auto fetch = std::make_shared<Fetch>(key, wanted.part, object.PartRange(wanted.part));
  fetch->file = request->file;
  fetch->priority = FetchPriority::kDemand;
  fetch->waiters.push_back({request, slice});
  EnqueueLocked(fetch);
}

uint64_t Core::Read(const std::shared_ptr<FetchFile>& file, ByteRange range, FetchEngine::ReadCallback done) {
  const ObjectRef& object = file->object();
  range.end = std::min(range.end, object.size());
  if (range.empty()) {
    done(FetchedBytes{});
    return 0;
  }
  if (object.IsResident(range)) {
    FetchedBytes bytes;
    bytes.resident = true;
    done(std::move(bytes));
    return 0;
  }
  auto request = std::make_shared<ReadRequest>();
  request->file = file;
  request->range = range;
  request->done = std::move(done);
  for (uint64_t at = range.begin; at < range.end;) {
    const PartIndex part = object.PartAt(at);
    const ByteRange slice = Intersect(object.PartRange(part), range);
    request->slices.push_back({part, slice, false, false});
    at = slice.end;
  }
  request->missing = request->slices.size();
  if (request->slices.size() > 1) request->copy = std::make_shared<std::vector<std::byte>>(range.size());

  std::vector<AtHand> at_hand;
  std::vector<std::shared_ptr<ReadRequest>> complete;
  bool stopped = false;
  {
    MutexLock lock(mu);
    stopped = stopping_;
    if (!stopped) {
      request->ticket = next_ticket_++;
      request->deadline = clock.Now() + options.deadline;
      reads_.emplace(request->ticket, request);
      for (size_t i = 0; i < request->slices.size(); ++i) SubscribeLocked(request, i, at_hand);
      if (request->missing == 0) complete.push_back(request);
      timer_.NotifyOne();
    }
  }
  if (stopped) {
    request->done(Cancelled());
    return 0;
  }
  for (const AtHand& bytes : at_hand) HandOver(bytes.waiter, bytes.from, bytes.keep, complete);
  Complete(complete);
  MutexLock lock(mu);
  return request->finished ? 0 : request->ticket;
}

void Core::HandOver(const Waiter& waiter, const std::byte* from, const std::shared_ptr<const void>& keep,
                    std::vector<std::shared_ptr<ReadRequest>>& complete) {
  ReadRequest& request = *waiter.request;
  ReadRequest::Slice& slice = request.slices[waiter.slice];
  if (request.copy != nullptr) {
    std::memcpy(request.copy->data() + (slice.range.begin - request.range.begin), from, slice.range.size());
  }
  MutexLock lock(mu);
  if (request.finished) return;
  if (request.copy == nullptr) {
    request.bytes = {from, slice.range.size()};
    request.keep = keep;
  }
  slice.ready = true;
  if (--request.missing == 0) complete.push_back(waiter.request);
}

Result<std::shared_ptr<const std::vector<std::byte>>> Core::ReadResident(const ReadRequest& request) {
  const std::shared_ptr<std::vector<std::byte>>& copy = request.copy;
  for (const ReadRequest::Slice& slice : request.slices) {
    if (!slice.resident) continue;
    ASSIGN_OR_RETURN(const std::shared_ptr<const Fd> file, request.file->object().File());
    for (uint64_t at = slice.range.begin; at < slice.range.end;) {
      const ssize_t got = ::pread(file->get(), copy->data() + (at - request.range.begin),
                                  slice.range.end - at, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Status::FromErrno(errno, "cannot read back from the cache");
      if (got == 0) return Status(Code::kCorruption, "the cache file is shorter than its object");
      at += static_cast<uint64_t>(got);
    }
  }
  return std::shared_ptr<const std::vector<std::byte>>(copy);
}

void Core::Complete(const std::vector<std::shared_ptr<ReadRequest>>& requests) {
  for (const std::shared_ptr<ReadRequest>& request : requests) {
    // Nobody else touches the slices of a request that misses nothing.
    const bool all_resident = std::all_of(request->slices.begin(), request->slices.end(),
                                          [](const ReadRequest::Slice& slice) { return slice.resident; });
    FetchedBytes bytes;
    bytes.resident = all_resident;
    Status failed;
    if (!all_resident && request->copy != nullptr) {
      Result<std::shared_ptr<const std::vector<std::byte>>> whole = ReadResident(*request);
      if (whole.ok()) {
        bytes.pieces = {std::span<const std::byte>(**whole)};
        bytes.keep_alive = *whole;
      } else {
        failed = whole.status();
      }
    }
    if (failed.ok()) {
      Later later;
      MutexLock lock(mu);
      if (request->finished) continue;  // cancelled, or out of time
      if (!all_resident && request->copy == nullptr) {
        bytes.pieces = {request->bytes};
        bytes.keep_alive = request->keep;
      }
      FinishReadLocked(request, std::move(bytes), later);
      continue;
    }
    // The cache disk failed, not the UFS: once more, from there.
    std::vector<PartIndex> bad;
    for (const ReadRequest::Slice& slice : request->slices) {
      if (slice.resident) bad.push_back(slice.part);
    }
    for (const PartIndex part : bad) store.DropDamaged(request->file->object(), part);
    std::vector<AtHand> at_hand;
    std::vector<std::shared_ptr<ReadRequest>> complete;
    {
      Later later;
      MutexLock lock(mu);
      CountLocked(&Metrics::cache_errors);
      if (request->finished) continue;
      if (++request->damaged > 1 || stopping_) {
        FinishReadLocked(request, failed, later);
        continue;
      }
      for (size_t i = 0; i < request->slices.size(); ++i) {
        ReadRequest::Slice& slice = request->slices[i];
        if (!slice.resident) continue;
        slice.ready = slice.resident = false;
        ++request->missing;
        SubscribeLocked(request, i, at_hand);
      }
      if (request->missing == 0) complete.push_back(request);
    }
    for (const AtHand& hand : at_hand) HandOver(hand.waiter, hand.from, hand.keep, complete);
    Complete(complete);  // at most once more: `damaged` counts
  }
}

void Core::FinishReadLocked(const std::shared_ptr<ReadRequest>& request, Result<FetchedBytes> result,
                            Later& later) {
  request->finished = true;
  reads_.erase(request->ticket);
  if (request->missing > 0) {
    for (const ReadRequest::Slice& slice : request->slices) {
      if (slice.ready) continue;
      const std::shared_ptr<Fetch> fetch = queue_.Find({request->file->object().id(), slice.part});
      if (fetch == nullptr) continue;
      const auto left = std::remove_if(fetch->waiters.begin(), fetch->waiters.end(),
                                       [&](const Waiter& waiter) { return waiter.request == request; });
      if (left == fetch->waiters.end()) continue;
      fetch->waiters.erase(left, fetch->waiters.end());
      AfterLeaveLocked(fetch, later);
    }
  }
  if (request->keep != nullptr) later.keeps.push_back(std::move(request->keep));
  later.requests.push_back(request);
  later.calls.push_back(
      [done = std::move(request->done), result = std::make_shared<Result<FetchedBytes>>(std::move(result))] {
        done(std::move(*result));
      });
}

void Core::CancelRead(uint64_t ticket) {
  Later later;
  MutexLock lock(mu);
  const auto found = reads_.find(ticket);
  if (found == reads_.end()) return;
  const std::shared_ptr<ReadRequest> request = found->second;
  FinishReadLocked(request, Status(Code::kCancelled, "the reader went away"), later);
}

void Core::Deliver(const std::vector<Waiter>& waiters, const Fetch& fetch,
                   const std::shared_ptr<PartBuffer>& buffer) {
  if (waiters.empty()) return;
  {
    MutexLock lock(mu);
    for (const Waiter& waiter : waiters) {
      buffer->delivered += waiter.request->slices[waiter.slice].range.size();
    }
  }
  std::vector<std::shared_ptr<ReadRequest>> complete;
  for (const Waiter& waiter : waiters) {
    const ByteRange range = waiter.request->slices[waiter.slice].range;
    HandOver(waiter, buffer->block.data + (range.begin - fetch.range.begin), buffer, complete);
  }
  Complete(complete);
}

void Core::DeliverOwn(const Waiter& waiter, std::vector<std::byte> bytes) {
  std::vector<std::shared_ptr<ReadRequest>> complete;
  const auto keep = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  HandOver(waiter, keep->data(), keep, complete);
  Complete(complete);
}

void Core::FailReader(const Waiter& waiter, const Status& status) {
  Later later;
  MutexLock lock(mu);
  if (!waiter.request->finished) FinishReadLocked(waiter.request, status, later);
}

}  // namespace stoker::fetch
