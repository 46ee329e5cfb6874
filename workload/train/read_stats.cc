#include "workload/train/read_stats.h"

#include "workload/base/steady.h"

namespace stoker::bench {
namespace {
constexpr Nanos kPassOnEvery = std::chrono::milliseconds(50);
}  // namespace

void ReadStats::Merge(const ReadStats& other) {
  files += other.files;
  bytes += other.bytes;
  calls += other.calls;
  errors += other.errors;
  if (first_error.empty()) first_error = other.first_error;
  file_ns.Merge(other.file_ns);
  call_ns.Merge(other.call_ns);
}

BufferedReadStats::BufferedReadStats(SharedReadStats& to)
    : to_(to), local_(std::make_unique<ReadStats>()), next_(SteadyNow() + kPassOnEvery) {}

BufferedReadStats::~BufferedReadStats() {
  PassOn();
}

void BufferedReadStats::Tick(bool ok) {
  if (ok && SteadyNow() < next_) return;
  PassOn();
}

void BufferedReadStats::PassOn() {
  to_.Add(*local_);
  *local_ = ReadStats();
  next_ = SteadyNow() + kPassOnEvery;
}

}  // namespace stoker::bench
