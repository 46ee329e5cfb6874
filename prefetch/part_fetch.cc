#include "prefetch/part_fetch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "cache/base/check.h"
#include "cache/base/checksum.h"
#include "cache/base/sync_point.h"
#include "cache/store/full_disk.h"

namespace stoker::fetch {

namespace {

/// Times that one operation may be refused with EINTR or EAGAIN before that is an error.
constexpr int kMaxRefusals = 100;
/// Times that one part has room made for it on a full disk; then it is served without being stored.
constexpr int kMaxDiskFull = 3;
/// Attempts in total when the UFS fails in a way that may pass, and the pauses before the further ones.
constexpr int kMaxAttempts = 3;
constexpr std::array<std::chrono::milliseconds, kMaxAttempts - 1> kBackoff = {std::chrono::milliseconds(20),
                                                                              std::chrono::milliseconds(100)};

}  // namespace

bool PartFetch::Refused(Operation& operation, int64_t result) {
  return (result == -EINTR || result == -EAGAIN) && ++operation.refused <= kMaxRefusals;
}

bool PartFetch::SomebodyReads() const {
  MutexLock lock(core_.mu);
  return !fetch_->waiters.empty();
}

void PartFetch::StopStoring(Status why) {
  if (!stored_.ok()) return;
  stored_ = std::move(why);
  room_ = SpaceReservation();
  to_write_.clear();
  holes_.clear();
}

void PartFetch::EnsureRoom() {
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
bool PartFetch::TakePieces(std::vector<ByteRange>* pieces) {
  const size_t free = source_->fd() >= 0 ? io_.depth() - std::min(io_.depth(), io_.pending()) : 1;
  MutexLock lock(core_.mu);
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

void PartFetch::QueueOperation(size_t index) {
  const Operation& operation = operations_[index];
  const ByteRange rest{operation.piece.begin + operation.done, operation.piece.end};
  const uint64_t offset = range_.begin + rest.begin;
  const bool queued = operation.write ? io_.QueueWrite(target_->get(), Bytes(rest), offset, index)
                                      : io_.QueueRead(source_->fd(), Bytes(rest), offset, index);
  STOKER_CHECK(queued);  // the depth was looked at before
}

Status PartFetch::StartRead(ByteRange piece) {
  const ByteRange of_file{range_.begin + piece.begin, range_.begin + piece.end};
  if (file_->InHole(*source_, of_file)) {
    const std::span<std::byte> bytes = Bytes(piece);
    std::memset(bytes.data(), 0, bytes.size());
    if (stored_.ok()) holes_.push_back(piece);
    MutexLock lock(core_.mu);
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
  MutexLock lock(core_.mu);
  fetch_->progress.Lost(piece);
  return got.status();
}

Status PartFetch::HandleRead(size_t index, int64_t result) {
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
    MutexLock lock(core_.mu);
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

void PartFetch::HandleWrite(size_t index, int64_t result) {
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
  const bool full = result == -ENOSPC || result == -EDQUOT;
  if (stored_.ok() && full && ++disk_full_ <= kMaxDiskFull && MakeRoomOnFullDisk(room_)) {
    QueueOperation(index);
    return;
  }
  if (stored_.ok() && !full) core_.Count(&Metrics::cache_errors);
  StopStoring(
      Status::FromErrno(result == 0 ? EIO : static_cast<int>(-result), "cannot write to the cache disk"));
}

Status PartFetch::Reap() {
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

void PartFetch::Drain() {
  while (io_.pending() > 0 && !core_.abandoned()) {
    // The first error is what counts; these reads are thrown away or kept, either is right.
    IgnoreStatus(Reap());
  }
  operations_.clear();
}

void PartFetch::FlushWrites() {
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
Status PartFetch::Answer(bool all) {
  const auto of_part = [this](const Waiter& waiter) {
    const ByteRange of_file = waiter.request->slices[waiter.slice].range;
    return ByteRange{of_file.begin - range_.begin, of_file.end - range_.begin};
  };
  if (!all) {
    MutexLock lock(core_.mu);
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
    MutexLock lock(core_.mu);
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
Status PartFetch::Transfer() {
  while (true) {
    RETURN_IF_ERROR(core_.stopping() ? Cancelled() : Status::Ok());
    if (room_asked_ && stored_.ok()) FlushWrites();
    std::vector<ByteRange> pieces;
    TakePieces(&pieces);
    for (size_t i = 0; i < pieces.size(); ++i) {
      Status started = StartRead(pieces[i]);
      if (started.ok()) continue;
      MutexLock lock(core_.mu);
      for (size_t rest = i + 1; rest < pieces.size(); ++rest) fetch_->progress.Lost(pieces[rest]);
      return started;
    }
    // What came from a hole, or from a driver without a descriptor, is here already.
    RETURN_IF_ERROR(Answer(false));
    bool landed;
    {
      MutexLock lock(core_.mu);
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

Status PartFetch::Commit(uint64_t checksum) {
  SYNC_POINT("fetch:before_commit");
  Status committed = core_.store.Commit(file_->object(), fetch_->part, checksum, std::move(room_));
  room_ = SpaceReservation();
  return committed;
}

/// The part as a whole is a hole: nothing to read or to write.
Status PartFetch::FetchHole() {
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

Status PartFetch::Attempt() {
  Result<std::shared_ptr<UfsFile>> source = file_->Source();
  if (core_.abandoned()) return Cancelled();
  if (!source.ok()) return source.status();
  source_ = std::move(source).value();
  if (!room_asked_ && file_->InHole(*source_, range_)) {
    RETURN_IF_ERROR(FetchHole());
    if (hole_stored_) return Status::Ok();
  }
  // While nobody waits, no room may mean that there is nothing to fetch for.
  const bool saving = core_.saving();
  if (!room_asked_ && (saving || !SomebodyReads())) EnsureRoom();
  if (!stored_.ok() && saving) {
    RETURN_IF_ERROR(ServeExactly());
    unwanted_ = true;
    return stored_;
  }
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

/// What this reader asked for and nothing else, into memory of his own.
Status PartFetch::ServeWaiter(const Waiter& waiter) {
  const ByteRange range = waiter.request->slices[waiter.slice].range;
  // Other readers may be sending what landed in the part's buffer.
  std::vector<std::byte> own(range.size());
  ASSIGN_OR_RETURN(const std::shared_ptr<UfsFile> source, file_->Source());
  const Result<size_t> got = source->Read(range.begin, own, fetch_->cancel);
  if (core_.abandoned()) return Cancelled();
  core_.Count(&Metrics::ufs_reads);
  if (!got.ok()) return got.status();
  core_.Count(&Metrics::ufs_bytes, *got);
  RETURN_IF_ERROR(source->CheckVersion());
  if (*got != range.size()) return {Code::kIo, "'" + file_->path() + "' ends before its size"};
  if (core_.abandoned()) return Cancelled();
  core_.DeliverOwn(waiter, std::move(own));
  return Status::Ok();
}

std::optional<Waiter> PartFetch::TakeWaiter() {
  MutexLock lock(core_.mu);
  if (fetch_->waiters.empty()) return std::nullopt;
  Waiter waiter = std::move(fetch_->waiters.back());
  fetch_->waiters.pop_back();
  return waiter;
}

/// Each reader gets what he asked for, as long as there are any. One whose bytes cannot be had waits on.
Status PartFetch::ServeExactly() {
  while (const std::optional<Waiter> waiter = TakeWaiter()) {
    if (core_.stopping()) return Cancelled();
    const Status served = ServeWaiter(*waiter);
    if (core_.abandoned()) return Cancelled();
    if (served.ok()) {
      core_.CountExact(waiter->request->slices[waiter->slice].range.size());
      continue;
    }
    core_.Count(&Metrics::ufs_errors);
    MutexLock lock(core_.mu);
    if (!waiter->request->finished) fetch_->waiters.push_back(*waiter);
    return served;
  }
  return Status::Ok();
}

/// The part cannot be had as a whole. A reader's own bytes may still be readable (one bad block, say): each
/// gets what he asked for, or the error that reading just that gives.
void PartFetch::ServeOneByOne() {
  while (const std::optional<Waiter> waiter = TakeWaiter()) {
    const Status served = ServeWaiter(*waiter);
    if (core_.abandoned()) return;
    if (!served.ok()) core_.FailReader(*waiter, served);
  }
}

bool PartFetch::Run() {
  for (int attempt = 1;;) {
    {
      MutexLock lock(core_.mu);
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

}  // namespace stoker::fetch
