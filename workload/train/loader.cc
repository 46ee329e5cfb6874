#include "workload/train/loader.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "workload/base/steady.h"

namespace stoker::bench {

uint64_t BatchesInFlight(uint64_t threads, uint64_t prefetch) {
  return threads * (prefetch == 0 ? 2 : std::max<uint64_t>(1, CeilDiv(prefetch, threads)));
}

struct BatchLoader::State {
  explicit State(LoaderOptions loader_options)
      : options(std::move(loader_options)),
        depth(BatchesInFlight(options.threads, options.prefetch)),
        done(depth, false) {}

  const LoaderOptions options;
  const uint64_t depth;
  std::vector<std::unique_ptr<FileReader>> readers;  // one per thread; fixed once they run
  std::vector<std::thread> threads;
  Mutex mu;
  CondVar ready;  // batch `handed_out` is done, or stopped
  CondVar room;   // a batch was handed out, or stopped
  uint64_t handed_out GUARDED_BY(mu) = 0;
  std::vector<bool> done GUARDED_BY(mu);  // [depth]: batch k, at k mod depth
  bool stopped GUARDED_BY(mu) = false;
  CancelToken stop;  // the same as `stopped`, looked at between files without the lock
};

BatchLoader::BatchLoader(LoaderOptions options) : state_(std::make_shared<State>(std::move(options))) {}

BatchLoader::~BatchLoader() {
  Break();
  Finish();
}

Status BatchLoader::Start() {
  State& state = *state_;
  if (state.options.null_storage) return Status::Ok();
  const uint64_t threads = std::min(state.options.threads, std::max<uint64_t>(1, state.options.steps));
  for (uint64_t i = 0; i < threads; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<FileReader> reader, MakeFileReader(state.options.reader));
    state.readers.push_back(std::move(reader));
  }
  for (uint64_t i = 0; i < threads; ++i) {
    state.threads.emplace_back([&state, i] {
      ::pthread_setname_np(::pthread_self(), "bench-read");
      Work(state, i, state.readers[i].get());
    });
  }
  return Status::Ok();
}

void BatchLoader::Work(State& state, uint64_t thread, FileReader* reader) {
  const LoaderOptions& options = state.options;
  const std::span<const uint32_t> samples = options.order->ForRank(options.rank);
  // Each file's path is asked for as it is needed; the counts of a batch are published together.
  for (uint64_t batch = thread; batch < options.steps; batch += options.threads) {
    {
      MutexLock lock(state.mu);
      while (!state.stopped && batch >= state.handed_out + state.depth) state.room.Wait(state.mu);
      if (state.stopped) return;
    }
    ReadStats stats;
    for (uint64_t i = 0; i < options.batch_size && !state.stop.cancelled(); ++i) {
      const Status read = reader->ReadFile(options.path_of(samples[batch * options.batch_size + i]), stats);
      if (!read.ok() && options.on_error) options.on_error();
    }
    options.stats->Add(stats);
    MutexLock lock(state.mu);
    state.done[batch % state.depth] = true;
    if (batch == state.handed_out) state.ready.NotifyOne();
  }
}

Status BatchLoader::Next(Nanos timeout) {
  State& state = *state_;
  const Nanos deadline = SteadyNow() + timeout;
  MutexLock lock(state.mu);
  if (state.options.null_storage) {
    if (state.stopped) return Status(Code::kCancelled, "the run was stopped");
    ++state.handed_out;
    return Status::Ok();
  }
  while (!state.stopped && !state.done[state.handed_out % state.depth]) {
    const Nanos now = SteadyNow();
    if (now >= deadline) {
      return Status(Code::kDeadlineExceeded, "rank " + std::to_string(state.options.rank) + ": batch " +
                                                 std::to_string(state.handed_out) + " was not read within " +
                                                 FormatDuration(timeout) + "; the storage does not answer");
    }
    state.ready.WaitFor(state.mu, deadline - now);
  }
  if (state.stopped) return Status(Code::kCancelled, "the run was stopped");
  state.done[state.handed_out % state.depth] = false;
  ++state.handed_out;
  state.room.NotifyAll();
  return Status::Ok();
}

void BatchLoader::Break() {
  state_->stop.Cancel();
  MutexLock lock(state_->mu);
  state_->stopped = true;
  state_->ready.NotifyAll();
  state_->room.NotifyAll();
}

void BatchLoader::Finish() {
  for (std::thread& thread : state_->threads) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace stoker::bench
