#include "workload/io/io_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <limits>

#include "cache/base/fd.h"
#include "cache/base/random.h"
#include "workload/base/steady.h"
#include "workload/io/crew.h"
#include "workload/io/lustre.h"
#include "workload/io/pattern.h"

namespace stoker::bench {
namespace {

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double Seconds(Nanos from, Nanos to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Moves all of a transfer, however many calls it takes.
Status Transfer(int fd, Access access, std::byte* data, uint64_t bytes, uint64_t offset,
                const std::string& file) {
  while (bytes > 0) {
    const ssize_t moved = access == Access::kWrite ? ::pwrite(fd, data, bytes, static_cast<off_t>(offset))
                                                   : ::pread(fd, data, bytes, static_cast<off_t>(offset));
    if (moved < 0) {
      if (errno == EINTR) continue;
      return Status::FromErrno(errno, (access == Access::kWrite ? "writing " : "reading ") + file + " at " +
                                          std::to_string(offset));
    }
    if (moved == 0) {
      return Status(Code::kIo, file + " ends at " + std::to_string(offset) + ", but " +
                                   std::to_string(bytes) + " more bytes were to be " +
                                   (access == Access::kWrite ? "written" : "read"));
    }
    data += moved;
    offset += static_cast<uint64_t>(moved);
    bytes -= static_cast<uint64_t>(moved);
  }
  return Status::Ok();
}

}  // namespace

const char* AccessName(Access access) {
  switch (access) {
    case Access::kWrite:
      return "write";
    case Access::kRead:
      return "read";
    default:
      return "check";
  }
}

/// One task's things: a buffer for the whole test, stamps and counts of the phase.
struct IoTest::Task {
  uint64_t index = 0;
  TransferBuffer buffer;
  Nanos open_begin{0}, open_end{0}, transfer_begin{0}, transfer_end{0}, close_begin{0}, close_end{0};
  uint64_t transfers = 0;
  Nanos stonewall_end{0};
  uint64_t stonewall_transfers = 0;
  uint64_t wrong_words = 0;
  std::string first_wrong;
  Status failure;
};

struct IoTest::Phase {
  Access access;
  uint64_t repetition;
  uint64_t signature;
  uint64_t shuffle_seed;
  bool compare;
  std::atomic<bool> failed{false};  // somebody's storage said no: all others stop as well
};

IoTest::IoTest(const IoOptions& options)
    : options_(options), layout_(options.layout()), pattern_(std::make_unique<Pattern>()) {}
IoTest::~IoTest() = default;

void IoTest::RunTask(Phase& phase, Task& task, Rendezvous& meeting, const CancelToken& cancel) {
  const bool writing = phase.access == Access::kWrite;
  const uint64_t owner = writing                          ? task.index
                         : phase.access == Access::kCheck ? ChecksFrom(options_, task.index)
                                                          : ReadsFrom(options_, task.index, phase.repetition);
  const uint64_t file_id = options_.file_per_process ? owner : 0;
  const std::string file = TaskFile(options_, owner);
  const OffsetSequence offsets(layout_, owner, phase.shuffle_seed);
  const uint64_t bytes = options_.transfer_bytes;
  const uint64_t limit = writing ? offsets.count() : written_[owner];
  if (writing) pattern_->Fill(task.buffer);
  task.transfers = task.wrong_words = task.stonewall_transfers = 0;
  task.first_wrong.clear();
  task.failure = Status::Ok();

  meeting.Meet();
  task.open_begin = SteadyNow();
  Fd fd(::open(file.c_str(),
               (writing ? O_WRONLY | O_CREAT : O_RDONLY) | O_CLOEXEC | (options_.direct ? O_DIRECT : 0),
               0664));
  if (!fd.valid()) {
    const int error = errno;
    task.failure =
        error == EINVAL && options_.direct
            ? Status(Code::kUnsupported,
                     file + ": this file system has no direct transfers; leave out --odirect", error)
            : Status::FromErrno(error, "opening " + file);
    phase.failed.store(true, std::memory_order_relaxed);
  }
  task.open_end = SteadyNow();
  if (options_.barriers) meeting.Meet();

  task.transfer_begin = SteadyNow();
  const Nanos deadline = options_.stonewall_s > 0 && phase.access != Access::kCheck
                             ? task.transfer_begin + std::chrono::seconds(options_.stonewall_s)
                             : Nanos::max();
  const auto stop = [&] { return phase.failed.load(std::memory_order_relaxed) || cancel.cancelled(); };
  const auto move_until = [&](uint64_t end, Nanos until) {
    for (; task.transfers < end && !stop(); ++task.transfers) {
      const uint64_t offset = offsets.At(task.transfers);
      std::byte* const data = writing ? Pattern::Prepare(task.buffer, phase.signature, file_id, offset, bytes)
                              : phase.compare ? Pattern::PrepareRead(task.buffer, offset, bytes)
                                              : task.buffer.data() + offset % Pattern::kPeriodBytes;
      Status moved = Transfer(fd.get(), phase.access, data, bytes, offset, file);
      if (moved.ok() && options_.fsync_per_write && writing && ::fsync(fd.get()) != 0) {
        moved = Status::FromErrno(errno, "fsync of " + file);
      }
      if (!moved.ok()) {
        task.failure = moved;
        phase.failed.store(true, std::memory_order_relaxed);
        return;
      }
      if (phase.compare) {
        const Mismatch wrong = pattern_->Check(data, phase.signature, file_id, offset, bytes);
        if (wrong.words > 0 && task.wrong_words == 0) {
          char words[64];
          std::snprintf(words, sizeof words, "expected %016llx, found %016llx",
                        static_cast<unsigned long long>(wrong.expected),
                        static_cast<unsigned long long>(wrong.found));
          task.first_wrong = file + " at offset " + std::to_string(wrong.first_offset) + ": " + words;
        }
        task.wrong_words += wrong.words;
      }
      if (until != Nanos::max() && SteadyNow() > until) {
        ++task.transfers;
        return;
      }
    }
  };
  move_until(limit, deadline);
  if (options_.wear_out && phase.access != Access::kCheck) {
    task.stonewall_end = SteadyNow();
    task.stonewall_transfers = task.transfers;
    // All end with the same number of transfers: that of whoever was fastest.
    const uint64_t most = meeting.Meet(task.transfers);
    move_until(std::min(limit, most), Nanos::max());
  }
  if (options_.fsync && writing && task.failure.ok() && fd.valid() && ::fsync(fd.get()) != 0) {
    task.failure = Status::FromErrno(errno, "fsync of " + file);
    phase.failed.store(true, std::memory_order_relaxed);
  }
  task.transfer_end = SteadyNow();
  if (options_.barriers) meeting.Meet();

  task.close_begin = SteadyNow();
  // Some file systems report a failed write only here.
  if (fd.valid() && ::close(fd.Release()) != 0 && task.failure.ok()) {
    task.failure = Status::FromErrno(errno, "closing " + file);
    phase.failed.store(true, std::memory_order_relaxed);
  }
  task.close_end = SteadyNow();
}

Status IoTest::RunPhase(Phase& phase, const CancelToken& cancel, IoOutcome& outcome,
                        const IoListener& listener) {
  if (options_.delay_s > 0) SleepUntil(SteadyNow() + std::chrono::seconds(options_.delay_s), cancel);
  if (cancel.cancelled()) return Status(Code::kCancelled, "interrupted");
  if (listener.begins) listener.begins(phase.access, phase.repetition);
  const double cpu = CpuSeconds();
  RETURN_IF_ERROR(RunCrew(options_.tasks, [&](uint64_t index, Rendezvous& meeting) {
    RunTask(phase, tasks_[index], meeting, cancel);
  }));

  PhaseResult result;
  result.access = phase.access;
  result.repetition = phase.repetition;
  result.cpu_s = CpuSeconds() - cpu;
  result.latency_s = std::numeric_limits<double>::infinity();
  Task first = {};
  Task last = {};
  first.open_begin = first.transfer_begin = first.close_begin = Nanos::max();
  Nanos stonewall_end{0};
  for (const Task& task : tasks_) {
    if (!task.failure.ok()) return task.failure;
    first.open_begin = std::min(first.open_begin, task.open_begin);
    first.transfer_begin = std::min(first.transfer_begin, task.transfer_begin);
    first.close_begin = std::min(first.close_begin, task.close_begin);
    last.open_end = std::max(last.open_end, task.open_end);
    last.transfer_end = std::max(last.transfer_end, task.transfer_end);
    last.close_end = std::max(last.close_end, task.close_end);
    result.transfers += task.transfers;
    result.wrong_words += task.wrong_words;
    if (outcome.first_wrong.empty()) outcome.first_wrong = task.first_wrong;
    if (task.transfers > 0) {
      result.latency_s = std::min(result.latency_s, Seconds(task.transfer_begin, task.transfer_end) /
                                                        static_cast<double>(task.transfers));
    }
    result.task_s.push_back(Seconds(task.open_begin, task.close_end));
    stonewall_end = std::max(stonewall_end, task.stonewall_end);
    result.stonewall_bytes += task.stonewall_transfers * options_.transfer_bytes;
    if (phase.access == Access::kWrite) written_[task.index] = task.transfers;
  }
  if (result.transfers == 0) result.latency_s = 0;
  result.bytes = result.transfers * options_.transfer_bytes;
  result.expected_bytes = layout_.total_bytes();
  result.open_s = Seconds(first.open_begin, last.open_end);
  result.transfer_s = Seconds(first.transfer_begin, last.transfer_end);
  result.close_s = Seconds(first.close_begin, last.close_end);
  result.total_s = Seconds(first.open_begin, last.close_end);
  if (options_.wear_out && phase.access != Access::kCheck) {
    result.stonewall_s = Seconds(first.transfer_begin, stonewall_end);
  }
  outcome.wrong_words += result.wrong_words;
  outcome.phases.push_back(result);
  if (listener.ended) listener.ended(outcome.phases.back());
  return cancel.cancelled() ? Status(Code::kCancelled, "interrupted") : Status::Ok();
}

IoOutcome IoTest::Run(const CancelToken& cancel, const IoListener& listener) {
  IoOutcome outcome;
  for (uint64_t i = 0; i < options_.tasks; ++i) {
    Result<TransferBuffer> buffer = TransferBuffer::Allocate(Pattern::BufferBytes(options_.transfer_bytes));
    if (!buffer.ok()) {
      outcome.failure = buffer.status();
      return outcome;
    }
    tasks_.emplace_back();
    tasks_.back().index = i;
    tasks_.back().buffer = std::move(*buffer);
    pattern_->Fill(tasks_.back().buffer);  // so that no page of it is first touched while the clock runs
  }
  const Nanos begin = SteadyNow();
  Random entropy(static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
  for (uint64_t repetition = 0; repetition < options_.repetitions; ++repetition) {
    if (options_.max_minutes > 0 && SteadyNow() - begin >= std::chrono::minutes(options_.max_minutes)) {
      outcome.out_of_time = true;
      break;
    }
    const uint64_t signature = options_.signature != 0 ? options_.signature : entropy.Next();
    const uint64_t write_order = Random(signature ^ repetition).Next();
    written_.assign(options_.tasks, layout_.transfers_per_task());
    wrote_ = false;
    const auto phase = [&](Access access, uint64_t order, bool compare) {
      Phase now{.access = access,
                .repetition = repetition,
                .signature = signature,
                .shuffle_seed = order,
                .compare = compare};
      return RunPhase(now, cancel, outcome, listener);
    };
    const uint64_t wrong_before = outcome.wrong_words;
    if (options_.write) {
      outcome.failure = MakeRoom();
      wrote_ = true;
      if (outcome.failure.ok()) outcome.failure = phase(Access::kWrite, write_order, false);
    }
    if (outcome.failure.ok() && options_.check_write)
      outcome.failure = phase(Access::kCheck, write_order, true);
    if (outcome.failure.ok() && options_.reads()) {
      if (options_.cold_read) outcome.failure = GiveBackPages();
      // Another order than the write's, unless only what was written in that order is there to be read.
      const bool cut = std::any_of(written_.begin(), written_.end(),
                                   [&](uint64_t done) { return done < layout_.transfers_per_task(); });
      if (outcome.failure.ok()) {
        outcome.failure = phase(Access::kRead, cut ? write_order : ~write_order, options_.check_read);
      }
    }
    const bool keep =
        options_.keep_files || (options_.keep_files_with_error && outcome.wrong_words > wrong_before);
    if (!keep) {
      const Nanos from = SteadyNow();
      // A test that ended before its time removes what it wrote, not what it found.
      if (outcome.failure.ok() || wrote_) outcome.not_removed = Remove();
      if (outcome.failure.ok()) {
        outcome.remove_s.push_back(Seconds(from, SteadyNow()));
        if (listener.removed) listener.removed(outcome.remove_s.back(), repetition);
      }
    }
    if (!outcome.failure.ok()) break;
  }
  if (outcome.failure.code() == Code::kCancelled) {
    outcome.interrupted = true;
    outcome.failure = Status::Ok();
  }
  return outcome;
}

}  // namespace stoker::bench
