#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cache/base/clock.h"

namespace stoker::bench {

/// From here on (share of the cores) the client may be what limits a run, and the storage is not measured any
/// more.
inline constexpr double kCpuLimitShare = 0.80;

/// Counts of one moment.
struct CpuSample {
  Nanos at{};
  double process_s = 0;     // user + system of this process
  uint64_t busy_ticks = 0;  // of all cores, whoever used them; what a hypervisor took away is not idle either
  uint64_t total_ticks = 0;
};
CpuSample SampleCpu();

/// Between two moments.
struct CpuUse {
  double cores = 0;    // that this process may use (UsableCores)
  double process = 0;  // share (0..1) of those cores that this process used
  double machine = 0;  // share (0..1) of all of the machine's cores that were busy, this process included
  bool client_limits() const { return process >= kCpuLimitShare || machine >= kCpuLimitShare; }
};
/// Pure. No time between the samples: zeros.
CpuUse CpuUseBetween(const CpuSample& before, const CpuSample& after, double cores);

/// Cores that this process may use: its affinity, and the quota of its control groups (a container's limit),
/// which may be a fraction.
double UsableCores();

/// "cpu" line of /proc/stat as busy and total ticks; false when it is not one. Pure.
bool ParseStatLine(const std::string& line, CpuSample& into);
/// Text of a cpu.max file ("150000 100000" or "max 100000") as cores; nothing: no limit. Pure.
std::optional<double> ParseCpuMax(const std::string& text);

}  // namespace stoker::bench
