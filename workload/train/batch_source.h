#pragma once

#include <string>

#include "cache/base/clock.h"
#include "cache/base/result.h"

namespace stoker::bench {

/// Where one accelerator's batches come from, as the thread that drives the accelerators sees it. Start,
/// TryNext, Awaited and Finish from that thread; Break from any.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Reading begins. kUnavailable: no more threads; others are MakeFileReader's.
  virtual Status Start() = 0;
  /// Takes the next batch if it is there. If not, the doorbell rings once it is.
  virtual bool TryNext() = 0;
  /// What is being waited for, for a message: "batch 12".
  virtual std::string Awaited() const = 0;
  /// Threads stop after the call they are in.
  virtual void Break() = 0;
  /// Waits for the threads to end, until `deadline`; then lets them go. False when some still hang.
  virtual bool Finish(Nanos deadline) = 0;
};

/// Batches that are there without any reading.
class NullSource final : public BatchSource {
 public:
  Status Start() override { return Status::Ok(); }
  bool TryNext() override { return true; }
  std::string Awaited() const override { return "a batch"; }
  void Break() override {}
  bool Finish(Nanos) override { return true; }
};

}  // namespace stoker::bench
