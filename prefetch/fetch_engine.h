#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/metrics.h"
#include "cache/base/mutex.h"
#include "cache/base/result.h"
#include "cache/base/units.h"
#include "cache/io/io_queue.h"
#include "cache/store/object_store.h"
#include "cache/ufs/ufs.h"

namespace stoker {

/// Smaller is more urgent.
enum class FetchPriority : uint8_t {
  kDemand = 0,     // a reader waits
  kReadAhead = 1,  // a reader will be there soon
  kHint = 2,       // somebody said that it will be read
  kWarm = 3,       // asked for ahead of any use
};
inline constexpr size_t kFetchPriorities = 4;

struct FetchEngineOptions {
  size_t threads = 64;           // prefetch.threads; started when there is work for them. Where there are
                                 // several, the last one free is kept for readers who wait
  uint64_t budget_bytes = kGiB;  // prefetch.budget: bytes of parts in memory at once, all priorities
  size_t max_queued = 65536;     // wishes that may wait; more are answered kBusy (demand is always taken)
  std::chrono::nanoseconds deadline =
      std::chrono::seconds(60);  // a waiting reader gets kDeadlineExceeded after this
  IoMode io = IoMode::kAuto;     // prefetch.io
};

/// One version of one UFS file together with the object that its bytes land in. Shared by everyone who reads
/// that version; holds the pin. The UFS file is opened when the first part is fetched. Any thread.
class FetchFile {
 public:
  FetchFile(Ufs& ufs, std::string path, FileVersion version, ObjectRef object);
  ~FetchFile();
  const std::string& path() const { return path_; }
  const FileVersion& version() const { return version_; }
  const ObjectRef& object() const { return object_; }
  /// The open UFS file, opened at the first call. kStale when the path no longer holds `version()`. May wait
  /// on the UFS.
  Result<std::shared_ptr<UfsFile>> Source();
  /// The next Source() opens anew if `source` is what is open: after an error that may stick to a descriptor.
  void Discard(const std::shared_ptr<UfsFile>& source);
  /// True when the UFS has no data in `range`: it reads as zeros. Remembers what it learns, so that a file
  /// without holes is asked once. Errors of the UFS count as "no hole". May wait on the UFS.
  bool InHole(const UfsFile& source, ByteRange range);

 private:
  Ufs& ufs_;
  const std::string path_;
  const FileVersion version_;
  const ObjectRef object_;
  Mutex mu_;
  std::shared_ptr<UfsFile> source_ GUARDED_BY(mu_);
  ByteRange known_data_ GUARDED_BY(mu_);  // no hole begins in it
  ByteRange known_hole_ GUARDED_BY(mu_);
};

/// What a demand read got. Either the bytes (in order, together the range asked for, cut at the end of the
/// file), kept alive by `keep_alive`; or `resident`: they are in the object file now, read them there.
struct FetchedBytes {
  bool resident = false;
  std::vector<std::span<const std::byte>> pieces;
  std::shared_ptr<const void> keep_alive;
};

/// Whose wish brought a part in. One wish at most of all that joined a fetch, so bytes counted by it are
/// counted once; none when a reader began it, or who did took the wish back.
enum class FetchedFor : uint8_t {
  kThisWish,  // it was fetched because of this one
  kOther,     // it was there already or on its way for somebody else, or could not be had
};

struct FetchEngineState {
  uint64_t in_flight_bytes = 0;  // reserved from the budget
  uint64_t queued = 0;           // fetches waiting for a thread or for budget
  std::string io;                // "io_uring" or "pread"
  std::string io_reason;         // why not io_uring, when it is not
  size_t threads = 0;            // prefetch.threads
  uint64_t stuck_threads = 0;    // left behind by Stop(): see there
};

/// UFS → store, one part a job. The only place that moves bytes between the two. One queue (demand first),
/// one budget, one fetch per part however many ask for it (single flight): later wishes join it and may raise
/// its priority. A waiting reader is answered as soon as its own bytes have landed in the fetch buffer,
/// before the part is written to the cache. When the store has no room the bytes are served all the same, and
/// kept in memory only as long as budget that nobody needs allows. After reading, the UFS version is checked;
/// bytes of another version are never delivered or stored (kStale). A part that lies wholly in a hole of the
/// UFS file is committed without being read or written.
///
/// Any thread. Callbacks run on a worker thread, or inside the call when the answer is at hand; no lock is
/// held, and each is called exactly once, at the latest from Stop(). They must not block.
class FetchEngine {
 public:
  using ReadCallback = std::function<void(Result<FetchedBytes>)>;
  using DoneCallback = std::function<void(Status, FetchedFor)>;

  static Result<std::unique_ptr<FetchEngine>> Start(const FetchEngineOptions& options, ObjectStore& store,
                                                    Metrics& metrics, Clock& clock);
  /// Stop() if it was not called.
  virtual ~FetchEngine() = default;

  /// Demand: `done` gets the bytes of `range`. Returns a ticket for CancelRead, 0 when `done` has run
  /// already.
  virtual uint64_t Read(const std::shared_ptr<FetchFile>& file, ByteRange range, ReadCallback done) = 0;
  /// The reader went away: its callback runs with kCancelled unless it has run. The fetch goes on if others
  /// want it or it has started.
  virtual void CancelRead(uint64_t ticket) = 0;

  /// Brings one part in. `done` (may be empty) gets ok when the part is resident, kNoSpace when there was no
  /// room for it, kIo when the UFS or the cache disk failed (the message says which), kStale as for Read. At
  /// kDemand somebody waits: the deadline holds and the queue is never full. An error here means that the
  /// wish was not taken and `done` is not called: kBusy (the queue is full), kInvalidArgument (no such part),
  /// kCancelled (stopped).
  virtual Status Want(const std::shared_ptr<FetchFile>& file, PartIndex part, FetchPriority priority,
                      DoneCallback done) = 0;
  /// Drops what is queued for this file at `priority` or less urgent and has not started; its callbacks get
  /// kCancelled. Demand reads of others who joined keep it alive.
  virtual void Forget(const FetchFile& file, FetchPriority priority) = 0;

  virtual FetchEngineState State() const = 0;
  /// Ends everything: queued wishes and waiting readers get kCancelled, running reads are asked to stop.
  /// Returns when the workers are gone or after `timeout`. A thread stuck in the storage is left behind and
  /// never waited for again; it keeps what it was working with. State().stuck_threads then says how many: the
  /// store, the UFS and the metrics must stay until the process ends, so leave it by _exit().
  virtual void Stop(std::chrono::nanoseconds timeout) = 0;
};

}  // namespace stoker
