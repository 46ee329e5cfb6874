#include "workload/base/cpu_use.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

double Share(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double AffinityCores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  // More CPUs than the fixed set has room for.
  return static_cast<double>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The tightest cpu.max from this process's control group up to the root (version 2, "0::/path").
std::optional<double> QuotaCores() {
  std::ifstream groups("/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(groups, line);) {
    if (line.compare(0, 3, "0::") == 0) group = line.substr(3);
  }
  std::optional<double> out;
  while (true) {
    std::ifstream in("/sys/fs/cgroup" + group + "/cpu.max");
    std::string line;
    std::getline(in, line);
    const std::optional<double> cores = ParseCpuMax(line);
    if (cores && (!out || *cores < *out)) out = cores;
    if (group.empty()) return out;
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

bool ParseStatLine(const std::string& line, CpuSample& into) {
  std::istringstream words(line);
  std::string name;
  words >> name;
  if (name != "cpu") return false;
  // user nice system idle iowait irq softirq steal; guest times follow and are in user and nice already.
  constexpr size_t kIdle = 3;
  constexpr size_t kIoWait = 4;
  uint64_t total = 0;
  uint64_t idle = 0;
  size_t count = 0;
  for (uint64_t ticks = 0; count < 8 && words >> ticks; ++count) {
    total += ticks;
    if (count == kIdle || count == kIoWait) idle += ticks;
  }
  if (count <= kIdle) return false;
  into.total_ticks = total;
  into.busy_ticks = total - idle;
  return true;
}

std::optional<double> ParseCpuMax(const std::string& text) {
  std::istringstream words(text);
  double quota = 0;
  double period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

CpuSample SampleCpu() {
  CpuSample out;
  out.at = SteadyNow();
  rusage usage{};
  static_cast<void>(::getrusage(RUSAGE_SELF, &usage));  // RUSAGE_SELF cannot fail
  out.process_s = SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
  std::ifstream in("/proc/stat");
  std::string line;
  std::getline(in, line);
  static_cast<void>(ParseStatLine(line, out));  // without it the machine's share is 0
  return out;
}

CpuUse CpuUseBetween(const CpuSample& before, const CpuSample& after, double cores) {
  CpuUse out;
  out.cores = cores;
  const double seconds = std::chrono::duration<double>(after.at - before.at).count();
  out.process = Share(after.process_s - before.process_s, seconds * cores);
  // Idle ticks may go back by a few; then the machine was idle.
  const double busy = static_cast<double>(after.busy_ticks) - static_cast<double>(before.busy_ticks);
  const double total = static_cast<double>(after.total_ticks) - static_cast<double>(before.total_ticks);
  out.machine = Share(busy, total);
  return out;
}

double UsableCores() {
  const double cores = AffinityCores();
  const std::optional<double> quota = QuotaCores();
  return quota ? std::min(cores, *quota) : cores;
}

}  // namespace stoker::bench
