#include "prefetch/fetch_engine.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "cache/base/cancel.h"
#include "cache/base/check.h"
#include "cache/base/checksum.h"
#include "cache/base/log.h"
#include "cache/base/sync_point.h"
#include "prefetch/part_memory.h"
#include "prefetch/part_progress.h"

namespace stoker {
namespace {

/// Operations that one thread has under way: the pieces of one 4 MiB part, read and written.
constexpr unsigned kQueueDepth = 8;
/// Times that one operation may be refused with EINTR or EAGAIN before that is an error.
constexpr int kMaxRefusals = 100;
/// Attempts in total when the UFS fails in a way that may pass, and the pauses before the further ones.
constexpr int kMaxAttempts = 3;
constexpr std::array<std::chrono::milliseconds, kMaxAttempts - 1> kBackoff = {std::chrono::milliseconds(20),
                                                                              std::chrono::milliseconds(100)};
/// How often deadlines are looked at while somebody waits. Real time, so that a test's clock may stand still.
constexpr auto kTick = std::chrono::milliseconds(50);
/// Bytes that could not be stored are kept this long after their last use.
constexpr auto kLinger = std::chrono::seconds(5);
/// Buffers that nobody used for so long go back to the kernel.
constexpr auto kIdleMemory = std::chrono::seconds(10);

struct Core;

/// One part's bytes in memory. The block and its budget are given back with the last holder: the fetch, the
/// replies made from it, the bytes that linger.
struct PartBuffer {
  PartBuffer(std::shared_ptr<Core> owner, PartMemory::Block memory) : core(std::move(owner)), block(memory) {}
  ~PartBuffer();
  PartBuffer(const PartBuffer&) = delete;
  PartBuffer& operator=(const PartBuffer&) = delete;

  const std::shared_ptr<Core> core;
  PartMemory::Block block;
};

/// One reader's wish, over one or more parts. Fields belong to Core::mu_ unless said otherwise.
struct ReadRequest {
  struct Slice {
    PartIndex part{};
    ByteRange range;        // of the file
    bool ready = false;     // its bytes are in `bytes`, or `resident`
    bool resident = false;  // in the object file
  };

  uint64_t ticket = 0;
  std::shared_ptr<FetchFile> file;
  ByteRange range;
  FetchEngine::ReadCallback done;
  Nanos deadline{0};
  std::vector<Slice> slices;
  size_t missing = 0;     // slices that are not ready
  int damaged = 0;        // how often resident bytes could not be read back
  bool finished = false;  // the callback has run, or is about to
  /// One slice: its bytes where they were fetched, and what keeps them there.
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;
  /// Several slices: copied here as they come, so that no part waits in memory for another one (with a budget
  /// of one part it would wait for ever). Written outside the mutex, each slice by whoever fetched it.
  std::shared_ptr<std::vector<std::byte>> copy;
};

struct Waiter {
  std::shared_ptr<ReadRequest> request;
  size_t slice = 0;
};

/// A slice whose bytes need no fetch.
struct AtHand {
  Waiter waiter;
  const std::byte* from = nullptr;
  std::shared_ptr<PartBuffer> keep;
};

struct Wish {
  std::shared_ptr<FetchFile> file;
  FetchPriority priority = FetchPriority::kWarm;
  FetchEngine::DoneCallback done;
  uint64_t ticket = 0;  // demand only: for the deadline
};

/// One part on its way, and everyone who wants it. Fields belong to Core::mu_ unless said otherwise.
struct Fetch {
  Fetch(PartKey k, PartIndex p, ByteRange r) : key(k), part(p), range(r), progress(r.size()) {}

  const PartKey key;
  const PartIndex part;
  const ByteRange range;            // of the file
  std::shared_ptr<FetchFile> file;  // whose UFS file is read
  FetchPriority priority = FetchPriority::kWarm;
  uint64_t sequence = 0;
  bool running = false;
  bool counted_low = false;  // running, and one of Core::low_running_
  std::vector<Waiter> waiters;
  std::vector<Wish> wishes;
  PartProgress progress;
  std::shared_ptr<PartBuffer> buffer;  // set before it runs; the worker uses the bytes without the mutex
  CancelToken cancel;                  // any thread
};

struct QueueOrder {
  bool operator()(const std::shared_ptr<Fetch>& a, const std::shared_ptr<Fetch>& b) const {
    return std::tie(a->priority, a->sequence) < std::tie(b->priority, b->sequence);
  }
};

/// What has to happen once the mutex is free: callbacks, and the end of things whose destructors lock.
struct Later {
  Later() = default;
  ~Later() { Run(); }
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

  void Run() {
    std::vector<std::function<void()>> due = std::move(calls);
    calls.clear();
    for (const std::function<void()>& call : due) call();
    keeps.clear();
    fetches.clear();
    requests.clear();
    wishes.clear();
    PartMemory::UnmapBlocks(blocks);
    blocks.clear();
  }

  std::vector<std::function<void()>> calls;
  bool empty() const {
    return calls.empty() && keeps.empty() && fetches.empty() && requests.empty() && wishes.empty() &&
           blocks.empty();
  }

  std::vector<std::shared_ptr<const void>> keeps;
  std::vector<std::shared_ptr<Fetch>> fetches;
  std::vector<std::shared_ptr<ReadRequest>> requests;
  std::vector<Wish> wishes;
  std::vector<PartMemory::Block> blocks;
};

Status Cancelled() {
  return {Code::kCancelled, "the fetch engine was stopped"};
}

/// Everything that threads share. Held by each thread and each buffer, so that a thread left behind in dead
/// storage, or a reply still being sent, never loses the ground under it.
struct Core : std::enable_shared_from_this<Core> {
  Core(const FetchEngineOptions& o, ObjectStore& s, Metrics& m, Clock& c)
      : options(o), store(s), clock(c), memory(o.budget_bytes), metrics_(&m) {}

  // --- asked from outside -------------------------------------------------------------------------------
  uint64_t Read(const std::shared_ptr<FetchFile>& file, ByteRange range, FetchEngine::ReadCallback done)
      EXCLUDES(mu_);
  void CancelRead(uint64_t ticket) EXCLUDES(mu_);
  Status Want(const std::shared_ptr<FetchFile>& file, PartIndex part, FetchPriority priority,
              FetchEngine::DoneCallback done) EXCLUDES(mu_);
  void Forget(const FetchFile& file, FetchPriority priority) EXCLUDES(mu_);
  FetchEngineState State() const EXCLUDES(mu_);
  void Stop(Nanos timeout) EXCLUDES(mu_);
  Status StartThreads() EXCLUDES(mu_);
  void ForgetMetrics() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    metrics_ = nullptr;
  }

  // --- for the workers ----------------------------------------------------------------------------------
  static void WorkerMain(const std::shared_ptr<Core>& core, size_t slot);
  static void TimerMain(const std::shared_ptr<Core>& core, size_t slot);
  bool abandoned() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return abandoned_;
  }
  bool stopping() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return stopping_;
  }
  /// False when the engine stops first.
  bool Pause(Nanos time) EXCLUDES(mu_);
  /// The fetched bytes of these slices are right: hands them over.
  void Deliver(const std::vector<Waiter>& waiters, const Fetch& fetch,
               const std::shared_ptr<PartBuffer>& buffer) EXCLUDES(mu_);
  /// The same for bytes that were read for this slice alone.
  void DeliverOwn(const Waiter& waiter, std::vector<std::byte> bytes) EXCLUDES(mu_);
  /// Ends one reader's wait with an error.
  void FailReader(const Waiter& waiter, const Status& status) EXCLUDES(mu_);
  /// The part is resident (ok), or its bytes are in memory only (`stored` says why).
  void FinishFetched(const std::shared_ptr<Fetch>& fetch, const Status& stored, bool bytes_in_memory)
      EXCLUDES(mu_);
  /// The fetch failed for all who came by `file` (null: for everyone). False when others are left and the
  /// fetch goes on with their file.
  bool FinishFailed(const std::shared_ptr<Fetch>& fetch, const FetchFile* file, const Status& status)
      EXCLUDES(mu_);
  /// There is no room for the part and nobody waits for it. False when somebody does by now.
  bool FinishUnwanted(const std::shared_ptr<Fetch>& fetch, const Status& stored) EXCLUDES(mu_);
  /// Without room in the cache: still worth fetching, for memory alone?
  bool WorthFetching(const Fetch& fetch) const EXCLUDES(mu_);
  void GiveBack(PartBuffer& buffer) EXCLUDES(mu_);
  void Count(Counter Metrics::*counter, uint64_t n = 1) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    CountLocked(counter, n);
  }
  Result<std::shared_ptr<const std::vector<std::byte>>> ReadResident(const ReadRequest& request);

  const FetchEngineOptions options;
  ObjectStore& store;
  Clock& clock;
  IoMode io_mode = IoMode::kAuto;  // set once, at the start
  std::string io;                  // set once, at the start
  std::string io_reason;           // set once, at the start

  mutable Mutex mu_;

 private:
  friend class PartJob;
  struct WorkerSlot {
    std::thread thread;
    bool exited = false;
  };
  struct Lingering {
    PartKey key;
    uint64_t part_begin = 0;
    std::shared_ptr<PartBuffer> buffer;
    Nanos last_use{0};
  };

  void CountLocked(Counter Metrics::*counter, uint64_t n = 1) REQUIRES(mu_) {
    if (metrics_ != nullptr) (metrics_->*counter).Add(n);
  }
  void UpdateGaugesLocked() REQUIRES(mu_) {
    if (metrics_ == nullptr) return;
    metrics_->fetch_queued.Set(static_cast<int64_t>(queue_.size()));
    metrics_->fetch_in_flight_bytes.Set(static_cast<int64_t>(memory.used_bytes()));
  }
  void EnqueueLocked(const std::shared_ptr<Fetch>& fetch) REQUIRES(mu_);
  void WakeLocked() REQUIRES(mu_);
  bool AdmissibleLocked(const Fetch& fetch) const REQUIRES(mu_);
  bool SpawnLocked() REQUIRES(mu_);
  /// One look at deadlines and ages; false when stopping.
  bool Tick() EXCLUDES(mu_);
  std::shared_ptr<Fetch> DequeueLocked(PartMemory::Block* block, Later& later) REQUIRES(mu_);
  void SetPriorityLocked(const std::shared_ptr<Fetch>& fetch, FetchPriority priority) REQUIRES(mu_);
  /// After somebody left: the priority of who is left, or off the queue when nobody is.
  void AfterLeaveLocked(const std::shared_ptr<Fetch>& fetch, Later& later) REQUIRES(mu_);
  /// Adds the request to the fetch of this slice, or finds its bytes at hand.
  void SubscribeLocked(const std::shared_ptr<ReadRequest>& request, size_t slice,
                       std::vector<AtHand>& at_hand) REQUIRES(mu_);
  /// Takes the request out of everything and queues its callback.
  void FinishReadLocked(const std::shared_ptr<ReadRequest>& request, Result<FetchedBytes> result,
                        Later& later) REQUIRES(mu_);
  /// All slices of these are ready: reads back what is resident and answers.
  void Complete(const std::vector<std::shared_ptr<ReadRequest>>& requests) EXCLUDES(mu_);
  /// Hands a slice its bytes; a request that misses nothing then is appended to `complete`.
  void HandOver(const Waiter& waiter, const std::byte* from, const std::shared_ptr<const void>& keep,
                std::vector<std::shared_ptr<ReadRequest>>& complete) EXCLUDES(mu_);
  void FinishWishLocked(Wish wish, const Status& status, Later& later) REQUIRES(mu_);
  void DropLingeringLocked(std::list<Lingering>::iterator it, Later& later) REQUIRES(mu_);
  void ReleaseLocked(PartBuffer& buffer) REQUIRES(mu_);
  void LeaveRunningLocked(const std::shared_ptr<Fetch>& fetch) REQUIRES(mu_);
  uint64_t LingerLimit() const { return options.budget_bytes / 2; }

  CondVar work_;    // workers: something may be admissible
  CondVar timer_;   // the timer: somebody waits, or stop
  CondVar paused_;  // retries
  CondVar exited_;  // Stop(): a thread ended
  PartMemory memory GUARDED_BY(mu_);
  Metrics* metrics_ GUARDED_BY(mu_);
  std::unordered_map<PartKey, std::shared_ptr<Fetch>> fetches_ GUARDED_BY(mu_);  // queued and running
  std::set<std::shared_ptr<Fetch>, QueueOrder> queue_ GUARDED_BY(mu_);
  // Tickets grow and every deadline is the same time ahead, so the first entry is the next one due.
  std::map<uint64_t, std::shared_ptr<ReadRequest>> reads_ GUARDED_BY(mu_);
  struct WaitingWish {
    PartKey key;
    Nanos deadline{0};
  };
  std::map<uint64_t, WaitingWish> waiting_wishes_ GUARDED_BY(mu_);
  std::list<Lingering> lingering_ GUARDED_BY(mu_);  // least recently used first
  uint64_t lingering_bytes_ GUARDED_BY(mu_) = 0;
  uint64_t next_ticket_ GUARDED_BY(mu_) = 1;
  uint64_t next_sequence_ GUARDED_BY(mu_) = 1;
  size_t low_running_ GUARDED_BY(mu_) = 0;
  size_t idle_ GUARDED_BY(mu_) = 0;
  size_t alive_ GUARDED_BY(mu_) = 0;
  size_t stuck_ GUARDED_BY(mu_) = 0;
  Nanos last_fetch_ GUARDED_BY(mu_){0};
  bool stopping_ GUARDED_BY(mu_) = false;
  bool abandoned_ GUARDED_BY(mu_) = false;
  bool cannot_spawn_ GUARDED_BY(mu_) = false;
  std::deque<WorkerSlot> threads_ GUARDED_BY(mu_);  // [0] is the timer; a deque keeps slots in place
};

PartBuffer::~PartBuffer() {
  if (block.bytes != 0) core->GiveBack(*this);
}

// --- queue and admission --------------------------------------------------------------------------------

bool Core::AdmissibleLocked(const Fetch& fetch) const {
  const bool demand = fetch.priority == FetchPriority::kDemand;
  if (!demand && options.threads > 1 && low_running_ + 1 >= options.threads) return false;
  // Bytes that merely linger give way to any fetch.
  if (memory.CanTake(fetch.range.size(), demand)) return true;
  return !lingering_.empty();
}

bool Core::SpawnLocked() {
  const size_t slot = threads_.size();
  WorkerSlot& made = threads_.emplace_back();
  try {
    made.thread = std::thread(slot == 0 ? &Core::TimerMain : &Core::WorkerMain, shared_from_this(), slot);
  } catch (const std::system_error& error) {
    threads_.pop_back();
    LogWarn("prefetch", std::string("cannot start another fetch thread: ") + error.what());
    return false;
  }
  ++alive_;
  return true;
}

void Core::WakeLocked() {
  if (queue_.empty() || !AdmissibleLocked(**queue_.begin())) return;
  if (idle_ > 0) work_.NotifyOne();
  // One thread each for what waits, as far as threads may go. The first slot is the timer's.
  if (idle_ < queue_.size() && threads_.size() - 1 < options.threads && !cannot_spawn_ && !stopping_) {
    cannot_spawn_ = !SpawnLocked();
  }
}

void Core::EnqueueLocked(const std::shared_ptr<Fetch>& fetch) {
  fetch->sequence = next_sequence_++;
  queue_.insert(fetch);
  UpdateGaugesLocked();
  WakeLocked();
}

std::shared_ptr<Fetch> Core::DequeueLocked(PartMemory::Block* block, Later& later) {
  // Only the head may go: a smaller, less urgent one that slipped past would delay it again and again.
  if (queue_.empty() || !AdmissibleLocked(**queue_.begin())) return nullptr;
  const std::shared_ptr<Fetch> fetch = *queue_.begin();
  const bool demand = fetch->priority == FetchPriority::kDemand;
  while (!memory.CanTake(fetch->range.size(), demand) && !lingering_.empty()) {
    DropLingeringLocked(lingering_.begin(), later);
  }
  *block = memory.Take(fetch->range.size(), demand, later.blocks);
  if (block->bytes == 0) {
    UpdateGaugesLocked();
    return nullptr;  // replies still hold what lingered; their end wakes us
  }
  queue_.erase(queue_.begin());
  fetch->running = true;
  fetch->counted_low = !demand;
  if (!demand) ++low_running_;
  last_fetch_ = clock.Now();
  UpdateGaugesLocked();
  WakeLocked();
  return fetch;
}

void Core::SetPriorityLocked(const std::shared_ptr<Fetch>& fetch, FetchPriority priority) {
  if (fetch->priority == priority) return;
  if (fetch->running) {
    fetch->priority = priority;
    if (fetch->counted_low && priority == FetchPriority::kDemand) {
      fetch->counted_low = false;
      --low_running_;
      WakeLocked();
    }
    return;
  }
  queue_.erase(fetch);
  fetch->priority = priority;
  fetch->sequence = next_sequence_++;
  queue_.insert(fetch);
  WakeLocked();
}

void Core::AfterLeaveLocked(const std::shared_ptr<Fetch>& fetch, Later& later) {
  if (fetch->running) return;
  if (fetch->waiters.empty() && fetch->wishes.empty()) {
    queue_.erase(fetch);
    fetches_.erase(fetch->key);
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
  fetches_.erase(fetch->key);
  fetch->running = false;
  if (fetch->counted_low) {
    fetch->counted_low = false;
    --low_running_;
  }
  last_fetch_ = clock.Now();
}

// --- memory ---------------------------------------------------------------------------------------------

void Core::ReleaseLocked(PartBuffer& buffer) {
  memory.Give(std::exchange(buffer.block, {}));
  UpdateGaugesLocked();
}

void Core::GiveBack(PartBuffer& buffer) {
  std::vector<PartMemory::Block> garbage;
  {
    MutexLock lock(mu_);
    ReleaseLocked(buffer);
    if (stopping_) memory.TakeIdle(garbage);
    WakeLocked();
    timer_.NotifyOne();  // idle memory ages
  }
  PartMemory::UnmapBlocks(garbage);
}

void Core::DropLingeringLocked(std::list<Lingering>::iterator it, Later& later) {
  lingering_bytes_ -= it->buffer->block.bytes;
  // Copies are made under this mutex only, so a sole owner stays one: its memory is free at once.
  if (it->buffer.use_count() == 1) ReleaseLocked(*it->buffer);
  later.keeps.push_back(std::move(it->buffer));
  lingering_.erase(it);
}

// --- reading --------------------------------------------------------------------------------------------

void Core::SubscribeLocked(const std::shared_ptr<ReadRequest>& request, size_t slice,
                           std::vector<AtHand>& at_hand) {
  ReadRequest::Slice& wanted = request->slices[slice];
  const ObjectRef& object = request->file->object();
  const PartKey key{object.id(), wanted.part};
  const auto found = fetches_.find(key);
  // Asked after the table was looked at: a fetch commits before it leaves the table.
  if (object.IsResident(wanted.part)) {
    wanted.ready = wanted.resident = true;
    --request->missing;
    return;
  }
  if (found != fetches_.end()) {
    const std::shared_ptr<Fetch>& fetch = found->second;
    CountLocked(&Metrics::fetch_joined);
    const ByteRange relative{wanted.range.begin - fetch->range.begin, wanted.range.end - fetch->range.begin};
    if (fetch->running && fetch->buffer != nullptr && fetch->progress.IsVerified(relative)) {
      at_hand.push_back({{request, slice}, fetch->buffer->block.data + relative.begin, fetch->buffer});
      return;
    }
    CountLocked(&Metrics::prefetch_stalls);
    fetch->waiters.push_back({request, slice});
    SetPriorityLocked(fetch, FetchPriority::kDemand);
    return;
  }
  for (auto it = lingering_.begin(); it != lingering_.end(); ++it) {
    if (it->key != key) continue;
    it->last_use = clock.Now();
    at_hand.push_back(
        {{request, slice}, it->buffer->block.data + (wanted.range.begin - it->part_begin), it->buffer});
    lingering_.splice(lingering_.end(), lingering_, it);
    return;
  }
  auto fetch = std::make_shared<Fetch>(key, wanted.part, object.PartRange(wanted.part));
  fetch->file = request->file;
  fetch->priority = FetchPriority::kDemand;
  fetch->waiters.push_back({request, slice});
  fetches_.emplace(key, fetch);
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
    MutexLock lock(mu_);
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
  MutexLock lock(mu_);
  return request->finished ? 0 : request->ticket;
}

void Core::HandOver(const Waiter& waiter, const std::byte* from, const std::shared_ptr<const void>& keep,
                    std::vector<std::shared_ptr<ReadRequest>>& complete) {
  ReadRequest& request = *waiter.request;
  ReadRequest::Slice& slice = request.slices[waiter.slice];
  if (request.copy != nullptr) {
    std::memcpy(request.copy->data() + (slice.range.begin - request.range.begin), from, slice.range.size());
  }
  MutexLock lock(mu_);
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
      MutexLock lock(mu_);
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
      MutexLock lock(mu_);
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
      const auto found = fetches_.find({request->file->object().id(), slice.part});
      if (found == fetches_.end()) continue;
      const std::shared_ptr<Fetch> fetch = found->second;
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
  MutexLock lock(mu_);
  const auto found = reads_.find(ticket);
  if (found == reads_.end()) return;
  const std::shared_ptr<ReadRequest> request = found->second;
  FinishReadLocked(request, Status(Code::kCancelled, "the reader went away"), later);
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
    MutexLock lock(mu_);
    if (stopping_) return Cancelled();
    const PartKey key{object.id(), part};
    const auto found = fetches_.find(key);
    const bool lingers = std::any_of(lingering_.begin(), lingering_.end(),
                                     [&](const Lingering& entry) { return entry.key == key; });
    if (object.IsResident(part)) {
      // answered below
    } else if (lingers && found == fetches_.end()) {
      at_once = Status(Code::kNoSpace, "the cache has no room for it", ENOSPC);
    } else {
      if (found == fetches_.end() && priority != FetchPriority::kDemand &&
          queue_.size() >= options.max_queued) {
        return {Code::kBusy, "the fetch queue is full (" + std::to_string(options.max_queued) + " parts)"};
      }
      Wish wish{file, priority, std::move(done), 0};
      if (priority == FetchPriority::kDemand) {
        wish.ticket = next_ticket_++;
        waiting_wishes_.emplace(wish.ticket, WaitingWish{key, clock.Now() + options.deadline});
        timer_.NotifyOne();
      }
      if (found != fetches_.end()) {
        CountLocked(&Metrics::fetch_joined);
        const std::shared_ptr<Fetch> fetch = found->second;
        // A wish without a callback says no more than an equal one before it.
        const bool known =
            !wish.done && std::any_of(fetch->wishes.begin(), fetch->wishes.end(), [&](const Wish& w) {
              return w.file == file && w.priority == priority && wish.ticket == 0;
            });
        if (!known) fetch->wishes.push_back(std::move(wish));
        if (priority < fetch->priority) SetPriorityLocked(fetch, priority);
        return Status::Ok();
      }
      auto fetch = std::make_shared<Fetch>(key, part, object.PartRange(part));
      fetch->file = file;
      fetch->priority = priority;
      fetch->wishes.push_back(std::move(wish));
      fetches_.emplace(key, fetch);
      EnqueueLocked(fetch);
      return Status::Ok();
    }
  }
  if (done) done(at_once);
  return Status::Ok();
}

void Core::FinishWishLocked(Wish wish, const Status& status, Later& later) {
  if (wish.ticket != 0) waiting_wishes_.erase(wish.ticket);
  if (wish.done) {
    later.calls.push_back([done = std::move(wish.done), status] { done(status); });
  }
  later.wishes.push_back(std::move(wish));  // its file may be the last to hold a pin
}

void Core::Forget(const FetchFile& file, FetchPriority priority) {
  Later later;
  MutexLock lock(mu_);
  const ObjectId& id = file.object().id();
  std::vector<std::shared_ptr<Fetch>> mine;
  // By part or by queue, whichever is shorter.
  if (file.object().part_count() <= queue_.size()) {
    for (uint32_t i = 0; i < file.object().part_count(); ++i) {
      const auto found = fetches_.find({id, PartIndex{i}});
      if (found != fetches_.end() && !found->second->running) mine.push_back(found->second);
    }
  } else {
    for (const std::shared_ptr<Fetch>& fetch : queue_) {
      if (fetch->key.object == id) mine.push_back(fetch);
    }
  }
  for (const std::shared_ptr<Fetch>& fetch : mine) {
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

// --- what workers report --------------------------------------------------------------------------------

void Core::Deliver(const std::vector<Waiter>& waiters, const Fetch& fetch,
                   const std::shared_ptr<PartBuffer>& buffer) {
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
  MutexLock lock(mu_);
  if (!waiter.request->finished) FinishReadLocked(waiter.request, status, later);
}

void Core::FinishFetched(const std::shared_ptr<Fetch>& fetch, const Status& stored, bool bytes_in_memory) {
  std::vector<std::shared_ptr<ReadRequest>> complete;
  std::vector<Waiter> left;
  std::vector<Waiter> zeros;
  std::shared_ptr<PartBuffer> buffer;
  {
    Later later;
    MutexLock lock(mu_);
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
      lingering_.push_back({fetch->key, fetch->range.begin, buffer, clock.Now()});
      lingering_bytes_ += buffer->block.bytes;
      while (lingering_bytes_ > LingerLimit()) DropLingeringLocked(lingering_.begin(), later);
      timer_.NotifyOne();
    }
    if (!again.empty()) {
      auto next = std::make_shared<Fetch>(fetch->key, fetch->part, fetch->range);
      next->file = again.front().file;
      for (const Wish& wish : again) next->priority = std::min(next->priority, wish.priority);
      next->wishes = std::move(again);
      fetches_.emplace(next->key, next);
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
  MutexLock lock(mu_);
  if (!fetch.waiters.empty()) return true;
  // A reader will be here soon. Not at the price of what lingers for one already.
  return fetch.priority <= FetchPriority::kReadAhead &&
         lingering_bytes_ + PartMemory::BlockBytes(fetch.range.size()) <= LingerLimit();
}

bool Core::FinishUnwanted(const std::shared_ptr<Fetch>& fetch, const Status& stored) {
  Later later;
  MutexLock lock(mu_);
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
  MutexLock lock(mu_);
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
  CountLocked(status.code() == Code::kCancelled ? &Metrics::fetch_cancelled : &Metrics::fetch_failed);
  WakeLocked();
  return true;
}

bool Core::Pause(Nanos time) {
  const auto end = std::chrono::steady_clock::now() + time;
  MutexLock lock(mu_);
  while (!stopping_) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return true;
    paused_.WaitFor(mu_, end - now);
  }
  return false;
}

/// Moves one part. Lives on one worker; heap-allocated so that a job stuck in the storage can be left behind
/// with all that it holds.
class PartJob {
 public:
  PartJob(Core& core, IoQueue& io, std::shared_ptr<Fetch> fetch, std::shared_ptr<PartBuffer> buffer)
      : core_(core), io_(io), fetch_(std::move(fetch)), buffer_(std::move(buffer)), range_(fetch_->range) {}

  /// False when the engine was stopped and gave this thread up meanwhile: nothing may be touched any more.
  bool Run();

 private:
  struct Operation {
    ByteRange piece;  // of the part
    bool write = false;
    uint64_t done = 0;  // bytes moved so far
    int refused = 0;    // times in a row that the kernel said "not now"
  };

  std::span<std::byte> Bytes(ByteRange piece) const {
    return {buffer_->block.data + piece.begin, static_cast<size_t>(piece.size())};
  }
  bool SomebodyReads() const;
  bool Refused(Operation& operation, int64_t result) const {
    return (result == -EINTR || result == -EAGAIN) && ++operation.refused <= kMaxRefusals;
  }
  Status Attempt();
  Status FetchHole();
  Status Transfer();
  bool TakePieces(std::vector<ByteRange>* pieces);
  Status StartRead(ByteRange piece);
  void QueueOperation(size_t index);
  Status Reap();
  Status HandleRead(size_t index, int64_t result);
  void HandleWrite(size_t index, int64_t result);
  Status Answer(bool all);
  void EnsureRoom();
  void FlushWrites();
  void Drain();
  void StopStoring(Status why);
  void ServeOneByOne();
  Status Commit(uint64_t checksum);

  Core& core_;
  IoQueue& io_;
  const std::shared_ptr<Fetch> fetch_;
  const std::shared_ptr<PartBuffer> buffer_;
  const ByteRange range_;
  std::shared_ptr<FetchFile> file_;
  std::shared_ptr<UfsFile> source_;
  std::shared_ptr<const Fd> target_;
  SpaceReservation room_;
  bool room_asked_ = false;
  Status stored_;  // why the part is not stored, when it is not
  std::vector<Operation> operations_;
  std::vector<ByteRange> to_write_;  // landed, not yet queued
  std::vector<ByteRange> holes_;  // landed as zeros without being read: must be holes in the cache file too
  std::vector<IoQueue::Completion> completions_;
  bool unwanted_ = false;     // no room, and nobody waits
  bool hole_stored_ = false;  // stored without any bytes in memory
};

bool PartJob::SomebodyReads() const {
  MutexLock lock(core_.mu_);
  return !fetch_->waiters.empty();
}

void PartJob::StopStoring(Status why) {
  if (!stored_.ok()) return;
  stored_ = std::move(why);
  room_ = SpaceReservation();
  to_write_.clear();
  holes_.clear();
}

void PartJob::EnsureRoom() {
  if (room_asked_) return;
  room_asked_ = true;
  Result<SpaceReservation> room = core_.store.Reserve(file_->object(), range_.size());
  if (!room.ok()) return StopStoring(room.status());
  room_ = std::move(room).value();
  Result<std::shared_ptr<const Fd>> target = file_->object().File();
  if (!target.ok()) return StopStoring(target.status());
  target_ = std::move(target).value();
}

/// Pieces to start now. Those that a reader waits for come first, and alone: what else is read meanwhile
/// would only delay them. True when some reader's bytes are on their way.
bool PartJob::TakePieces(std::vector<ByteRange>* pieces) {
  const size_t free = source_->fd() >= 0 ? io_.depth() - std::min(io_.depth(), io_.pending()) : 1;
  MutexLock lock(core_.mu_);
  bool wanted = false;
  for (const Waiter& waiter : fetch_->waiters) {
    const ByteRange of_file = waiter.request->slices[waiter.slice].range;
    const ByteRange of_part{of_file.begin - range_.begin, of_file.end - range_.begin};
    if (fetch_->progress.HasLanded(of_part)) continue;
    wanted = true;
    while (pieces->size() < free) {
      const ByteRange piece = fetch_->progress.TakeWanted(of_part);
      if (piece.empty()) break;
      pieces->push_back(piece);
    }
  }
  while (!wanted && pieces->size() < free) {
    const ByteRange piece = fetch_->progress.TakeAny();
    if (piece.empty()) break;
    pieces->push_back(piece);
  }
  return wanted;
}

void PartJob::QueueOperation(size_t index) {
  const Operation& operation = operations_[index];
  const ByteRange rest{operation.piece.begin + operation.done, operation.piece.end};
  const uint64_t offset = range_.begin + rest.begin;
  const bool queued = operation.write ? io_.QueueWrite(target_->get(), Bytes(rest), offset, index)
                                      : io_.QueueRead(source_->fd(), Bytes(rest), offset, index);
  STOKER_CHECK(queued);  // the depth was looked at before
}

Status PartJob::StartRead(ByteRange piece) {
  const ByteRange of_file{range_.begin + piece.begin, range_.begin + piece.end};
  if (file_->InHole(*source_, of_file)) {
    const std::span<std::byte> bytes = Bytes(piece);
    std::memset(bytes.data(), 0, bytes.size());
    if (stored_.ok()) holes_.push_back(piece);
    MutexLock lock(core_.mu_);
    fetch_->progress.Landed(piece);
    return Status::Ok();
  }
  core_.Count(&Metrics::ufs_reads);
  operations_.push_back({piece, false, 0, 0});
  const size_t index = operations_.size() - 1;
  if (source_->fd() >= 0) {
    QueueOperation(index);
    return Status::Ok();
  }
  const Result<size_t> got = source_->Read(of_file.begin, Bytes(piece), fetch_->cancel);
  if (core_.abandoned()) return Cancelled();
  if (got.ok()) return HandleRead(index, static_cast<int64_t>(*got));
  MutexLock lock(core_.mu_);
  fetch_->progress.Lost(piece);
  return got.status();
}

Status PartJob::HandleRead(size_t index, int64_t result) {
  Operation& operation = operations_[index];
  const ByteRange piece = operation.piece;
  if (result > 0) {
    core_.Count(&Metrics::ufs_bytes, static_cast<uint64_t>(result));
    operation.done += static_cast<uint64_t>(result);
    if (operation.done < piece.size() &&
        source_->fd() >= 0) {  // short: the rest, or the end of the file, next
      QueueOperation(index);
      return Status::Ok();
    }
  }
  if (Refused(operation, result)) {
    QueueOperation(index);
    return Status::Ok();
  }
  const bool whole = operation.done == piece.size();
  {
    MutexLock lock(core_.mu_);
    if (whole) {
      fetch_->progress.Landed(piece);
    } else {
      fetch_->progress.Lost(piece);
    }
  }
  if (whole) {
    if (stored_.ok()) to_write_.push_back(piece);
    return Status::Ok();
  }
  if (result < 0) {
    core_.Count(&Metrics::ufs_errors);
    return Status::FromErrno(static_cast<int>(-result), "cannot read '" + file_->path() + "'");
  }
  // The file ends before its size says so: it shrank.
  RETURN_IF_ERROR(source_->CheckVersion());
  return {Code::kIo, "'" + file_->path() + "' ends before its size of " +
                         std::to_string(file_->version().size) + " bytes"};
}

void PartJob::HandleWrite(size_t index, int64_t result) {
  Operation& operation = operations_[index];
  if (result > 0) {
    operation.done += static_cast<uint64_t>(result);
    if (operation.done < operation.piece.size() && stored_.ok()) QueueOperation(index);
    return;
  }
  if (stored_.ok() && Refused(operation, result)) {
    QueueOperation(index);
    return;
  }
  if (stored_.ok() && result != -ENOSPC && result != -EDQUOT) core_.Count(&Metrics::cache_errors);
  StopStoring(
      Status::FromErrno(result == 0 ? EIO : static_cast<int>(-result), "cannot write to the cache disk"));
}

Status PartJob::Reap() {
  completions_.clear();
  const Status waited = io_.Wait(completions_);
  if (core_.abandoned()) return Cancelled();
  Status first;
  for (const IoQueue::Completion& done : completions_) {
    if (operations_[done.tag].write) {
      HandleWrite(done.tag, done.result);
    } else if (Status status = HandleRead(done.tag, done.result); !status.ok() && first.ok()) {
      first = std::move(status);
    }
  }
  // Losing the queue itself leaves operations in the kernel's hands that point into our memory.
  STOKER_CHECK(waited.ok());
  return first;
}

void PartJob::Drain() {
  while (io_.pending() > 0 && !core_.abandoned()) {
    // The first error is what counts; these reads are thrown away or kept, either is right.
    IgnoreStatus(Reap());
  }
  operations_.clear();
}

void PartJob::FlushWrites() {
  for (const ByteRange& hole : std::exchange(holes_, {})) {
    // An earlier try may have left bytes here; a hole it must be, or zeros.
    const off_t data = ::lseek(target_->get(), static_cast<off_t>(range_.begin + hole.begin), SEEK_DATA);
    const bool clean = data < 0 ? errno == ENXIO : static_cast<uint64_t>(data) >= range_.begin + hole.end;
    if (!clean) to_write_.push_back(hole);
  }
  while (!to_write_.empty() && stored_.ok() && io_.pending() < io_.depth()) {
    operations_.push_back({to_write_.back(), true, 0, 0});
    to_write_.pop_back();
    QueueOperation(operations_.size() - 1);
  }
}

/// Answers readers whose bytes are there, after asking the UFS whether they still are what they were.
/// `all`: asks in any case, so that the whole part is known to be right.
Status PartJob::Answer(bool all) {
  const auto of_part = [this](const Waiter& waiter) {
    const ByteRange of_file = waiter.request->slices[waiter.slice].range;
    return ByteRange{of_file.begin - range_.begin, of_file.end - range_.begin};
  };
  if (!all) {
    MutexLock lock(core_.mu_);
    const bool any = std::any_of(fetch_->waiters.begin(), fetch_->waiters.end(), [&](const Waiter& waiter) {
      return fetch_->progress.HasLanded(of_part(waiter));
    });
    if (!any) return Status::Ok();
  }
  const Status version = source_->CheckVersion();
  if (core_.abandoned()) return Cancelled();
  RETURN_IF_ERROR(version);
  std::vector<Waiter> answered;
  {
    MutexLock lock(core_.mu_);
    fetch_->progress.VerifyLanded();
    std::vector<Waiter> waiting;
    for (Waiter& waiter : fetch_->waiters) {
      (fetch_->progress.IsVerified(of_part(waiter)) ? answered : waiting).push_back(std::move(waiter));
    }
    fetch_->waiters = std::move(waiting);
  }
  core_.Deliver(answered, *fetch_, buffer_);
  return Status::Ok();
}

/// All bytes into memory and, where there is room, into the cache file. Returns with nothing under way.
Status PartJob::Transfer() {
  while (true) {
    RETURN_IF_ERROR(core_.stopping() ? Cancelled() : Status::Ok());
    if (room_asked_ && stored_.ok()) FlushWrites();
    std::vector<ByteRange> pieces;
    TakePieces(&pieces);
    for (size_t i = 0; i < pieces.size(); ++i) {
      Status started = StartRead(pieces[i]);
      if (started.ok()) continue;
      MutexLock lock(core_.mu_);
      for (size_t rest = i + 1; rest < pieces.size(); ++rest) fetch_->progress.Lost(pieces[rest]);
      return started;
    }
    // What came from a hole, or from a driver without a descriptor, is here already.
    RETURN_IF_ERROR(Answer(false));
    bool landed;
    {
      MutexLock lock(core_.mu_);
      landed = fetch_->progress.AllLanded();
    }
    if (io_.pending() > 0) {
      RETURN_IF_ERROR(Reap());
      RETURN_IF_ERROR(Answer(false));
    }
    // Readers first: making room may mean evicting.
    if (!room_asked_ && (!to_write_.empty() || landed)) EnsureRoom();
    if (landed && io_.pending() == 0 && (!stored_.ok() || (to_write_.empty() && holes_.empty()))) {
      return Status::Ok();
    }
  }
}

Status PartJob::Commit(uint64_t checksum) {
  SYNC_POINT("fetch:before_commit");
  Status committed = core_.store.Commit(file_->object(), fetch_->part, checksum, std::move(room_));
  room_ = SpaceReservation();
  return committed;
}

/// The part as a whole is a hole: nothing to read or to write.
Status PartJob::FetchHole() {
  RETURN_IF_ERROR(source_->CheckVersion());
  if (core_.abandoned()) return Cancelled();
  EnsureRoom();
  if (!stored_.ok()) return Status::Ok();
  const off_t data = ::lseek(target_->get(), static_cast<off_t>(range_.begin), SEEK_DATA);
  const bool clean = data < 0 ? errno == ENXIO : static_cast<uint64_t>(data) >= range_.end;
  if (!clean) return Status::Ok();
  // Zeros have no place to be read from; a page of them in pieces does.
  static constexpr std::array<std::byte, kPageBytes> kZeros{};
  Checksum64Stream checksum;
  for (uint64_t at = 0; at < range_.size(); at += kZeros.size()) {
    checksum.Update(std::span(kZeros).first(std::min<uint64_t>(kZeros.size(), range_.size() - at)));
  }
  const Status committed = Commit(checksum.Digest());
  if (core_.abandoned()) return Cancelled();
  if (!committed.ok()) {
    StopStoring(committed);
    return Status::Ok();
  }
  hole_stored_ = true;
  return Status::Ok();
}

Status PartJob::Attempt() {
  Result<std::shared_ptr<UfsFile>> source = file_->Source();
  if (core_.abandoned()) return Cancelled();
  if (!source.ok()) return source.status();
  source_ = std::move(source).value();
  if (!room_asked_ && file_->InHole(*source_, range_)) {
    RETURN_IF_ERROR(FetchHole());
    if (hole_stored_) return Status::Ok();
  }
  // While nobody waits, no room may mean that there is nothing to fetch for.
  if (!room_asked_ && !SomebodyReads()) EnsureRoom();
  if (!stored_.ok() && !core_.WorthFetching(*fetch_)) {
    unwanted_ = true;
    return stored_;
  }
  Status status = Transfer();
  if (!status.ok()) {
    Drain();
    return status;
  }
  operations_.clear();
  RETURN_IF_ERROR(Answer(true));
  if (!stored_.ok()) return Status::Ok();
  const Status committed = Commit(Checksum64(Bytes({0, range_.size()})));
  if (!committed.ok()) StopStoring(committed);
  return Status::Ok();
}

/// The part cannot be had as a whole. A reader's own bytes may still be readable (one bad block, say): each
/// gets what he asked for, or the error that reading just that gives.
void PartJob::ServeOneByOne() {
  while (true) {
    Waiter waiter;
    {
      MutexLock lock(core_.mu_);
      if (fetch_->waiters.empty()) return;
      waiter = fetch_->waiters.back();
      fetch_->waiters.pop_back();
    }
    const ByteRange range = waiter.request->slices[waiter.slice].range;
    // Into memory of its own: other readers may be sending what landed in the part's buffer.
    std::vector<std::byte> own(range.size());
    Result<std::shared_ptr<UfsFile>> source = file_->Source();
    Status status = source.status();
    if (source.ok()) {
      const Result<size_t> got = (*source)->Read(range.begin, own, fetch_->cancel);
      status = !got.ok() ? got.status() : (*source)->CheckVersion();
      core_.Count(&Metrics::ufs_reads);
      if (got.ok()) core_.Count(&Metrics::ufs_bytes, *got);
      if (status.ok() && *got != range.size()) {
        status = Status(Code::kIo, "'" + file_->path() + "' ends before its size");
      }
    }
    if (core_.abandoned()) return;
    if (status.ok()) {
      core_.DeliverOwn(waiter, std::move(own));
    } else {
      core_.FailReader(waiter, status);
    }
  }
}

bool PartJob::Run() {
  for (int attempt = 1;;) {
    {
      MutexLock lock(core_.mu_);
      file_ = fetch_->file;
    }
    const Status status = Attempt();
    if (core_.abandoned()) return false;
    if (status.ok()) {
      core_.FinishFetched(fetch_, stored_, !hole_stored_);
      return true;
    }
    if (std::exchange(unwanted_, false)) {
      if (core_.FinishUnwanted(fetch_, stored_)) return true;
      continue;  // a reader came this very moment: he gets his bytes
    }
    if (status.retryable() && attempt < kMaxAttempts &&
        core_.Pause(kBackoff[static_cast<size_t>(attempt - 1)])) {
      core_.Count(&Metrics::fetch_retries);
      file_->Discard(source_);
      ++attempt;
      continue;
    }
    if (status.retryable()) ServeOneByOne();
    if (core_.abandoned()) return false;
    // Another name of the same file may be fine when this one's has gone.
    const bool opening = source_ == nullptr || status.code() == Code::kStale;
    if (core_.FinishFailed(fetch_, opening ? file_.get() : nullptr, status)) return true;
    source_ = nullptr;
    attempt = 1;
  }
}

/// Keeps until the process ends what must not be taken apart any more.
void LeaveBehind(std::unique_ptr<PartJob> job, std::unique_ptr<IoQueue> io) {
  struct Left {
    Mutex mu;
    std::vector<std::pair<std::unique_ptr<PartJob>, std::unique_ptr<IoQueue>>> jobs GUARDED_BY(mu);
  };
  static auto* const left = new Left();  // never destroyed
  MutexLock lock(left->mu);
  left->jobs.emplace_back(std::move(job), std::move(io));
}

// --- threads --------------------------------------------------------------------------------------------

void Core::WorkerMain(const std::shared_ptr<Core>& core, size_t slot) {
  pthread_setname_np(pthread_self(), "stoker-fetch");
  std::unique_ptr<IoQueue> io;
  while (true) {
    PartMemory::Block block;
    std::shared_ptr<Fetch> fetch;
    {
      Later later;
      MutexLock lock(core->mu_);
      fetch = core->DequeueLocked(&block, later);
      if (fetch == nullptr) {
        if (core->stopping_) break;
        if (!later.empty()) continue;  // memory may come free by it
        ++core->idle_;
        core->work_.Wait(core->mu_);
        --core->idle_;
        continue;
      }
    }
    const bool mapped = block.data != nullptr || PartMemory::MapBlock(block);
    auto buffer = std::make_shared<PartBuffer>(core, block);
    if (!mapped) {
      core->FinishFailed(fetch, nullptr, Status(Code::kBusy, "out of memory for a part buffer", ENOMEM));
      continue;
    }
    {
      MutexLock lock(core->mu_);
      fetch->buffer = buffer;
    }
    // The ring belongs to the thread that makes it, and only threads that work need one.
    if (io == nullptr) {
      Result<std::unique_ptr<IoQueue>> made = MakeIoQueue(core->io_mode, kQueueDepth);
      if (!made.ok()) {
        LogWarn("prefetch", made.status().message() + "; this thread reads with pread instead");
        made = MakeIoQueue(IoMode::kPread, kQueueDepth);
      }
      io = std::move(made).value();
    }
    auto job = std::make_unique<PartJob>(*core, *io, std::move(fetch), std::move(buffer));
    if (!job->Run()) {
      // Given up by Stop() while the storage held us. The store and the UFS may be gone: what points at them
      // stays as it is, and so does the ring that may still own our memory.
      LeaveBehind(std::move(job), std::move(io));
      break;
    }
  }
  io.reset();
  MutexLock lock(core->mu_);
  core->threads_[slot].exited = true;
  --core->alive_;
  core->exited_.NotifyAll();
}

void Core::TimerMain(const std::shared_ptr<Core>& core, size_t slot) {
  pthread_setname_np(pthread_self(), "stoker-fetchtmr");
  while (core->Tick()) {
  }
  MutexLock lock(core->mu_);
  core->threads_[slot].exited = true;
  --core->alive_;
  core->exited_.NotifyAll();
}

bool Core::Tick() {
  Later later;
  MutexLock lock(mu_);
  if (stopping_) return false;
  if (reads_.empty() && waiting_wishes_.empty() && lingering_.empty() && memory.idle_bytes() == 0) {
    timer_.Wait(mu_);
  } else {
    timer_.WaitFor(mu_, kTick);
  }
  const Nanos now = clock.Now();
  const auto late = [this](const std::string& path) {
    return Status(Code::kDeadlineExceeded, "'" + path + "' was not read within " +
                                               FormatDuration(options.deadline) + "; the UFS is too slow");
  };
  while (!reads_.empty() && reads_.begin()->second->deadline <= now) {
    const std::shared_ptr<ReadRequest> request = reads_.begin()->second;
    FinishReadLocked(request, late(request->file->path()), later);
  }
  while (!waiting_wishes_.empty() && waiting_wishes_.begin()->second.deadline <= now) {
    const uint64_t ticket = waiting_wishes_.begin()->first;
    const auto found = fetches_.find(waiting_wishes_.begin()->second.key);
    waiting_wishes_.erase(waiting_wishes_.begin());
    if (found == fetches_.end()) continue;
    const std::shared_ptr<Fetch> fetch = found->second;
    for (auto wish = fetch->wishes.begin(); wish != fetch->wishes.end(); ++wish) {
      if (wish->ticket != ticket) continue;
      const Status status = late(wish->file->path());
      FinishWishLocked(std::move(*wish), status, later);
      fetch->wishes.erase(wish);
      AfterLeaveLocked(fetch, later);
      break;
    }
  }
  while (!lingering_.empty() && lingering_.front().last_use + kLinger <= now) {
    DropLingeringLocked(lingering_.begin(), later);
  }
  if (memory.used_bytes() == 0 && last_fetch_ + kIdleMemory <= now) memory.TakeIdle(later.blocks);
  return true;
}

Status Core::StartThreads() {
  MutexLock lock(mu_);
  if (!SpawnLocked() || !SpawnLocked()) {
    return {Code::kUnavailable,
            "cannot start the fetch threads: raise the limit on threads (ulimit -u, pids.max)"};
  }
  return Status::Ok();
}

FetchEngineState Core::State() const {
  MutexLock lock(mu_);
  FetchEngineState state;
  state.in_flight_bytes = memory.used_bytes();
  state.queued = queue_.size();
  state.io = io;
  state.io_reason = io_reason;
  state.threads = options.threads;
  state.stuck_threads = stuck_;
  return state;
}

void Core::Stop(Nanos timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  {
    Later later;
    MutexLock lock(mu_);
    if (!stopping_) {
      stopping_ = true;
      while (!reads_.empty()) {
        const std::shared_ptr<ReadRequest> request = reads_.begin()->second;
        FinishReadLocked(request, Cancelled(), later);
      }
      std::vector<std::shared_ptr<Fetch>> all;
      for (const auto& [key, fetch] : fetches_) all.push_back(fetch);
      for (const std::shared_ptr<Fetch>& fetch : all) {
        for (Wish& wish : fetch->wishes) FinishWishLocked(std::move(wish), Cancelled(), later);
        fetch->wishes.clear();
        fetch->cancel.Cancel();
        AfterLeaveLocked(fetch, later);
      }
      while (!lingering_.empty()) DropLingeringLocked(lingering_.begin(), later);
      memory.TakeIdle(later.blocks);
      UpdateGaugesLocked();
      work_.NotifyAll();
      timer_.NotifyAll();
      paused_.NotifyAll();
    }
  }
  std::vector<std::thread> ended;
  {
    MutexLock lock(mu_);
    while (alive_ > 0) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= end) break;
      exited_.WaitFor(mu_, end - now);
    }
    abandoned_ = abandoned_ || alive_ > 0;
    stuck_ = alive_;
    for (WorkerSlot& worker : threads_) {
      if (!worker.thread.joinable()) continue;
      if (worker.exited) {
        ended.push_back(std::move(worker.thread));
      } else {
        worker.thread.detach();
      }
    }
  }
  for (std::thread& thread : ended) thread.join();
  if (const size_t stuck = State().stuck_threads; stuck > 0) {
    LogWarn("prefetch", std::to_string(stuck) + " fetch threads hang in the storage and are left behind");
  }
}

class FetchEngineImpl final : public FetchEngine {
 public:
  explicit FetchEngineImpl(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~FetchEngineImpl() override {
    core_->Stop(kStopTimeout);
    core_->ForgetMetrics();
  }
  uint64_t Read(const std::shared_ptr<FetchFile>& file, ByteRange range, ReadCallback done) override {
    return core_->Read(file, range, std::move(done));
  }
  void CancelRead(uint64_t ticket) override { core_->CancelRead(ticket); }
  Status Want(const std::shared_ptr<FetchFile>& file, PartIndex part, FetchPriority priority,
              DoneCallback done) override {
    return core_->Want(file, part, priority, std::move(done));
  }
  void Forget(const FetchFile& file, FetchPriority priority) override { core_->Forget(file, priority); }
  FetchEngineState State() const override { return core_->State(); }
  void Stop(std::chrono::nanoseconds timeout) override { core_->Stop(timeout); }

 private:
  /// For an owner who did not call Stop() himself.
  static constexpr std::chrono::seconds kStopTimeout{10};
  const std::shared_ptr<Core> core_;
};

}  // namespace

Result<std::unique_ptr<FetchEngine>> FetchEngine::Start(const FetchEngineOptions& options, ObjectStore& store,
                                                        Metrics& metrics, Clock& clock) {
  if (options.threads == 0) {
    return Status(Code::kInvalidArgument, "prefetch.threads is 0: it must be at least 1");
  }
  if (options.budget_bytes == 0) {
    return Status(Code::kInvalidArgument, "prefetch.budget is 0: it must hold at least one part");
  }
  auto core = std::make_shared<Core>(options, store, metrics, clock);
  const std::string refused = IoUringUnavailableReason();
  if (options.io == IoMode::kIoUring && !refused.empty()) {
    return Status(Code::kUnsupported, "prefetch.io is io_uring, but " + refused + "; use auto or pread");
  }
  core->io_mode = options.io;
  if (options.io == IoMode::kPread) {
    core->io_reason = "prefetch.io is pread";
  } else if (!refused.empty()) {
    core->io_mode = IoMode::kPread;
    core->io_reason = refused;
  }
  core->io = core->io_mode == IoMode::kPread ? "pread" : "io_uring";
  RETURN_IF_ERROR(core->StartThreads());
  return std::unique_ptr<FetchEngine>(std::make_unique<FetchEngineImpl>(std::move(core)));
}

}  // namespace stoker
