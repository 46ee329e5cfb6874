#include "workload/train/loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "workload/base/steady.h"
#include "workload/train/thread_group.h"

namespace stoker::bench {

uint64_t BatchesInFlight(uint64_t threads, uint64_t prefetch) {
  return threads * (prefetch == 0 ? 2 : std::max<uint64_t>(1, CeilDiv(prefetch, threads)));
}

struct BatchLoader::State {
  explicit State(LoaderOptions loader_options)
      : options(std::move(loader_options)),
        depth(BatchesInFlight(options.threads, options.prefetch)),
        room(options.threads),
        done(depth, false) {}

  const LoaderOptions options;
  const uint64_t depth;                              // a multiple of threads
  std::vector<std::unique_ptr<FileReader>> readers;  // one per thread; fixed once they run
  ThreadGroup threads;
  Mutex mu;
  std::vector<CondVar> room;  // [threads]: one more of its batches may be read, or stopped
  uint64_t handed_out GUARDED_BY(mu) = 0;
  std::vector<bool> done GUARDED_BY(mu);  // [depth]: batch k, at k mod depth
  bool awaited GUARDED_BY(mu) = false;    // TryNext() found nothing
  bool stopped GUARDED_BY(mu) = false;
  CancelToken stop;  // the same as `stopped`, looked at between files without the lock
};

BatchLoader::BatchLoader(LoaderOptions options) : state_(std::make_shared<State>(std::move(options))) {}

BatchLoader::~BatchLoader() {
  Break();
  static_cast<void>(Finish(Nanos::max()));
}

Status BatchLoader::Start() {
  State& state = *state_;
  const uint64_t threads = std::min(state.options.threads, state.options.steps);
  for (uint64_t i = 0; i < threads; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<FileReader> reader, MakeFileReader(state.options.reader));
    state.readers.push_back(std::move(reader));
  }
  for (uint64_t i = 0; i < threads; ++i) {
    // Shared: a thread that hangs in a dead read is let go, and what it touches must outlive it.
    RETURN_IF_ERROR(
        state.threads.Start([shared = state_, i] { Work(*shared, i, shared->readers[i].get()); }));
  }
  return Status::Ok();
}

void BatchLoader::Work(State& state, uint64_t thread, FileReader* reader) {
  const LoaderOptions& options = state.options;
  BufferedReadStats stats(*options.stats);
  for (uint64_t batch = thread; batch < options.steps; batch += options.threads) {
    {
      MutexLock lock(state.mu);
      while (!state.stopped && batch >= state.handed_out + state.depth) state.room[thread].Wait(state.mu);
      if (state.stopped) return;
    }
    const uint64_t first = batch * options.batch_size;
    for (uint64_t i = 0; i < options.batch_size && !state.stop.cancelled();) {
      const SampleRun run = options.order->RunAt(options.rank, first + i, options.batch_size - i);
      const Status read = reader->ReadSamples(options.path_of(run.file), run, stats.local());
      stats.Tick(read.ok());
      if (!read.ok() && options.on_error) options.on_error();
      i += run.count;
    }
    MutexLock lock(state.mu);
    state.done[batch % state.depth] = true;
    if (batch == state.handed_out && std::exchange(state.awaited, false)) options.bell->Ring();
  }
}

bool BatchLoader::TryNext() {
  State& state = *state_;
  MutexLock lock(state.mu);
  const uint64_t batch = state.handed_out;
  if (!state.done[batch % state.depth]) {
    state.awaited = true;
    return false;
  }
  state.done[batch % state.depth] = false;
  ++state.handed_out;
  // The thread that read this batch reads the one that comes into reach, as the depth is a multiple of
  // threads.
  state.room[batch % state.options.threads].NotifyOne();
  return true;
}

std::string BatchLoader::Awaited() const {
  MutexLock lock(state_->mu);
  return "batch " + std::to_string(state_->handed_out);
}

void BatchLoader::Break() {
  state_->stop.Cancel();
  MutexLock lock(state_->mu);
  state_->stopped = true;
  for (CondVar& room : state_->room) room.NotifyAll();
}

bool BatchLoader::Finish(Nanos deadline) {
  return state_->threads.Finish(deadline);
}

}  // namespace stoker::bench
