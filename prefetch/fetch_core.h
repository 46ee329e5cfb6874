#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/metrics.h"
#include "cache/base/mutex.h"
#include "cache/store/object_store.h"
#include "prefetch/fetch.h"
#include "prefetch/fetch_queue.h"
#include "prefetch/lingering.h"
#include "prefetch/part_memory.h"
#include "prefetch/thrift.h"

namespace stoker::fetch {

/// What everybody gets once the engine stops.
Status Cancelled();

/// A slice whose bytes need no fetch.
struct AtHand {
  Waiter waiter;
  const std::byte* from = nullptr;
  std::shared_ptr<PartBuffer> keep;
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

/// Everything that the engine's threads share, behind one mutex: the queue, the budget, the readers and the
/// wishes. It decides who is served when; PartFetch moves the bytes. Its code lies in three files by what it
/// is about: fetch_core.cc (admission, memory, wishes, how a fetch ends), fetch_readers.cc (readers and their
/// answers), fetch_threads.cc (threads, deadlines, the end). Any thread, except where a function says worker.
/// Functions that end in Locked run under `mu`; what they must not do there (callbacks, destructors that
/// lock) they leave in a Later, which runs when the mutex is free again.
///
/// Held by each thread and each buffer, so that a thread left behind in dead
/// storage, or a reply still being sent, never loses the ground under it.
class Core final : public PartBufferOwner, public std::enable_shared_from_this<Core> {
 public:
  Core(const FetchEngineOptions& o, ObjectStore& s, Metrics& m, Clock& c)
      : options(o),
        store(s),
        clock(c),
        memory_(o.budget_bytes),
        queue_(o.max_queued),
        lingering_(o.budget_bytes / 2),
        metrics_(&m) {}

  // --- asked from outside -------------------------------------------------------------------------------
  uint64_t Read(const std::shared_ptr<FetchFile>& file, ByteRange range, FetchEngine::ReadCallback done)
      EXCLUDES(mu);
  void CancelRead(uint64_t ticket) EXCLUDES(mu);
  Status Want(const std::shared_ptr<FetchFile>& file, PartIndex part, FetchPriority priority,
              FetchEngine::DoneCallback done) EXCLUDES(mu);
  void Forget(const FetchFile& file, FetchPriority priority) EXCLUDES(mu);
  FetchEngineState State() const EXCLUDES(mu);
  void Stop(Nanos timeout) EXCLUDES(mu);
  Status StartThreads() EXCLUDES(mu);
  void ForgetMetrics() EXCLUDES(mu) {
    MutexLock lock(mu);
    metrics_ = nullptr;
  }

  // --- for the workers ----------------------------------------------------------------------------------
  static void WorkerMain(const std::shared_ptr<Core>& core, size_t slot);
  static void TimerMain(const std::shared_ptr<Core>& core, size_t slot);
  bool abandoned() const EXCLUDES(mu) {
    MutexLock lock(mu);
    return abandoned_;
  }
  bool stopping() const EXCLUDES(mu) {
    MutexLock lock(mu);
    return stopping_;
  }
  /// False when the engine stops first.
  bool Pause(Nanos time) EXCLUDES(mu);
  /// The fetched bytes of these slices are right: hands them over.
  void Deliver(const std::vector<Waiter>& waiters, const Fetch& fetch,
               const std::shared_ptr<PartBuffer>& buffer) EXCLUDES(mu);
  /// The same for bytes that were read for this slice alone.
  void DeliverOwn(const Waiter& waiter, std::vector<std::byte> bytes) EXCLUDES(mu);
  /// What cannot be stored is fetched exactly as it is asked for: parts kept in memory were wasted lately.
  bool saving() const EXCLUDES(mu) {
    MutexLock lock(mu);
    return thrift_.saving();
  }
  /// So many bytes were fetched and delivered that way.
  void CountExact(uint64_t bytes) EXCLUDES(mu) {
    MutexLock lock(mu);
    thrift_.Exact(bytes);
    CountLocked(&Metrics::fetch_exact);
  }
  /// Ends one reader's wait with an error.
  void FailReader(const Waiter& waiter, const Status& status) EXCLUDES(mu);
  /// The part is resident (ok), or its bytes are in memory only (`stored` says why).
  void FinishFetched(const std::shared_ptr<Fetch>& fetch, const Status& stored, bool bytes_in_memory)
      EXCLUDES(mu);
  /// The fetch failed for all who came by `file` (null: for everyone). False when others are left and the
  /// fetch goes on with their file.
  bool FinishFailed(const std::shared_ptr<Fetch>& fetch, const FetchFile* file, const Status& status)
      EXCLUDES(mu);
  /// There is no room for the part and nobody waits for it. False when somebody does by now.
  bool FinishUnwanted(const std::shared_ptr<Fetch>& fetch, const Status& stored) EXCLUDES(mu);
  /// Without room in the cache: still worth fetching, for memory alone?
  bool WorthFetching(const Fetch& fetch) const EXCLUDES(mu);
  void GiveBack(PartBuffer& buffer) override EXCLUDES(mu);
  void Count(Counter Metrics::*counter, uint64_t n = 1) EXCLUDES(mu) {
    MutexLock lock(mu);
    CountLocked(counter, n);
  }
  Result<std::shared_ptr<const std::vector<std::byte>>> ReadResident(const ReadRequest& request);

  const FetchEngineOptions options;
  ObjectStore& store;
  Clock& clock;
  IoMode io_mode = IoMode::kAuto;  // set once, at the start
  std::string io;                  // set once, at the start
  std::string io_reason;           // set once, at the start

  mutable Mutex mu;

 private:
  struct WorkerSlot {
    std::thread thread;
    bool exited = false;
  };
  void CountLocked(Counter Metrics::*counter, uint64_t n = 1) REQUIRES(mu) {
    if (metrics_ != nullptr) (metrics_->*counter).Add(n);
  }
  void UpdateGaugesLocked() REQUIRES(mu) {
    if (metrics_ == nullptr) return;
    metrics_->fetch_queued.Set(static_cast<int64_t>(queue_.waiting()));
    metrics_->fetch_in_flight_bytes.Set(static_cast<int64_t>(memory_.used_bytes()));
  }
  void EnqueueLocked(const std::shared_ptr<Fetch>& fetch) REQUIRES(mu);
  void WakeLocked() REQUIRES(mu);
  bool AdmissibleLocked(const Fetch& fetch) const REQUIRES(mu);
  bool SpawnLocked() REQUIRES(mu);
  /// One look at deadlines and ages; false when stopping.
  bool Tick() EXCLUDES(mu);
  std::shared_ptr<Fetch> DequeueLocked(PartMemory::Block* block, Later& later) REQUIRES(mu);
  void SetPriorityLocked(const std::shared_ptr<Fetch>& fetch, FetchPriority priority) REQUIRES(mu);
  /// After somebody left: the priority of who is left, or off the queue when nobody is.
  void AfterLeaveLocked(const std::shared_ptr<Fetch>& fetch, Later& later) REQUIRES(mu);
  /// Adds the request to the fetch of this slice, or finds its bytes at hand.
  void SubscribeLocked(const std::shared_ptr<ReadRequest>& request, size_t slice,
                       std::vector<AtHand>& at_hand) REQUIRES(mu);
  /// Takes the request out of everything and queues its callback.
  void FinishReadLocked(const std::shared_ptr<ReadRequest>& request, Result<FetchedBytes> result,
                        Later& later) REQUIRES(mu);
  /// All slices of these are ready: reads back what is resident and answers.
  void Complete(const std::vector<std::shared_ptr<ReadRequest>>& requests) EXCLUDES(mu);
  /// Hands a slice its bytes; a request that misses nothing then is appended to `complete`.
  void HandOver(const Waiter& waiter, const std::byte* from, const std::shared_ptr<const void>& keep,
                std::vector<std::shared_ptr<ReadRequest>>& complete) EXCLUDES(mu);
  void FinishWishLocked(Wish wish, const Status& status, Later& later) REQUIRES(mu);
  void DropOldestLingeringLocked(Later& later) REQUIRES(mu);
  void ReleaseLocked(PartBuffer& buffer) REQUIRES(mu);
  void LeaveRunningLocked(const std::shared_ptr<Fetch>& fetch) REQUIRES(mu);

  CondVar work_;    // workers: something may be admissible
  CondVar timer_;   // the timer: somebody waits, or stop
  CondVar paused_;  // retries
  CondVar exited_;  // Stop(): a thread ended
  PartMemory memory_ GUARDED_BY(mu);
  FetchQueue queue_ GUARDED_BY(mu);
  Lingering lingering_ GUARDED_BY(mu);  // at most half of the budget
  Thrift thrift_ GUARDED_BY(mu);
  Metrics* metrics_ GUARDED_BY(mu);
  // Tickets grow and every deadline is the same time ahead, so the first entry is the next one due.
  std::map<uint64_t, std::shared_ptr<ReadRequest>> reads_ GUARDED_BY(mu);
  struct WaitingWish {
    PartKey key;
    Nanos deadline{0};
  };
  std::map<uint64_t, WaitingWish> waiting_wishes_ GUARDED_BY(mu);
  uint64_t next_ticket_ GUARDED_BY(mu) = 1;
  size_t idle_ GUARDED_BY(mu) = 0;
  size_t alive_ GUARDED_BY(mu) = 0;
  size_t stuck_ GUARDED_BY(mu) = 0;
  Nanos last_fetch_ GUARDED_BY(mu){0};
  bool stopping_ GUARDED_BY(mu) = false;
  bool abandoned_ GUARDED_BY(mu) = false;
  bool cannot_spawn_ GUARDED_BY(mu) = false;
  std::deque<WorkerSlot> threads_ GUARDED_BY(mu);  // [0] is the timer; a deque keeps slots in place
};

}  // namespace stoker::fetch
