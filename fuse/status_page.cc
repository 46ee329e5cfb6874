#include "fuse/status_page.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cache/base/units.h"
#include "fuse/warm_display.h"

namespace stoker {
namespace {

std::string Line(std::string label, const std::string& text) {
  label.resize(14, ' ');
  return label + text + "\n";
}

std::string Uptime(double seconds) {
  const auto total = static_cast<unsigned long long>(std::max(0.0, seconds));
  if (total < 60) return std::to_string(total) + " s";
  if (total < 3600) return std::to_string(total / 60) + " min";
  if (total < 86400) return std::to_string(total / 3600) + " h " + std::to_string(total / 60 % 60) + " min";
  return std::to_string(total / 86400) + " d " + std::to_string(total / 3600 % 24) + " h";
}

std::string CacheText(const StoreUsage& usage) {
  std::string out = FormatBytes(usage.used_bytes) + " of " + FormatBytes(usage.limit_bytes);
  if (usage.limit_bytes != 0) {
    const double percent =
        100.0 * static_cast<double>(usage.used_bytes) / static_cast<double>(usage.limit_bytes);
    out += " (" + std::to_string(static_cast<int>(std::floor(percent))) + " %)";
  }
  return out;
}

std::string DirectoryText(const DirectoryReport& one) {
  if (!one.up) return one.dir + ": DOWN until the next mount: " + one.reason;
  return one.dir + ": " + CacheText(one.usage) + ", " + std::to_string(one.usage.objects) + " objects";
}

std::string PolicyText(const PolicyReport& policy) {
  std::string out(PolicyName(policy.configured));
  if (policy.configured != CachePolicy::kAuto) return out;
  return out + ", now " + std::string(PolicyName(policy.deciding)) + " (changed " +
         std::to_string(policy.switches) + " times)";
}

}  // namespace

std::string StatusPage(const DaemonStatus& s) {
  const auto metric = [&](const char* name) {
    const auto found = s.metrics.find(name);
    return static_cast<uint64_t>(found == s.metrics.end() ? 0 : std::max<int64_t>(0, found->second));
  };
  const auto number = [&](const char* name) { return std::to_string(metric(name)); };
  const auto bytes = [&](const char* name) { return FormatBytes(metric(name)); };

  std::string out = s.mountpoint + " shows " + s.ufs + "\n";
  out += Line("daemon", "stoker " + s.version + ", pid " + std::to_string(s.pid) + ", up " +
                            Uptime(s.uptime_seconds) + (s.stopping ? ", stopping" : ""));
  out += Line("passthrough", s.passthrough.reason);
  out += Line("cache", CacheText(s.cache) + " in " + s.cache_dir);
  out += Line("", std::to_string(s.cache.objects) + " objects, " + std::to_string(s.cache.complete_objects) +
                      " of them whole files; " + number("cache_evicted_objects") + " evicted, " +
                      number("cache_refused") + " parts not taken in");
  if (s.dirs.size() > 1) {
    for (const DirectoryReport& one : s.dirs) out += Line("", DirectoryText(one));
  }
  out += Line("policy", PolicyText(s.policy));
  out += Line("", s.policy.reason);
  out += Line("opens", number("opens") + ", of which passthrough " + number("opens_passthrough"));
  out += Line("reads", number("read_hits") + " hits, " + number("read_misses") + " misses; " +
                           bytes("read_bytes_delivered") + " delivered, " + bytes("read_bytes_cache") +
                           " of it from the cache");
  out += Line("", "Only what the daemon served: files opened in passthrough are read by the kernel");
  out += Line("", "from the cache disk, and their reads are not seen here.");
  out += Line("UFS", bytes("ufs_bytes") + " read in " + number("ufs_reads") + " reads");
  out += Line("prefetch", bytes("prefetch_useful_bytes") + " useful, " + bytes("prefetch_wasted_bytes") +
                              " wasted; " + FormatBytes(s.fetch.in_flight_bytes) + " in flight, " +
                              std::to_string(s.fetch.queued) + " parts queued");
  out += Line("", std::to_string(s.fetch.threads) + " threads, I/O by " + s.fetch.io +
                      (s.fetch.io_reason.empty() ? "" : " (" + s.fetch.io_reason + ")"));
  out += Line("warm", std::to_string(s.warm_jobs_running) + " jobs running; " + bytes("warm_bytes") +
                          " brought in so far");

  std::string errors;
  constexpr std::array<std::pair<const char*, const char*>, 6> kErrors{
      {{"read_errors", "failed reads"},
       {"ufs_errors", "failed UFS calls"},
       {"cache_errors", "cache disk errors"},
       {"fetch_failed", "failed fetches"},
       {"cache_no_space", "parts without room"},
       {"cache_damaged_parts", "damaged parts"}}};
  for (const auto& [name, label] : kErrors) {
    if (metric(name) == 0) continue;
    errors += (errors.empty() ? "" : ", ") + number(name) + " " + label;
  }
  out += Line("errors", errors.empty() ? "none" : errors);
  out += Line("log", s.log_file.empty() ? "stderr" : s.log_file);
  return out;
}

std::string StatusTable(const std::vector<DaemonStatus>& statuses) {
  std::vector<std::array<std::string, 5>> rows{{"MOUNT POINT", "PID", "PASSTHROUGH", "CACHE", "UFS"}};
  for (const DaemonStatus& s : statuses) {
    rows.push_back({s.mountpoint, std::to_string(s.pid), s.passthrough.active ? "on" : "off",
                    CacheText(s.cache), s.ufs});
  }
  std::array<size_t, 5> widths{};
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string cell = row[i];
      if (i + 1 < row.size()) cell.resize(widths[i] + 2, ' ');
      line += cell;
    }
    out += line + "\n";
  }
  return out + "`stoker status MOUNTPOINT` tells more of one.\n";
}

}  // namespace stoker
