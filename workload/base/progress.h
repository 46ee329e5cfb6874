#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "cache/base/clock.h"

namespace stoker::bench {

/// Shows how far a long job is: a bar that redraws itself on a terminal, a line now and then in a pipe. One
/// thread.
class Progress {
 public:
  /// `what`: e.g. "datagen". Totals 0 are fine.
  Progress(std::FILE* out, std::string what, uint64_t total_files, uint64_t total_bytes);
  /// Draws when it is time to (10 times a second on a terminal, every 5 s otherwise).
  void Update(uint64_t files, uint64_t bytes);
  /// Draws the last state and ends the line.
  void Finish(uint64_t files, uint64_t bytes);

  /// One state as text, without line end. Pure.
  static std::string Describe(const std::string& what, uint64_t files, uint64_t total_files, uint64_t bytes,
                              uint64_t total_bytes, double seconds);

 private:
  void Draw(uint64_t files, uint64_t bytes);

  std::FILE* const out_;
  const std::string what_;
  const uint64_t total_files_;
  const uint64_t total_bytes_;
  const bool terminal_;
  const Nanos start_;
  Nanos next_;
};

}  // namespace stoker::bench
