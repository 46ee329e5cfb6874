#pragma once

#include <atomic>
#include <cstdint>

#include "workload/train/histogram.h"

namespace stoker::bench {

/// What all reading threads of a run have read so far, for somebody who watches while they work (a thread's
/// own ReadStats are published batch by batch, which is gigabytes at a time). Costs a read call three relaxed
/// additions. Add… from any thread; Drain… from one.
class ReadMeter {
 public:
  void AddCall(uint64_t bytes, uint64_t ns) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    call_ns_.Add(ns);
  }
  void AddFile(uint64_t ns) {
    files_.fetch_add(1, std::memory_order_relaxed);
    file_ns_.Add(ns);
  }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t files() const { return files_.load(std::memory_order_relaxed); }
  /// Durations since the last call, in ns.
  Histogram DrainCalls() { return call_ns_.Drain(); }
  Histogram DrainFiles() { return file_ns_.Drain(); }

 private:
  alignas(64) std::atomic<uint64_t> bytes_{0};
  alignas(64) std::atomic<uint64_t> files_{0};
  alignas(64) SharedHistogram call_ns_;
  alignas(64) SharedHistogram file_ns_;
};

}  // namespace stoker::bench
