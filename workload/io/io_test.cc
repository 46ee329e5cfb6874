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
#include "workload/io/task_record.h"

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

PhaseResult SumUp(const std::vector<TaskRecord>& tasks, uint64_t transfer_bytes) {
  PhaseResult result;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  TaskRecord first;
  TaskRecord last;
  first.open_begin = first.transfer_begin = first.close_begin = kNever;
  last.open_end = last.transfer_end = last.close_end = -kNever;
  result.latency_s = kNever;
  for (const TaskRecord& task : tasks) {
    first.open_begin = std::min(first.open_begin, task.open_begin);
    first.transfer_begin = std::min(first.transfer_begin, task.transfer_begin);
    first.close_begin = std::min(first.close_begin, task.close_begin);
    last.open_end = std::max(last.open_end, task.open_end);
    last.transfer_end = std::max(last.transfer_end, task.transfer_end);
    last.close_end = std::max(last.close_end, task.close_end);
    last.stonewall_end = std::max(last.stonewall_end, task.stonewall_end);
    result.transfers += task.done;
    result.wrong_words += task.wrong;
    result.stonewall_bytes += task.stonewall_done * transfer_bytes;
    if (task.done > 0) {
      result.latency_s = std::min(result.latency_s,
                                  (task.transfer_end - task.transfer_begin) / static_cast<double>(task.done));
    }
    result.task_s.push_back(task.close_end - task.open_begin);
  }
  if (result.transfers == 0) result.latency_s = 0;
  result.bytes = result.transfers * transfer_bytes;
  if (tasks.empty()) return result;
  result.open_s = last.open_end - first.open_begin;
  result.transfer_s = last.transfer_end - first.transfer_begin;
  result.close_s = last.close_end - first.close_begin;
  result.total_s = last.close_end - first.open_begin;
  if (last.stonewall_end > 0) result.stonewall_s = last.stonewall_end - first.transfer_begin;
  return result;
}

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
  uint64_t index = 0;  // among all processes'
  TransferBuffer buffer;
  TaskRecord record;
};

struct IoTest::Phase {
  Access access;
  uint64_t repetition;
  uint64_t signature;
  uint64_t shuffle_seed;
  bool compare;
  std::atomic<bool> failed{false};  // somebody's storage said no: all others stop as well
};

IoTest::IoTest(const IoOptions& options, Team& team)
    : options_(options), team_(team), layout_(options.layout()), pattern_(std::make_unique<Pattern>()) {}
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
  TaskRecord& record = task.record;
  record = {};
  const auto now = [this] { return team_.Seconds(SteadyNow()); };

  meeting.Meet();
  record.open_begin = now();
  Fd fd(::open(file.c_str(),
               (writing ? O_WRONLY | O_CREAT : O_RDONLY) | O_CLOEXEC | (options_.direct ? O_DIRECT : 0),
               0664));
  if (!fd.valid()) {
    const int error = errno;
    record.failure =
        error == EINVAL && options_.direct
            ? Status(Code::kUnsupported,
                     file + ": this file system has no direct transfers; leave out --odirect", error)
            : Status::FromErrno(error, "opening " + file);
    phase.failed.store(true, std::memory_order_relaxed);
  }
  record.open_end = now();
  if (options_.barriers) meeting.Meet();

  const Nanos begin = SteadyNow();
  record.transfer_begin = team_.Seconds(begin);
  const Nanos deadline = options_.stonewall_s > 0 && phase.access != Access::kCheck
                             ? begin + std::chrono::seconds(options_.stonewall_s)
                             : Nanos::max();
  const auto stop = [&] { return phase.failed.load(std::memory_order_relaxed) || cancel.cancelled(); };
  const auto move_until = [&](uint64_t end, Nanos until) {
    for (; record.done < end && !stop(); ++record.done) {
      const uint64_t offset = offsets.At(record.done);
      std::byte* const data = writing ? Pattern::Prepare(task.buffer, phase.signature, file_id, offset, bytes)
                              : phase.compare ? Pattern::PrepareRead(task.buffer, offset, bytes)
                                              : task.buffer.data() + offset % Pattern::kPeriodBytes;
      Status moved = Transfer(fd.get(), phase.access, data, bytes, offset, file);
      if (moved.ok() && options_.fsync_per_write && writing && ::fsync(fd.get()) != 0) {
        moved = Status::FromErrno(errno, "fsync of " + file);
      }
      if (!moved.ok()) {
        record.failure = moved;
        phase.failed.store(true, std::memory_order_relaxed);
        return;
      }
      if (phase.compare) {
        const Mismatch wrong = pattern_->Check(data, phase.signature, file_id, offset, bytes);
        if (wrong.words > 0 && record.wrong == 0) {
          char words[64];
          std::snprintf(words, sizeof words, "expected %016llx, found %016llx",
                        static_cast<unsigned long long>(wrong.expected),
                        static_cast<unsigned long long>(wrong.found));
          record.first_wrong = file + " at offset " + std::to_string(wrong.first_offset) + ": " + words;
        }
        record.wrong += wrong.words;
      }
      if (until != Nanos::max() && SteadyNow() > until) {
        ++record.done;
        return;
      }
    }
  };
  move_until(limit, deadline);
  if (options_.wear_out && phase.access != Access::kCheck) {
    record.stonewall_end = now();
    record.stonewall_done = record.done;
    // All end with the same number of transfers: that of whoever was fastest.
    const uint64_t most = meeting.Meet(record.done);
    move_until(std::min(limit, most), Nanos::max());
  }
  if (options_.fsync && writing && record.failure.ok() && fd.valid() && ::fsync(fd.get()) != 0) {
    record.failure = Status::FromErrno(errno, "fsync of " + file);
    phase.failed.store(true, std::memory_order_relaxed);
  }
  record.transfer_end = now();
  if (options_.barriers) meeting.Meet();

  record.close_begin = now();
  // Some file systems report a failed write only here.
  if (fd.valid() && ::close(fd.Release()) != 0 && record.failure.ok()) {
    record.failure = Status::FromErrno(errno, "closing " + file);
    phase.failed.store(true, std::memory_order_relaxed);
  }
  record.close_end = now();
}

Status IoTest::RunPhase(Phase& phase, const CancelToken& cancel, IoOutcome& outcome,
                        const IoListener& listener) {
  if (options_.delay_s > 0) SleepUntil(SteadyNow() + std::chrono::seconds(options_.delay_s), cancel);
  RETURN_IF_ERROR(team_.Agree(cancel.cancelled() ? Status(Code::kCancelled, "interrupted") : Status::Ok()));
  if (listener.begins) listener.begins(phase.access, phase.repetition);
  const double cpu = CpuSeconds();
  RETURN_IF_ERROR(team_.Run(
      [&](uint64_t index, Rendezvous& meeting) {
        Task& task = tasks_[index - team_.first()];
        RunTask(phase, task, meeting, cancel);
        // Those of other processes should not go on for hours.
        if (!task.record.failure.ok()) team_.Stop(task.record.failure);
        if (cancel.cancelled()) team_.Stop(Status(Code::kCancelled, "interrupted"));
      },
      [&phase] { phase.failed.store(true, std::memory_order_relaxed); }));
  ProcessRecord mine{.tasks = {}, .cpu_s = CpuSeconds() - cpu, .interrupted = cancel.cancelled()};
  for (const Task& task : tasks_) mine.tasks.push_back(task.record);
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, team_.Share(PackRecord(mine)));
  ASSIGN_OR_RETURN(const ProcessRecord all, JoinRecords(texts));
  for (const TaskRecord& task : all.tasks) RETURN_IF_ERROR(task.failure);

  PhaseResult result = SumUp(all.tasks, options_.transfer_bytes);
  result.access = phase.access;
  result.repetition = phase.repetition;
  result.expected_bytes = layout_.total_bytes();
  result.cpu_s = all.cpu_s;
  for (size_t i = 0; i < all.tasks.size(); ++i) {
    if (outcome.first_wrong.empty()) outcome.first_wrong = all.tasks[i].first_wrong;
    if (phase.access == Access::kWrite) written_[i] = all.tasks[i].done;
  }
  outcome.wrong_words += result.wrong_words;
  outcome.phases.push_back(std::move(result));
  if (listener.ended) listener.ended(outcome.phases.back());
  return all.interrupted ? Status(Code::kCancelled, "interrupted") : Status::Ok();
}

Status IoTest::AllocateBuffers() {
  for (uint64_t i = 0; i < team_.tasks_here(); ++i) {
    tasks_.emplace_back();
    tasks_.back().index = team_.first() + i;
    ASSIGN_OR_RETURN(
        tasks_.back().buffer,
        TransferBuffer::Allocate(Pattern::BufferBytes(options_.transfer_bytes), options_.huge_pages));
    pattern_->Fill(tasks_.back().buffer);  // so that no page of it is first touched while the clock runs
  }
  return Status::Ok();
}

IoOutcome IoTest::Run(const CancelToken& cancel, const IoListener& listener) {
  IoOutcome outcome;
  outcome.failure = team_.Agree(AllocateBuffers());
  if (!outcome.failure.ok()) return outcome;
  const Nanos begin = SteadyNow();
  Random entropy(static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
  for (uint64_t repetition = 0; repetition < options_.repetitions; ++repetition) {
    const bool late =
        options_.max_minutes > 0 && SteadyNow() - begin >= std::chrono::minutes(options_.max_minutes);
    // The leader decides; 0: it is too late for another repetition.
    const Result<uint64_t> told = team_.FromLeader(late                      ? 0
                                                   : options_.signature != 0 ? options_.signature
                                                                             : entropy.Next() | 1);
    if (!told.ok()) {
      outcome.failure = told.status();
      break;
    }
    if (*told == 0) {
      outcome.out_of_time = true;
      break;
    }
    const uint64_t signature = *told;
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
      outcome.failure = team_.Agree(team_.leads() ? MakeRoom() : Status::Ok());
      wrote_ = true;
      if (outcome.failure.ok()) outcome.failure = phase(Access::kWrite, write_order, false);
    }
    if (outcome.failure.ok() && options_.check_write)
      outcome.failure = phase(Access::kCheck, write_order, true);
    if (outcome.failure.ok() && options_.reads()) {
      if (options_.cold_read) outcome.failure = team_.Agree(GiveBackPages());
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
      if (team_.leads() && (outcome.failure.ok() || wrote_)) outcome.not_removed = Remove();
      if (outcome.failure.ok()) {
        outcome.remove_s.push_back(std::chrono::duration<double>(SteadyNow() - from).count());
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
