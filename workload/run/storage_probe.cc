#include "workload/run/storage_probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>

#include "cache/base/fd.h"
#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "workload/base/host.h"
#include "workload/base/steady.h"
#include "workload/train/thread_group.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kMaxThreads = 512;
constexpr uint64_t kMaxFiles = 4096;
constexpr uint64_t kMaxOrder = 20'000'000;  // things to permute; working out a longer order takes seconds
constexpr size_t kResidencySample = 16;     // files looked at for the page cache's share

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

/// All that the threads touch; one that hangs keeps it alive.
struct ProbeState {
  ProbeOptions options;
  CancelToken cancel;
  Nanos deadline{};
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> files{0};
  Mutex mu;
  uint64_t errors GUARDED_BY(mu) = 0;
  std::string first_error GUARDED_BY(mu);
  Nanos last_end GUARDED_BY(mu){};
  std::optional<double> page_cache_before GUARDED_BY(mu);

  bool Over() const {
    return cancel.cancelled() || bytes.load(std::memory_order_relaxed) >= options.bytes ||
           SteadyNow() >= deadline;
  }
  void Fail(const std::string& path, const char* call, int error) {
    MutexLock lock(mu);
    ++errors;
    if (first_error.empty()) first_error = path + ": " + Status::FromErrno(error, call).message();
  }
};

void ReadOne(ProbeState& state, const std::string& path, std::byte* buffer) {
  const ProbeOptions& options = state.options;
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | (options.direct ? O_DIRECT : 0)));
  if (!fd.valid()) return state.Fail(path, "open", errno);
  state.files.fetch_add(1, std::memory_order_relaxed);
  for (uint64_t at = 0; !state.Over();) {
    const ssize_t got = ::pread(fd.get(), buffer, options.piece_bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      state.Fail(path, "read", errno);
      break;
    }
    if (got == 0) break;
    at += static_cast<uint64_t>(got);
    state.bytes.fetch_add(static_cast<uint64_t>(got), std::memory_order_relaxed);
  }
  // With what the kernel read ahead of us.
  static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED));
}

void Work(ProbeState& state) {
  const uint64_t size = AlignUp(state.options.piece_bytes, kPageBytes);
  const std::unique_ptr<std::byte, FreeDeleter> buffer(
      static_cast<std::byte*>(std::aligned_alloc(kPageBytes, size)));
  if (buffer == nullptr) return state.Fail("a read buffer", "memory", ENOMEM);
  while (!state.Over()) {
    const size_t index = state.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= state.options.paths.size()) break;
    ReadOne(state, state.options.paths[index], buffer.get());
  }
  MutexLock lock(state.mu);
  state.last_end = std::max(state.last_end, SteadyNow());
}

}  // namespace

Result<ProbeResult> ProbeFiles(const ProbeOptions& options, const CancelToken& cancel) {
  ProbeResult out;
  const size_t sampled = std::min(kResidencySample, options.paths.size());
  const auto state = std::make_shared<ProbeState>();
  state->options = options;
  state->cancel = cancel;
  // In a thread as well: looking opens files, and storage that hangs would keep us here.
  ThreadGroup look;
  RETURN_IF_ERROR(look.Start([state, sampled] {
    const std::vector<std::string>& paths = state->options.paths;
    const std::optional<double> share =
        PageCacheShare({paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(sampled)});
    MutexLock lock(state->mu);
    state->page_cache_before = share;
  }));
  out.hung = !look.Finish(SteadyNow() + options.patience);
  if (out.hung) return out;
  const Nanos start = SteadyNow();
  state->deadline = start + options.time;
  out.threads =
      std::clamp<uint64_t>(std::min<uint64_t>(options.threads, options.paths.size()), 1, kMaxThreads);
  ThreadGroup threads;
  for (uint64_t i = 0; i < out.threads; ++i) {
    RETURN_IF_ERROR(threads.Start([state] { Work(*state); }));
  }
  out.hung = !threads.Finish(state->deadline + options.patience);
  MutexLock lock(state->mu);
  out.page_cache_before = state->page_cache_before;
  out.files = state->files.load();
  out.bytes = state->bytes.load();
  out.errors = state->errors;
  out.first_error = state->first_error;
  const Nanos end = out.hung ? SteadyNow() : state->last_end;
  out.seconds = std::chrono::duration<double>(end - start).count();
  if (out.seconds > 0) out.bytes_per_s = static_cast<double>(out.bytes) / out.seconds;
  return out;
}

ProbeOptions ProbeOf(const TrainingPlan& plan) {
  const TrainerOptions& run = plan.options;
  ProbeOptions out;
  out.threads = std::min(kMaxThreads, run.ranks * run.read_threads);
  out.piece_bytes = plan.piece_bytes;
  out.direct = run.reader.shape == ReadShape::kODirect;
  const uint64_t files = plan.record.command.profile.num_files_train;
  const uint64_t wanted = std::min(files, kMaxFiles);
  std::set<uint64_t> taken;
  const auto take = [&](uint64_t file) {
    if (taken.size() < wanted && taken.insert(file).second) out.paths.push_back(run.dataset.Path(file));
  };
  // A TensorFlow pipeline has an order of its own; its last files are about the last of the list.
  if (run.framework == Framework::kPyTorch && run.order.samples <= kMaxOrder) {
    const EpochOrder order = MakeEpochOrder(run.order, 0);
    for (uint64_t back = 1; back <= std::min(order.per_rank(), kMaxFiles) && taken.size() < wanted; ++back) {
      for (uint64_t rank = 0; rank < run.order.ranks && taken.size() < wanted; ++rank) {
        take(order.Sample(rank, order.per_rank() - back) / run.dataset.samples_per_file);
      }
    }
  }
  for (uint64_t back = 1; back <= wanted && taken.size() < wanted; ++back) take(files - back);
  return out;
}

Result<std::vector<std::string>> FilesBelow(const std::string& folder, size_t limit) {
  std::vector<std::string> out;
  std::error_code error;
  std::filesystem::recursive_directory_iterator walk(
      folder, std::filesystem::directory_options::skip_permission_denied, error);
  if (error) return Status::FromErrno(error.value(), folder);
  for (const auto end = std::filesystem::end(walk); walk != end && out.size() < limit;
       walk.increment(error)) {
    if (error) return Status::FromErrno(error.value(), folder);
    if (walk->is_regular_file(error) && !error) out.push_back(walk->path().string());
  }
  if (out.empty()) return Status(Code::kNotFound, folder + " holds no files to read");
  std::sort(out.rbegin(), out.rend());
  return out;
}

Prerun PrerunOf(const TrainingPlan& plan) {
  const RunRecord& record = plan.record;
  Prerun out;
  // What this host asks for.
  const uint64_t ranks = plan.host_ranks > 0 ? plan.host_ranks : record.command.accelerators;
  const double share = static_cast<double>(ranks) / static_cast<double>(record.command.accelerators);
  out.bytes_per_s = record.demand.bytes_per_s * share;
  out.au_threshold = record.metric.au_threshold;
  out.accelerators = ranks;
  out.best_seconds = record.demand.run_s;
  out.bytes_of_run = share * static_cast<double>(record.demand.dataset_bytes) *
                     static_cast<double>(record.command.profile.epochs);
  if (record.cache.mount) out.fstype = record.cache.mount->fstype;
  out.links = NetworkLinks();
  return out;
}

}  // namespace stoker::bench
