#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "workload/base/rules.h"
#include "workload/train/batch_source.h"
#include "workload/train/doorbell.h"
#include "workload/train/input_pipeline.h"
#include "workload/train/read_stats.h"

namespace stoker::bench {

struct StreamLoaderOptions {
  PipelineOptions pipeline;
  std::function<std::vector<uint32_t>(uint64_t pass)> files_of_pass;
  uint64_t buffer_bytes = 256 * 1024;  // of one read call
  CacheControl cache_control = CacheControl::kNone;
  std::shared_ptr<ReadMeter> meter;                   // may be null
  std::function<std::string(uint64_t file)> path_of;  // any thread
  std::shared_ptr<SharedReadStats> stats;
  std::shared_ptr<Doorbell> bell;  // rung when a batch that TryNext() did not find has come
  std::function<void()> on_error;  // a file could not be read (already counted); any thread
};

/// A TensorFlow input pipeline over TFRecord files, one accelerator's: a thread for each file that may be
/// open at once, all doing what InputPipeline says. It knows no epochs and goes on until it is broken off or
/// has made its last batch.
class StreamLoader final : public BatchSource {
 public:
  explicit StreamLoader(StreamLoaderOptions options);
  /// Waits for the threads, for ever if need be.
  ~StreamLoader() override;
  StreamLoader(const StreamLoader&) = delete;
  StreamLoader& operator=(const StreamLoader&) = delete;

  /// Once; a second call has nothing to do.
  Status Start() override;
  bool TryNext() override;
  std::string Awaited() const override;
  void Break() override;
  bool Finish(Nanos deadline) override;

 private:
  struct State;  // shared with the threads
  static void Work(State& state, uint64_t slot);

  const std::shared_ptr<State> state_;
};

}  // namespace stoker::bench
