#include "workload/io/mdtest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <limits>

#include "cache/base/fd.h"
#include "workload/base/steady.h"
#include "workload/io/crew.h"
#include "workload/io/offsets.h"
#include "workload/io/task_record.h"

namespace stoker::bench {
namespace {

constexpr mode_t kFileMode = 0664;
constexpr mode_t kDirMode = 0775;

bool OfDirs(MdPhase phase) {
  return phase <= MdPhase::kDirRemove;
}
bool OfTree(MdPhase phase) {
  return phase >= MdPhase::kTreeCreate;
}
bool Creates(MdPhase phase) {
  return phase == MdPhase::kDirCreate || phase == MdPhase::kFileCreate;
}

/// How many strides away the items are that a phase works on.
uint64_t Strides(MdPhase phase) {
  switch (phase) {
    case MdPhase::kDirStat:
    case MdPhase::kFileStat:
      return 1;
    case MdPhase::kFileRead:
      return 2;
    case MdPhase::kDirRemove:
    case MdPhase::kFileRemove:
      return 3;
    default:
      return 0;
  }
}

/// A file's first bytes tell whose it is; the rest is the same in all.
void MarkBuffer(std::vector<std::byte>& buffer, uint64_t owner, uint64_t number) {
  const uint64_t mark = (owner + 1) * 0x9e3779b97f4a7c15ULL + number;
  std::memcpy(buffer.data(), &mark, std::min(buffer.size(), sizeof mark));
}

std::vector<std::byte> PatternBytes(uint64_t bytes) {
  std::vector<std::byte> buffer(bytes);
  for (uint64_t i = 0; i < bytes; ++i) buffer[i] = static_cast<std::byte>(i + 1);
  return buffer;
}

Status Failed(const char* doing, const char* path) {
  const int error = errno;
  return Status::FromErrno(error, std::string(doing) + " " + path);
}

}  // namespace

const char* MdPhaseName(MdPhase phase) {
  static constexpr std::array<const char*, kMdPhases> kNames{
      "Directory creation", "Directory stat", "Directory rename", "Directory removal", "File creation",
      "File stat",          "File read",      "File removal",     "Tree creation",     "Tree removal"};
  return kNames[static_cast<size_t>(phase)];
}

struct Mdtest::Task {
  uint64_t index = 0;  // among all processes'
  std::vector<std::byte> write_buffer;
  std::vector<std::byte> read_buffer;
  TaskRecord record;
};

struct Mdtest::Shared {
  MdPhase phase;
  uint64_t items;  // of each task
  std::vector<std::string> roots;
  ItemPlaces places;
  std::atomic<bool> failed{false};
};

Mdtest::Mdtest(const MdtestOptions& options, Team& team) : options_(options), team_(team) {}

std::vector<std::string> Mdtest::Roots(uint64_t iteration) const {
  std::vector<std::string> roots;
  for (uint64_t loop = 0; loop < options_.shape.loops; ++loop) {
    roots.push_back(options_.folder + "/test-dir." + std::to_string(iteration) + "-" + std::to_string(loop));
  }
  return roots;
}

std::string Mdtest::TreeBase(uint64_t task) const {
  return options_.own_folder ? "mdtest_tree." + std::to_string(task) : "mdtest_tree";
}

Status Mdtest::DoTree(const Shared& shared, Task& task, const CancelToken& cancel) {
  if (!options_.own_folder && task.index != 0) return Status::Ok();
  const std::vector<std::string> dirs = TreePaths(options_.shape, TreeBase(task.index));
  const bool create = shared.phase == MdPhase::kTreeCreate;
  for (const std::string& root : shared.roots) {
    for (size_t i = 0; i < dirs.size(); ++i) {
      if (cancel.cancelled() || shared.failed.load(std::memory_order_relaxed)) return Status::Ok();
      const std::string path = root + "/" + dirs[create ? i : dirs.size() - 1 - i];
      if ((create ? ::mkdir(path.c_str(), kDirMode) : ::rmdir(path.c_str())) != 0) {
        return Failed(create ? "making directory" : "removing directory", path.c_str());
      }
      ++task.record.done;
    }
  }
  return Status::Ok();
}

Status Mdtest::DoItem(const Shared& shared, Task& task, const char* path, uint64_t owner,
                      const ItemPlace& place) {
  struct stat info;
  switch (shared.phase) {
    case MdPhase::kDirCreate:
      return ::mkdir(path, kDirMode) == 0 ? Status::Ok() : Failed("making directory", path);
    case MdPhase::kDirStat:
    case MdPhase::kFileStat:
      return ::stat(path, &info) == 0 ? Status::Ok() : Failed("stat of", path);
    case MdPhase::kDirRemove:
      return ::rmdir(path) == 0 ? Status::Ok() : Failed("removing directory", path);
    case MdPhase::kFileRemove:
      return ::unlink(path) == 0 ? Status::Ok() : Failed("removing", path);
    case MdPhase::kFileCreate: {
      Fd fd(::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, kFileMode));
      if (!fd.valid()) return Failed("making", path);
      if (options_.write_bytes > 0) {
        MarkBuffer(task.write_buffer, owner, place.number);
        const ssize_t wrote = ::write(fd.get(), task.write_buffer.data(), options_.write_bytes);
        if (wrote < 0) return Failed("writing", path);
        if (static_cast<uint64_t>(wrote) != options_.write_bytes) {
          return Status(Code::kNoSpace,
                        std::string(path) + ": only " + std::to_string(wrote) + " bytes were taken");
        }
        if (options_.fsync && ::fsync(fd.get()) != 0) return Failed("fsync of", path);
      }
      return ::close(fd.Release()) == 0 ? Status::Ok() : Failed("closing", path);
    }
    case MdPhase::kFileRead: {
      const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) return Failed("opening", path);
      if (options_.read_bytes == 0) return Status::Ok();
      if (options_.verify)
        task.read_buffer[0] = ~task.read_buffer[0];  // what is not delivered must not look right
      const ssize_t got = ::read(fd.get(), task.read_buffer.data(), options_.read_bytes);
      if (got < 0) return Failed("reading", path);
      if (static_cast<uint64_t>(got) != options_.read_bytes) {
        return Status(Code::kIo, std::string(path) + " has " + std::to_string(got) + " bytes, -e asks for " +
                                     std::to_string(options_.read_bytes));
      }
      if (options_.verify) {
        MarkBuffer(task.write_buffer, owner, place.number);
        if (std::memcmp(task.read_buffer.data(), task.write_buffer.data(), options_.read_bytes) != 0) {
          if (task.record.wrong++ == 0) task.record.first_wrong = path;
        }
      }
      return Status::Ok();
    }
    default:
      return Status(Code::kInternal, "not a phase of items");
  }
}

/// The items' names move around by one, so that the same names are there afterwards.
Status Mdtest::RenameAll(const Shared& shared, Task& task, uint64_t owner, const CancelToken& cancel) {
  if (shared.items < 2) return Status::Ok();
  const std::vector<std::string> dirs = TreePaths(options_.shape, TreeBase(owner));
  const std::string prefix = "dir.mdtest." + std::to_string(owner) + ".";
  ItemPath from(shared.roots, dirs, prefix);
  ItemPath to(shared.roots, dirs, prefix);
  const std::string aside = std::string(to.Of(shared.places.Of(0))) + ".aside";
  const auto rename = [&task](const char* old_path, const char* new_path) {
    if (::rename(old_path, new_path) != 0) return Failed("renaming", old_path);
    ++task.record.done;
    return Status::Ok();
  };
  RETURN_IF_ERROR(rename(from.Of(shared.places.Of(0)), aside.c_str()));
  for (uint64_t i = 1; i < shared.items; ++i) {
    if (cancel.cancelled() || shared.failed.load(std::memory_order_relaxed)) return Status::Ok();
    RETURN_IF_ERROR(rename(from.Of(shared.places.Of(i)), to.Of(shared.places.Of(i - 1))));
  }
  return rename(aside.c_str(), to.Of(shared.places.Of(shared.items - 1)));
}

void Mdtest::RunTask(Shared& shared, Task& task, Rendezvous& meeting, const CancelToken& cancel) {
  const uint64_t owner = (task.index + Strides(shared.phase) * options_.stride) % options_.tasks;
  const std::vector<std::string> dirs = TreePaths(options_.shape, TreeBase(owner));
  ItemPath path(shared.roots, dirs,
                (OfDirs(shared.phase) ? "dir.mdtest." : "file.mdtest.") + std::to_string(owner) + ".");
  const bool shuffled = options_.random && (Strides(shared.phase) == 1 || shared.phase == MdPhase::kFileRead);
  const Permutation order(shuffle_seed_ + task.index, std::max<uint64_t>(1, shared.items));
  const bool stonewall = options_.stonewall_s > 0 && Creates(shared.phase);

  meeting.Meet();
  const Nanos begin = SteadyNow();
  task.record.open_begin = team_.Seconds(begin);
  if (OfTree(shared.phase)) {
    task.record.failure = DoTree(shared, task, cancel);
  } else if (shared.phase == MdPhase::kDirRename) {
    task.record.failure = RenameAll(shared, task, owner, cancel);
  } else {
    const auto work_until = [&](uint64_t end, Nanos until) {
      while (task.record.done < end && !cancel.cancelled() &&
             !shared.failed.load(std::memory_order_relaxed)) {
        const ItemPlace place = shared.places.Of(shuffled ? order(task.record.done) : task.record.done);
        task.record.failure = DoItem(shared, task, path.Of(place), owner, place);
        if (!task.record.failure.ok()) break;
        ++task.record.done;
        if (until != Nanos::max() && SteadyNow() > until) break;
      }
      if (!task.record.failure.ok()) shared.failed.store(true, std::memory_order_relaxed);
    };
    work_until(shared.items, stonewall ? begin + std::chrono::seconds(options_.stonewall_s) : Nanos::max());
    if (stonewall) {
      task.record.stonewall_end = team_.Seconds(SteadyNow());
      task.record.stonewall_done = task.record.done;
      const uint64_t most = meeting.Meet(task.record.done);
      if (task.record.failure.ok()) work_until(most, Nanos::max());
    }
  }
  if (!task.record.failure.ok()) shared.failed.store(true, std::memory_order_relaxed);
  if (options_.sync) ::sync();
  task.record.close_end = team_.Seconds(SteadyNow());
}

Status Mdtest::RunPhase(MdPhase phase, uint64_t iteration, const CancelToken& cancel, MdOutcome& outcome,
                        const std::function<void(const MdPhaseResult&)>& ended) {
  RETURN_IF_ERROR(team_.Agree(cancel.cancelled() ? Status(Code::kCancelled, "interrupted") : Status::Ok()));
  Shared shared{.phase = phase,
                .items = OfDirs(phase) ? dir_items_ : file_items_,
                .roots = Roots(iteration),
                .places = ItemPlaces(options_.shape)};
  std::vector<Task> tasks(team_.tasks_here());
  for (uint64_t i = 0; i < tasks.size(); ++i) {
    tasks[i].index = team_.first() + i;
    if (OfDirs(phase) || OfTree(phase)) continue;
    tasks[i].write_buffer = PatternBytes(std::max(options_.write_bytes, options_.read_bytes));
    tasks[i].read_buffer.resize(options_.read_bytes);
  }
  RETURN_IF_ERROR(team_.Run(
      [&](uint64_t index, Rendezvous& meeting) {
        Task& task = tasks[index - team_.first()];
        RunTask(shared, task, meeting, cancel);
        if (!task.record.failure.ok()) team_.Stop(task.record.failure);
        if (cancel.cancelled()) team_.Stop(Status(Code::kCancelled, "interrupted"));
      },
      [&shared] { shared.failed.store(true, std::memory_order_relaxed); }));
  ProcessRecord mine{.tasks = {}, .cpu_s = 0, .interrupted = cancel.cancelled()};
  for (const Task& task : tasks) mine.tasks.push_back(task.record);
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, team_.Share(PackRecord(mine)));
  ASSIGN_OR_RETURN(const ProcessRecord all, JoinRecords(texts));
  MdPhaseResult result;
  result.phase = phase;
  result.iteration = iteration;
  double begin = std::numeric_limits<double>::infinity();
  double end = -begin;
  double stonewall_end = 0;
  for (const TaskRecord& task : all.tasks) {
    RETURN_IF_ERROR(task.failure);
    begin = std::min(begin, task.open_begin);
    end = std::max(end, task.close_end);
    stonewall_end = std::max(stonewall_end, task.stonewall_end);
    result.items += task.done;
    result.stonewall_items += task.stonewall_done;
    outcome.wrong_files += task.wrong;
    if (outcome.first_wrong.empty()) outcome.first_wrong = task.first_wrong;
  }
  if (all.interrupted) return Status(Code::kCancelled, "interrupted");
  result.seconds = end - begin;
  if (options_.stonewall_s > 0 && Creates(phase)) {
    result.stonewall_s = stonewall_end - begin;
    (phase == MdPhase::kDirCreate ? dir_items_ : file_items_) = all.tasks[0].done;  // all have the same
  }
  outcome.phases.push_back(result);
  if (ended) ended(result);
  return Status::Ok();
}

Status Mdtest::RunIteration(uint64_t iteration, const CancelToken& cancel, MdOutcome& outcome,
                            const std::function<void(const MdPhaseResult&)>& ended) {
  if (options_.delay_s > 0) SleepUntil(SteadyNow() + std::chrono::seconds(options_.delay_s), cancel);
  dir_items_ = file_items_ = options_.shape.items();
  const auto run = [&](bool wanted, MdPhase phase) {
    return wanted ? RunPhase(phase, iteration, cancel, outcome, ended) : Status::Ok();
  };
  if (options_.create) RETURN_IF_ERROR(team_.Agree(team_.leads() ? MakeFolders(iteration) : Status::Ok()));
  RETURN_IF_ERROR(run(options_.create, MdPhase::kTreeCreate));
  if (options_.dirs) {
    RETURN_IF_ERROR(run(options_.create, MdPhase::kDirCreate));
    RETURN_IF_ERROR(run(options_.stat, MdPhase::kDirStat));
    RETURN_IF_ERROR(run(options_.rename && dir_items_ > 1, MdPhase::kDirRename));
    RETURN_IF_ERROR(run(options_.remove, MdPhase::kDirRemove));
  }
  if (options_.files) {
    RETURN_IF_ERROR(run(options_.create, MdPhase::kFileCreate));
    RETURN_IF_ERROR(run(options_.stat, MdPhase::kFileStat));
    RETURN_IF_ERROR(run(options_.read, MdPhase::kFileRead));
    RETURN_IF_ERROR(run(options_.remove, MdPhase::kFileRemove));
  }
  RETURN_IF_ERROR(run(options_.remove, MdPhase::kTreeRemove));
  return options_.remove ? team_.Agree(team_.leads() ? RemoveFolders(iteration) : Status::Ok())
                         : Status::Ok();
}

MdOutcome Mdtest::Run(const CancelToken& cancel, const std::function<void(const MdPhaseResult&)>& ended) {
  MdOutcome outcome;
  // Each task's order is its own, so the processes need not agree on it.
  shuffle_seed_ = options_.random_seed != 0
                      ? options_.random_seed
                      : static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  for (uint64_t i = 0; i < options_.iterations && outcome.failure.ok(); ++i) {
    outcome.failure = RunIteration(i, cancel, outcome, ended);
  }
  if (!outcome.failure.ok()) RemoveMade(outcome);
  // mdtest leaves a folder that it made; an empty one is of no use to anybody.
  if (made_folder_ && made_.empty()) ::rmdir(options_.folder.c_str());
  if (outcome.failure.code() == Code::kCancelled) {
    outcome.interrupted = true;
    outcome.failure = Status::Ok();
  }
  return outcome;
}

}  // namespace stoker::bench
