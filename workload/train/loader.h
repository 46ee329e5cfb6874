#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "workload/train/batch_source.h"
#include "workload/train/doorbell.h"
#include "workload/train/reader.h"
#include "workload/train/sampler.h"

namespace stoker::bench {

/// Batches in flight per accelerator: threads x max(1, ceil(prefetch / threads)); a prefetch of 0 means two
/// per thread, as the framework does.
uint64_t BatchesInFlight(uint64_t threads, uint64_t prefetch);

struct LoaderOptions {
  uint64_t rank = 0;  // in `order`
  uint64_t steps = 0;
  uint64_t batch_size = 1;
  uint64_t threads = 1;
  uint64_t prefetch = 2;
  ReaderOptions reader;
  std::shared_ptr<const EpochOrder> order;            // shared with the other ranks' loaders
  std::function<std::string(uint64_t file)> path_of;  // any thread
  std::shared_ptr<SharedReadStats> stats;
  std::shared_ptr<Doorbell> bell;  // rung when a batch that TryNext() did not find has come
  std::function<void()> on_error;  // a file could not be read (already counted); any thread
};

/// The workers of the PyTorch loader, one accelerator's for one epoch. Batch k is read by thread k mod
/// threads, its files one after the other; batches are handed out in order, so a slow one holds back later
/// ones that are done.
class BatchLoader final : public BatchSource {
 public:
  explicit BatchLoader(LoaderOptions options);
  /// Waits for the threads, for ever if need be.
  ~BatchLoader() override;
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  Status Start() override;
  bool TryNext() override;
  std::string Awaited() const override;
  void Break() override;
  bool Finish(Nanos deadline) override;

 private:
  struct State;  // shared with the threads
  static void Work(State& state, uint64_t thread, FileReader* reader);

  const std::shared_ptr<State> state_;
};

}  // namespace stoker::bench
