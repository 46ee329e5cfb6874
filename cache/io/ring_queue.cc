#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cache/base/check.h"
#include "cache/io/queues.h"

namespace stoker {
namespace {

/// user_data of the operations that the destructor adds; operations of callers have their slot's number.
constexpr uint64_t kCancelMark = ~uint64_t{0};

/// How long the kernel may go on saying "not now" (EAGAIN, EBUSY) while nothing is under way that could end
/// and make room: 1000 tries, a millisecond apart.
constexpr int kMaxRefusals = 1000;
constexpr auto kRefusalPause = std::chrono::milliseconds(1);

/// One thread makes, submits and reaps, and is told of completions only when it asks: no interrupt of the
/// thread for each of them. Flags of Linux 6.1 (DEFER_TASKRUN) and 6.0 (SINGLE_ISSUER); older kernels answer
/// EINVAL and get a ring without.
constexpr unsigned kFlagSets[] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN,
    IORING_SETUP_COOP_TASKRUN,
    0,
};

int SetUp(unsigned entries, io_uring* ring) {
  int error = -EINVAL;
  for (const unsigned flags : kFlagSets) {
    error = ::io_uring_queue_init(entries, ring, flags);
    if (error != -EINVAL) break;
  }
  return error;
}

class RingQueue final : public IoQueue {
 public:
  explicit RingQueue(unsigned depth) : slots_(depth) {
    free_slots_.reserve(depth);
    for (unsigned slot = depth; slot > 0; --slot) free_slots_.push_back(slot - 1);
    staged_.reserve(depth);
  }

  /// 0, or -errno with which the kernel refused the ring; to be called once, before anything else.
  int Open() {
    // One entry more than callers may use: the destructor's cancellation always finds room.
    const int error = SetUp(depth() + 1, &ring_);
    open_ = error == 0;
    return error;
  }

  /// What was never submitted is dropped; what is under way is asked to end and waited for, because the
  /// kernel would go on writing into the caller's memory. Reads of a dead device may make this long; it
  /// cannot be cut short safely.
  ~RingQueue() override {
    if (!open_) return;
    for (const unsigned slot : staged_) free_slots_.push_back(slot);
    staged_.clear();
    if (pending() > 0) {
      if (io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_); sqe != nullptr) {
        ::io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY);
        ::io_uring_sqe_set_data64(sqe, kCancelMark);
      }
      std::vector<Completion> ignored;
      ignored.reserve(slots_.size());
      while (pending() > 0 && Wait(ignored).ok()) {
      }
    }
    ::io_uring_queue_exit(&ring_);
  }
  RingQueue(const RingQueue&) = delete;
  RingQueue& operator=(const RingQueue&) = delete;

  unsigned depth() const override { return static_cast<unsigned>(slots_.size()); }
  unsigned pending() const override { return static_cast<unsigned>(slots_.size() - free_slots_.size()); }
  std::string_view kind() const override { return "io_uring"; }

  bool QueueRead(int fd, std::span<std::byte> to, uint64_t offset, uint64_t tag) override {
    return Stage({fd, to.data(), nullptr, to.size(), offset, tag});
  }
  bool QueueWrite(int fd, std::span<const std::byte> from, uint64_t offset, uint64_t tag) override {
    return Stage({fd, nullptr, from.data(), from.size(), offset, tag});
  }

  Status Wait(std::vector<Completion>& done) override {
    FillRing();
    const size_t before = done.size();
    for (int refusals = 0; pending() > 0;) {
      const int submitted = ::io_uring_submit_and_wait(&ring_, 1);
      Reap(done);
      if (done.size() > before) return Status::Ok();
      if (submitted >= 0 || submitted == -EINTR) continue;
      if ((submitted != -EAGAIN && submitted != -EBUSY) || ++refusals > kMaxRefusals) {
        return Status::FromErrno(-submitted, "io_uring: waiting for completions");
      }
      std::this_thread::sleep_for(kRefusalPause);
    }
    return Status::Ok();
  }

 private:
  struct Operation {
    int fd = -1;
    std::byte* to = nullptr;          // null: a write
    const std::byte* from = nullptr;  // null: a read
    size_t size = 0;
    uint64_t offset = 0;
    uint64_t tag = 0;
  };

  /// Kept out of the ring until Wait(), so that the destructor can drop it.
  bool Stage(const Operation& operation) {
    if (free_slots_.empty()) return false;
    const unsigned slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = operation;
    staged_.push_back(slot);
    return true;
  }

  void FillRing() {
    size_t taken = 0;
    for (; taken < staged_.size(); ++taken) {
      io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
      if (sqe == nullptr) break;  // only after a submit that the kernel cut short; the rest goes next time
      const unsigned slot = staged_[taken];
      const Operation& operation = slots_[slot];
      const auto size = static_cast<unsigned>(std::min(operation.size, kMaxOperationBytes));
      if (operation.to != nullptr) {
        ::io_uring_prep_read(sqe, operation.fd, operation.to, size, operation.offset);
      } else {
        ::io_uring_prep_write(sqe, operation.fd, operation.from, size, operation.offset);
      }
      ::io_uring_sqe_set_data64(sqe, slot);
    }
    staged_.erase(staged_.begin(), staged_.begin() + static_cast<ptrdiff_t>(taken));
  }

  void Reap(std::vector<Completion>& done) {
    io_uring_cqe* cqe = nullptr;
    while (::io_uring_peek_cqe(&ring_, &cqe) == 0 && cqe != nullptr) {
      const uint64_t mark = ::io_uring_cqe_get_data64(cqe);
      if (mark != kCancelMark) {
        STOKER_CHECK(mark < slots_.size());
        done.push_back({slots_[mark].tag, cqe->res});
        free_slots_.push_back(static_cast<unsigned>(mark));
      }
      ::io_uring_cqe_seen(&ring_, cqe);
    }
  }

  io_uring ring_ = {};
  bool open_ = false;
  std::vector<Operation> slots_;
  std::vector<unsigned> free_slots_;  // INVARIANT: each slot is here, in staged_, or known to the ring
  std::vector<unsigned> staged_;      // in the order they were queued
};

std::string Refusal(int error) {
  std::string text = "the kernel refuses it: " + std::generic_category().message(-error);
  if (error == -EPERM) text += " (see sysctl kernel.io_uring_disabled, and seccomp filters)";
  return text;
}

}  // namespace

Result<std::unique_ptr<IoQueue>> MakeRingQueue(unsigned depth) {
  auto queue = std::make_unique<RingQueue>(depth);
  if (const int error = queue->Open(); error < 0) {
    return Status(Code::kUnsupported, "io_uring: " + Refusal(error), -error);
  }
  return std::unique_ptr<IoQueue>(std::move(queue));
}

std::string ProbeRing() {
  io_uring ring = {};
  if (const int error = SetUp(2, &ring); error < 0) return Refusal(error);
  std::string reason;
  io_uring_probe* probe = ::io_uring_get_probe_ring(&ring);
  if (probe == nullptr || !::io_uring_opcode_supported(probe, IORING_OP_READ) ||
      !::io_uring_opcode_supported(probe, IORING_OP_WRITE)) {
    reason = "this kernel's rings cannot read and write (Linux 5.6 and later can)";
  }
  if (probe != nullptr) ::io_uring_free_probe(probe);
  ::io_uring_queue_exit(&ring);
  return reason;
}

}  // namespace stoker
