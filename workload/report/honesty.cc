#include "workload/report/honesty.h"

#include "cache/base/units.h"
#include "workload/base/console.h"

namespace stoker::bench {
namespace {

std::string Percent(double share) {
  return Text("%.1f", 100 * share) + " %";
}
std::string Cores(const CpuUse& cpu) {
  return Text("%g", cpu.cores) + (cpu.cores == 1 ? " core" : " cores");
}

std::string DaemonLine(const DaemonCounters& daemon, uint64_t bytes_read) {
  std::string out = "Cache: " + FormatBytes(daemon.bytes_ufs) + " came from the UFS for " +
                    FormatBytes(bytes_read) + " read (" + Percent(ShareWithoutUfs(daemon, bytes_read)) +
                    " needed no UFS); of " + FormatBytes(daemon.bytes_delivered) +
                    " that the daemon handed out itself " + Percent(HitShare(daemon)) +
                    " came from its cache; " + std::to_string(daemon.passthrough_opens) + " of " +
                    std::to_string(daemon.opens) + " opens were passed through";
  if (daemon.passthrough_opens > 0) out += ", whose reads the daemon does not see";
  return out;
}

}  // namespace

std::vector<std::string> HonestyLines(const RunRecord& record) {
  std::vector<std::string> out;
  out.push_back("Client CPU: the generator used " + Percent(record.cpu.process) + " of " + Cores(record.cpu) +
                "; " + Percent(record.cpu.machine) + " of the machine was busy");
  if (record.cache.daemon) {
    out.push_back(DaemonLine(*record.cache.daemon, record.log.reads.bytes));
  } else if (!record.cache.daemon_note.empty()) {
    out.push_back("Cache: the daemon's counters are not known: " + record.cache.daemon_note);
  }
  return out;
}

std::vector<std::string> HonestyWarnings(const RunRecord& record) {
  const CpuUse& cpu = record.cpu;
  if (!cpu.client_limits()) return {};
  const bool own = cpu.process >= kCpuLimitShare;
  return {(own ? "the generator used " + Percent(cpu.process) + " of its " + Cores(cpu)
               : "this machine was " + Percent(cpu.machine) +
                     " busy (the generator: " + Percent(cpu.process) + " of its " + Cores(cpu) + ")") +
          ": the client and not the storage may be the limit; " +
          (own ? "use more client hosts, fewer accelerators on each, or --read-shape odirect"
               : "look what else runs here")};
}

}  // namespace stoker::bench
