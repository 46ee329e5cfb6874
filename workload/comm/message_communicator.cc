#include "workload/comm/message_communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <map>
#include <type_traits>
#include <utility>

#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

constexpr size_t kPieceBytes = kMiB;     // of one message; a bound for what one message holds up
constexpr uint64_t kProcessesNamed = 8;  // in one message
constexpr int kPings = 8;                // per process; the fastest counts
constexpr Nanos kSpin = std::chrono::microseconds(50);
constexpr Nanos kLongestSleep = std::chrono::microseconds(250);

enum class Kind : uint8_t {
  kData,     // a piece of what Gather or Broadcast carry
  kStop,     // Stop() was called: a code, then the reason
  kWaiting,  // the sender has been waiting at this barrier for long
  kPing,     // asks for the clocks
  kPong,
};

/// What every message begins with. Same program on every side (the versions are compared before a run), and
/// the same byte order: hosts of one MPI job.
struct Head {
  Kind kind = Kind::kData;
  Code code = Code::kOk;  // kStop
  uint16_t unused = 0;
  uint32_t piece = 0;   // kData: number of this piece ...
  uint32_t pieces = 1;  // ... of so many
  uint32_t unused2 = 0;
  uint64_t number = 0;  // kData: of the operation; kWaiting: of the barrier; kPing, kPong: of the question
};
static_assert(std::is_trivially_copyable_v<Head> && sizeof(Head) == 24);

struct ClockReading {
  double steady_s = 0;
  double wall_s = 0;
};

std::string Packed(const Head& head, std::string_view body = {}) {
  std::string out(sizeof head, '\0');
  std::memcpy(out.data(), &head, sizeof head);
  out.append(body);
  return out;
}

ClockReading ReadClocks() {
  return {std::chrono::duration<double>(SteadyNow()).count(),
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

Status Stopped() {
  return Status(Code::kCancelled, "the run was stopped");
}

/// The time between two looks, `waited` after the last thing that came.
void Pause(Nanos waited) {
  if (waited < kSpin) {
    ::sched_yield();
    return;
  }
  const timespec time = ToTimespec(std::min(waited / 8, kLongestSleep));
  static_cast<void>(::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr));  // EINTR only makes it shorter
}

/// A wait with an end.
struct Wait {
  explicit Wait(Nanos time) : timeout(time) {}
  Nanos waited() const { return SteadyNow() - start; }

  const Nanos timeout;
  const Nanos start = SteadyNow();
  Nanos last_news = start;
};

class MessageCommunicator final : public Communicator {
 public:
  explicit MessageCommunicator(std::unique_ptr<Transport> transport)
      : rank_(transport->rank()),
        size_(transport->size()),
        library_(transport->Library()),
        transport_(std::move(transport)),
        waiting_(size_, 0) {
    for (uint64_t process = 0; process < size_; ++process) {
      names_.push_back("process " + std::to_string(process));
    }
  }

  uint64_t rank() const override { return rank_; }
  uint64_t size() const override { return size_; }
  std::string Library() const override { return library_; }
  void SetNames(std::vector<std::string> names) override {
    MutexLock lock(mu_);
    if (names.size() == size_) names_ = std::move(names);
  }
  std::string NameOf(uint64_t process) const override {
    MutexLock lock(mu_);
    return names_[process];
  }

  Status Barrier(Nanos timeout) override {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(Pump().status());
    if (!stop_.ok()) return Stopped();
    RETURN_IF_ERROR(Come());
    Wait wait(timeout);
    bool told = false;
    while (true) {
      RETURN_IF_ERROR(LookAtBarrier());
      if (!under_way_) return Status::Ok();
      RETURN_IF_ERROR(Pump().status());
      if (!stop_.ok()) return Stopped();
      const Nanos waited = wait.waited();
      const bool others_wait = std::find(waiting_.begin(), waiting_.end(), barriers_) != waiting_.end();
      if (!told && (waited >= timeout / 2 || others_wait)) {
        RETURN_IF_ERROR(SendToAll({Kind::kWaiting, Code::kOk, 0, 0, 1, 0, barriers_}, ""));
        told = true;
      }
      if (waited >= timeout) {
        const Status late(Code::kDeadlineExceeded,
                          "step barrier: " + Missing() + " did not come within " + FormatDuration(timeout));
        stop_ = late;
        return late;
      }
      LetGo(waited);
    }
  }

  void Stop(const Status& why) override {
    MutexLock lock(mu_);
    if (told_stop_) return;
    told_stop_ = true;
    // Whoever was told by another need not tell the rest again.
    if (!news_.ok()) return;
    if (stop_.ok()) stop_ = why.ok() ? Status(Code::kCancelled, "stopped") : why;
    // The library fails on every later call as well, which will report it.
    IgnoreStatus(SendToAll({Kind::kStop, stop_.code(), 0, 0, 1, 0, 0}, stop_.message()));
  }

  Status News() override {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(Pump().status());
    return news_;
  }

  Result<std::vector<std::optional<std::string>>> Gather(std::string bytes, Nanos timeout) override {
    MutexLock lock(mu_);
    ++operation_;
    std::vector<std::optional<std::string>> out;
    if (rank_ != 0) {
      RETURN_IF_ERROR(SendData(0, bytes));
      RETURN_IF_ERROR(WaitSent(timeout, "process 0 does not take what it asked for"));
      return out;
    }
    out.resize(size_);
    out[0] = std::move(bytes);
    Wait wait(timeout);
    for (uint64_t from = 1; from < size_; ++from) {
      while (!(out[from] = Take(from))) {
        const Status status = WaitOn(wait, "");
        if (status.code() == Code::kDeadlineExceeded) break;  // the next ones' may be here already
        RETURN_IF_ERROR(status);
      }
    }
    return out;
  }

  Result<std::string> Broadcast(std::string bytes, Nanos timeout) override {
    MutexLock lock(mu_);
    ++operation_;
    if (rank_ == 0) {
      for (uint64_t to = 1; to < size_; ++to) RETURN_IF_ERROR(SendData(to, bytes));
      RETURN_IF_ERROR(WaitSent(timeout, "some processes do not take what they wait for"));
      return bytes;
    }
    Wait wait(timeout);
    while (true) {
      if (std::optional<std::string> got = Take(0)) return std::move(*got);
      RETURN_IF_ERROR(WaitOn(wait, names_[0] + " is silent"));
    }
  }

  Result<std::vector<Clocks>> MeasureClocks(Nanos timeout) override {
    std::vector<Clocks> out;
    if (rank_ == 0) {
      const Nanos deadline = SteadyNow() + timeout;
      out.resize(size_);
      for (uint64_t process = 1; process < size_; ++process) {
        Nanos fastest = Nanos::max();
        for (int i = 0; i < kPings; ++i) RETURN_IF_ERROR(Ask(process, deadline, fastest, out[process]));
      }
    }
    // The others wait here, answering.
    RETURN_IF_ERROR(Broadcast("", timeout).status());
    return out;
  }

  Result<std::unique_ptr<Communicator>> Split(uint64_t number) override {
    MutexLock lock(mu_);
    ASSIGN_OR_RETURN(std::unique_ptr<Transport> part, transport_->Split(number));
    return MakeMessageCommunicator(std::move(part));
  }

  Status Finish(Nanos timeout) override {
    // Barriers cannot be taken back. After a stop some processes have begun one more than others: all go up
    // to the furthest.
    uint64_t furthest = 0;
    {
      MutexLock lock(mu_);
      furthest = barriers_;
    }
    ASSIGN_OR_RETURN(const auto counts, Gather(std::to_string(furthest), timeout));
    for (uint64_t process = 0; process < counts.size(); ++process) {
      if (!counts[process]) {
        return Status(Code::kDeadlineExceeded,
                      NameOf(process) + " did not come to the end within " + FormatDuration(timeout));
      }
      furthest = std::max<uint64_t>(furthest, std::stoull(*counts[process]));
    }
    ASSIGN_OR_RETURN(const std::string last, Broadcast(std::to_string(furthest), timeout));
    furthest = std::stoull(last);
    MutexLock lock(mu_);
    const std::string late = "some processes did not come to the end";
    RETURN_IF_ERROR(WaitSent(timeout, late));
    // One more, so that nobody leaves while others still need its answers.
    Wait wait(timeout);
    while (under_way_ || barriers_ <= furthest) {
      if (!under_way_) RETURN_IF_ERROR(Come());
      RETURN_IF_ERROR(LookAtBarrier());
      if (under_way_) RETURN_IF_ERROR(WaitOn(wait, late));
    }
    RETURN_IF_ERROR(Pump().status());
    return transport_->Close();
  }

  [[noreturn]] void Abort(int exit_status) override {
    // Without the lock: another thread may hold it for ever, inside the library.
    transport_->Abort(exit_status);
    ::_exit(exit_status);
  }

 private:
  /// Bytes of one operation from one process, as they come.
  struct Parcel {
    std::string bytes;
    uint32_t pieces = 0;
    bool complete = false;
  };

  /// Lets others have the lock for a while.
  void LetGo(Nanos waited) REQUIRES(mu_) {
    mu_.Unlock();
    Pause(waited);
    mu_.Lock();
  }

  /// Takes in what has come, then a pause. kDeadlineExceeded, "`late` within TIME", at the wait's end.
  Status WaitOn(Wait& wait, const std::string& late) REQUIRES(mu_) {
    ASSIGN_OR_RETURN(const bool moved, Pump());
    const Nanos now = SteadyNow();
    if (moved) {
      wait.last_news = now;
      return Status::Ok();  // look at once
    }
    if (now - wait.start >= wait.timeout) {
      return Status(Code::kDeadlineExceeded, late + " within " + FormatDuration(wait.timeout));
    }
    LetGo(now - wait.last_news);
    return Status::Ok();
  }

  Status WaitSent(Nanos timeout, const std::string& late) REQUIRES(mu_) {
    Wait wait(timeout);
    while (true) {
      ASSIGN_OR_RETURN(const size_t left, transport_->Unsent());
      if (left == 0) return Status::Ok();
      RETURN_IF_ERROR(WaitOn(wait, late));
    }
  }

  Status Come() REQUIRES(mu_) {
    RETURN_IF_ERROR(transport_->StartBarrier());
    ++barriers_;
    under_way_ = true;
    return Status::Ok();
  }

  Status LookAtBarrier() REQUIRES(mu_) {
    if (!under_way_) return Status::Ok();
    ASSIGN_OR_RETURN(const bool done, transport_->BarrierDone());
    under_way_ = !done;
    return Status::Ok();
  }

  Status SendToAll(const Head& head, const std::string& body) REQUIRES(mu_) {
    for (uint64_t to = 0; to < size_; ++to) {
      if (to != rank_) RETURN_IF_ERROR(transport_->Send(to, Packed(head, body)));
    }
    return Status::Ok();
  }

  Status SendData(uint64_t to, const std::string& bytes) REQUIRES(mu_) {
    Head head;
    head.number = operation_;
    head.pieces = static_cast<uint32_t>(std::max<size_t>(1, CeilDiv(bytes.size(), kPieceBytes)));
    for (; head.piece < head.pieces; ++head.piece) {
      const std::string_view piece = std::string_view(bytes).substr(head.piece * kPieceBytes, kPieceBytes);
      RETURN_IF_ERROR(transport_->Send(to, Packed(head, piece)));
    }
    return Status::Ok();
  }

  /// What `from` sent for the current operation, once it is whole.
  std::optional<std::string> Take(uint64_t from) REQUIRES(mu_) {
    const auto found = parcels_.find({from, operation_});
    if (found == parcels_.end() || !found->second.complete) return std::nullopt;
    std::string bytes = std::move(found->second.bytes);
    parcels_.erase(found);
    return bytes;
  }

  /// Takes in what has come; true when something had.
  Result<bool> Pump() REQUIRES(mu_) {
    bool moved = false;
    while (true) {
      ASSIGN_OR_RETURN(std::optional<Transport::Message> message, transport_->Receive());
      if (!message) break;
      moved = true;
      RETURN_IF_ERROR(Read(*message));
    }
    RETURN_IF_ERROR(transport_->Unsent().status());
    return moved;
  }

  Status Read(Transport::Message& message) REQUIRES(mu_) {
    Head head;
    if (message.bytes.size() < sizeof head || message.from >= size_) {
      return Status(Code::kUnavailable, "a message that is none of ours came from " +
                                            std::to_string(message.from) + ": another program speaks here");
    }
    std::memcpy(&head, message.bytes.data(), sizeof head);
    const std::string_view body = std::string_view(message.bytes).substr(sizeof head);
    switch (head.kind) {
      case Kind::kData: {
        Parcel& parcel = parcels_[{message.from, head.number}];
        parcel.bytes.append(body);
        parcel.complete = ++parcel.pieces == head.pieces;
        return Status::Ok();
      }
      case Kind::kStop: {
        if (!news_.ok()) return Status::Ok();
        news_ = Status(head.code == Code::kOk ? Code::kCancelled : head.code,
                       names_[message.from] + ": " + std::string(body));
        if (stop_.ok()) stop_ = news_;
        return Status::Ok();
      }
      case Kind::kWaiting:
        waiting_[message.from] = std::max(waiting_[message.from], head.number);
        return Status::Ok();
      case Kind::kPing: {
        const ClockReading now = ReadClocks();
        head.kind = Kind::kPong;
        return transport_->Send(message.from,
                                Packed(head, {reinterpret_cast<const char*>(&now), sizeof now}));
      }
      case Kind::kPong:
        if (body.size() == sizeof pong_) std::memcpy(&pong_, body.data(), sizeof pong_);
        pong_number_ = head.number;
        return Status::Ok();
    }
    return Status(Code::kUnavailable, "a message of an unknown kind: another version speaks here");
  }

  /// One question; `into` becomes its answer if it is the fastest so far.
  Status Ask(uint64_t process, Nanos deadline, Nanos& fastest, Clocks& into) {
    MutexLock lock(mu_);
    Head head;
    head.kind = Kind::kPing;
    head.number = ++ping_number_;
    const ClockReading before = ReadClocks();
    RETURN_IF_ERROR(transport_->Send(process, Packed(head)));
    Wait wait(deadline - SteadyNow());
    while (pong_number_ != ping_number_) RETURN_IF_ERROR(WaitOn(wait, names_[process] + " does not answer"));
    const ClockReading after = ReadClocks();
    const Nanos trip(static_cast<int64_t>((after.steady_s - before.steady_s) * 1e9));
    if (trip >= fastest) return Status::Ok();
    fastest = trip;
    into.steady_s = pong_.steady_s - (before.steady_s + after.steady_s) / 2;
    into.wall_s = pong_.wall_s - (before.wall_s + after.wall_s) / 2;
    return Status::Ok();
  }

  std::string Missing() const REQUIRES(mu_) {
    std::string out;
    uint64_t missing = 0;
    for (uint64_t process = 0; process < size_; ++process) {
      if (process == rank_ || waiting_[process] >= barriers_) continue;
      if (++missing <= kProcessesNamed) out += (out.empty() ? "" : ", ") + names_[process];
    }
    if (missing > kProcessesNamed) out += " and " + std::to_string(missing - kProcessesNamed) + " more";
    return missing == 0 ? "the network (all processes came, their messages did not)" : out;
  }

  const uint64_t rank_;
  const uint64_t size_;
  const std::string library_;
  const std::unique_ptr<Transport> transport_;  // calls hold mu_; Abort does not

  mutable Mutex mu_;
  std::vector<std::string> names_ GUARDED_BY(mu_);  // [size]
  Status stop_ GUARDED_BY(mu_);                     // why barriers no longer work
  Status news_ GUARDED_BY(mu_);                     // what another process gave as reason
  bool told_stop_ GUARDED_BY(mu_) = false;
  uint64_t barriers_ GUARDED_BY(mu_) = 0;          // come to
  bool under_way_ GUARDED_BY(mu_) = false;         // the last one is not done
  std::vector<uint64_t> waiting_ GUARDED_BY(mu_);  // [size]: barrier at which a process said that it waits
  uint64_t operation_ GUARDED_BY(mu_) = 0;         // Gather and Broadcast; counts alike everywhere
  std::map<std::pair<uint64_t, uint64_t>, Parcel> parcels_ GUARDED_BY(mu_);  // by process and operation
  uint64_t ping_number_ GUARDED_BY(mu_) = 0;
  uint64_t pong_number_ GUARDED_BY(mu_) = 0;
  ClockReading pong_ GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<Communicator> MakeMessageCommunicator(std::unique_ptr<Transport> transport) {
  return std::make_unique<MessageCommunicator>(std::move(transport));
}

}  // namespace stoker::bench
