#include "workload/train/stream_loader.h"

#include <utility>

#include "cache/base/mutex.h"
#include "workload/train/tfrecord_reader.h"
#include "workload/train/thread_group.h"

namespace stoker::bench {

struct StreamLoader::State {
  explicit State(StreamLoaderOptions loader_options)
      : options(std::move(loader_options)),
        pipeline(options.pipeline, options.files_of_pass),
        slots(pipeline.slots()),
        wanted(slots) {}

  /// Wakes the threads that have something to read now, and whoever waits for a batch.
  void Tell() REQUIRES(mu) {
    for (uint64_t slot = 0; slot < slots; ++slot) {
      if (pipeline.Wanted(slot)) wanted[slot].NotifyOne();
    }
    if (awaited && pipeline.ready()) {
      awaited = false;
      options.bell->Ring();
    }
  }

  const StreamLoaderOptions options;
  std::vector<std::unique_ptr<TfRecordReader>> readers;  // [slots]; fixed once the threads run
  ThreadGroup threads;
  Mutex mu;
  InputPipeline pipeline GUARDED_BY(mu);
  const uint64_t slots;
  std::vector<CondVar> wanted;          // [slots]: the slot's next read is due, or stopped
  bool awaited GUARDED_BY(mu) = false;  // TryNext() found nothing
  bool stopped GUARDED_BY(mu) = false;
};

StreamLoader::StreamLoader(StreamLoaderOptions options)
    : state_(std::make_shared<State>(std::move(options))) {}

StreamLoader::~StreamLoader() {
  Break();
  static_cast<void>(Finish(Nanos::max()));
}

Status StreamLoader::Start() {
  State& state = *state_;
  if (!state.readers.empty()) return Status::Ok();
  for (uint64_t slot = 0; slot < state.slots; ++slot) {
    ASSIGN_OR_RETURN(std::unique_ptr<TfRecordReader> reader,
                     TfRecordReader::Make(state.options.buffer_bytes, state.options.cache_control));
    state.readers.push_back(std::move(reader));
  }
  for (uint64_t slot = 0; slot < state.slots; ++slot) {
    // Shared: a thread that hangs in a dead read is let go, and what it touches must outlive it.
    RETURN_IF_ERROR(state.threads.Start([shared = state_, slot] { Work(*shared, slot); }));
  }
  return Status::Ok();
}

void StreamLoader::Work(State& state, uint64_t slot) {
  BufferedReadStats stats(*state.options.stats);
  TfRecordReader& reader = *state.readers[slot];
  while (true) {
    InputPipeline::Work work;
    {
      MutexLock lock(state.mu);
      while (!state.stopped && !state.pipeline.Wanted(slot)) state.wanted[slot].Wait(state.mu);
      if (state.stopped) return;
      work = *state.pipeline.Wanted(slot);
    }
    stats.local().meter = state.options.meter.get();
    const Result<TfRecordReader::Chunk> chunk =
        reader.Read(state.options.path_of(work.file), work.opening, stats.local());
    stats.Tick(chunk.ok());
    if (!chunk.ok() && state.options.on_error) state.options.on_error();
    MutexLock lock(state.mu);
    // What could not be read counts as ended: the stream goes on, and the error makes the run invalid.
    if (chunk.ok()) {
      state.pipeline.Found(slot, chunk.value().records, chunk.value().ended);
    } else {
      state.pipeline.Found(slot, 0, true);
    }
    if (state.stopped) return;  // also where every file fails and the passes follow each other
    state.Tell();
  }
}

bool StreamLoader::TryNext() {
  State& state = *state_;
  MutexLock lock(state.mu);
  if (!state.pipeline.Take()) {
    state.awaited = true;
    return false;
  }
  state.Tell();
  return true;
}

std::string StreamLoader::Awaited() const {
  MutexLock lock(state_->mu);
  return "batch " + std::to_string(state_->pipeline.handed_out());
}

void StreamLoader::Break() {
  MutexLock lock(state_->mu);
  state_->stopped = true;
  for (CondVar& wanted : state_->wanted) wanted.NotifyAll();
}

bool StreamLoader::Finish(Nanos deadline) {
  return state_->threads.Finish(deadline);
}

}  // namespace stoker::bench
