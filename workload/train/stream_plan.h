#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workload/base/rules.h"
#include "workload/train/input_pipeline.h"

namespace stoker::bench {

/// A job whose input is a TensorFlow pipeline over record files.
struct StreamJob {
  Edition loop = Edition::kV20;  // which round's pipeline
  uint64_t files = 0;
  uint64_t samples_per_file = 1;
  uint64_t ranks = 1;  // of the whole run
  uint64_t epochs = 1;
  uint64_t batch_size = 1;
  uint64_t read_threads = 1;
  uint64_t prefetch = 0;             // batches
  uint64_t computation_threads = 1;  // each has a batch in hand
  uint64_t shuffle = 0;              // records in the shuffle buffer; 0: none
  bool file_shuffle = false;         // v0.5 only
  AccessOrder order = AccessOrder::kV2;
  uint64_t seed = 123;
};

// clang-format off
/// How the rounds' pipelines differ (the public tool's tf_reader at 60782fe, 2fcdbfa, 392621b):
///
///   |               | v0.5                              | v1.0 and later                                     |
///   | files         | one after the other, all by every | read_threads in turn and twice as many opened      |
///   |               | rank                              | ahead (the framework's default), shared out by file|
///   | records       | every ranks-th is a rank's own    | all are its own; every ranks-th of all files' when |
///   |               |                                   | there are fewer files than ranks                   |
///   | list of files | shuffled once (file_shuffle)      | order v1: shuffled for each pass; else as it is    |
///   | stream        | begins anew each epoch            | one for all epochs                                 |
// clang-format on
PipelineOptions PipelineOf(const StreamJob& job, uint64_t rank);
/// The files that a rank reads in each pass, in order. Any thread.
std::function<std::vector<uint32_t>(uint64_t pass)> FilesOf(const StreamJob& job, uint64_t rank);
/// True when the loader goes on from one epoch to the next.
inline bool OutlivesEpoch(Edition loop) {
  return loop != Edition::kV05;
}
/// Files that one rank may have open at once, each with a thread.
uint64_t StreamThreads(const StreamJob& job);

}  // namespace stoker::bench
