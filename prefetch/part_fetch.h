#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/units.h"
#include "cache/io/io_queue.h"
#include "cache/store/object_store.h"
#include "prefetch/fetch.h"
#include "prefetch/fetch_core.h"

namespace stoker::fetch {

/// Moves one part: pieces in from the UFS (first those that somebody waits for), readers answered after a
/// version check, pieces out to the object file, checksum, commit. Retries what may pass; what cannot be
/// stored is still delivered. Lives on one worker and is used by it alone, with that worker's queue; takes
/// the core's mutex for moments, never across I/O. Heap-allocated so that a job stuck in the storage can be
/// left behind with all that it holds.
class PartFetch {
 public:
  PartFetch(Core& core, IoQueue& io, std::shared_ptr<Fetch> fetch, std::shared_ptr<PartBuffer> buffer)
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
  /// The kernel said "not now", and not too often yet: to be queued again.
  static bool Refused(Operation& operation, int64_t result);
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
  std::optional<Waiter> TakeWaiter();
  Status ServeWaiter(const Waiter& waiter);
  Status ServeExactly();
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
  int disk_full_ = 0;  // writes that the disk had no room for
  Status stored_;      // why the part is not stored, when it is not
  std::vector<Operation> operations_;
  std::vector<ByteRange> to_write_;  // landed, not yet queued
  std::vector<ByteRange> holes_;  // landed as zeros without being read: must be holes in the cache file too
  std::vector<IoQueue::Completion> completions_;
  bool unwanted_ = false;     // no room, and nobody waits
  bool hole_stored_ = false;  // stored without any bytes in memory
};

}  // namespace stoker::fetch
