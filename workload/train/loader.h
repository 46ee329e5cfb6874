#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"
#include "cache/base/result.h"
#include "workload/train/reader.h"
#include "workload/train/sampler.h"

namespace stoker::bench {

/// Batches in flight per accelerator: threads x max(1, ceil(prefetch / threads)); a prefetch of 0 means two
/// per thread, as the framework does.
uint64_t BatchesInFlight(uint64_t threads, uint64_t prefetch);

struct LoaderOptions {
  uint64_t rank = 0;
  uint64_t steps = 0;
  uint64_t batch_size = 1;
  uint64_t threads = 1;
  uint64_t prefetch = 2;
  bool null_storage = false;  // batches are ready without any reading
  ReaderOptions reader;
  std::shared_ptr<const EpochOrder> order;              // shared with the other ranks' loaders
  std::function<std::string(uint32_t sample)> path_of;  // any thread
  std::shared_ptr<SharedReadStats> stats;
  std::function<void()> on_error;  // a file could not be read (already counted); any thread
};

/// One accelerator's reading threads for one epoch. Batch k is read by thread k mod threads, its files one
/// after the other; batches are handed out in order, so a slow one holds back later ones that are done.
/// Start, Next and Finish from one thread; Break from any.
class BatchLoader {
 public:
  explicit BatchLoader(LoaderOptions options);
  /// As Finish().
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// Starts the threads; they read ahead at once. Errors are MakeFileReader's.
  Status Start();
  /// Waits for the next batch. kDeadlineExceeded after `timeout`, naming rank and batch; kCancelled: Break().
  Status Next(Nanos timeout);
  /// Threads stop after the file they are reading.
  void Break();
  /// Joins the threads; waits for a read that storage does not answer.
  void Finish();

 private:
  struct State;  // shared with the threads
  static void Work(State& state, uint64_t thread, FileReader* reader);

  const std::shared_ptr<State> state_;
};

}  // namespace stoker::bench
