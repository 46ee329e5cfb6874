#include "workload/base/daemon_counters.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "workload/base/child_output.h"

namespace stoker::bench {
namespace {

constexpr char kProgram[] = "stoker";

bool IsProgram(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

/// The first line of what a command complained about.
std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

uint64_t Grown(uint64_t before, uint64_t after) {
  return after > before ? after - before : 0;
}

}  // namespace

Result<DaemonCounters> ParseDaemonStatus(std::string_view json) {
  try {
    const nlohmann::json status = nlohmann::json::parse(json);
    const nlohmann::json& reads = status.at("reads");
    const nlohmann::json& errors = status.at("errors");
    DaemonCounters out;
    out.pid = status.at("pid").get<int64_t>();
    out.version = status.at("version").get<std::string>();
    out.passthrough = status.at("passthrough").at("active").get<bool>();
    out.read_hits = reads.at("hits").get<uint64_t>();
    out.read_misses = reads.at("misses").get<uint64_t>();
    out.bytes_cache = reads.at("bytes_cache").get<uint64_t>();
    out.bytes_delivered = reads.at("bytes_delivered").get<uint64_t>();
    out.bytes_ufs = reads.at("bytes_ufs").get<uint64_t>();
    out.opens = status.at("opens").get<uint64_t>();
    out.passthrough_opens = status.at("passthrough_opens").get<uint64_t>();
    out.read_errors = errors.at("reads").get<uint64_t>();
    out.ufs_errors = errors.at("ufs").get<uint64_t>();
    return out;
  } catch (const nlohmann::json::exception& error) {
    return Status(Code::kCorruption, std::string("not the status of a stoker daemon: ") + error.what());
  }
}

Result<DaemonCounters> CountersBetween(const DaemonCounters& before, const DaemonCounters& after) {
  if (before.pid != after.pid) {
    return Status(Code::kStale, "the daemon was replaced (process " + std::to_string(before.pid) + ", then " +
                                    std::to_string(after.pid) + "): its counters began anew");
  }
  DaemonCounters out = after;
  for (uint64_t DaemonCounters::*count :
       {&DaemonCounters::read_hits, &DaemonCounters::read_misses, &DaemonCounters::bytes_cache,
        &DaemonCounters::bytes_delivered, &DaemonCounters::bytes_ufs, &DaemonCounters::opens,
        &DaemonCounters::passthrough_opens, &DaemonCounters::read_errors, &DaemonCounters::ufs_errors}) {
    out.*count = Grown(before.*count, after.*count);
  }
  return out;
}

double HitShare(const DaemonCounters& counters) {
  if (counters.bytes_delivered == 0) return 0;
  return std::min(1.0,
                  static_cast<double>(counters.bytes_cache) / static_cast<double>(counters.bytes_delivered));
}

double ShareWithoutUfs(const DaemonCounters& counters, uint64_t bytes_read) {
  if (bytes_read == 0) return 0;
  return std::max(0.0, 1 - static_cast<double>(counters.bytes_ufs) / static_cast<double>(bytes_read));
}

Result<std::string> FindStokerProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::string beside = self.parent_path() / kProgram;
    if (IsProgram(beside)) return beside;
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty() || folder.front() != '/') continue;  // nothing from wherever we happen to stand
    const std::string candidate = folder + "/" + kProgram;
    if (IsProgram(candidate)) return candidate;
  }
  return Status(Code::kNotFound, "no program \"stoker\" beside stoker-bench or in PATH");
}

Result<DaemonCounters> AskDaemon(const std::string& program, const std::string& mountpoint, Nanos timeout) {
  ASSIGN_OR_RETURN(const ChildOutput answer, RunChild({program, "status", "--json", mountpoint}, timeout));
  if (answer.exit_status != 0) {
    return Status(Code::kUnavailable, program + " status left with " + std::to_string(answer.exit_status) +
                                          (answer.err.empty() ? "" : ": " + FirstLine(answer.err)));
  }
  return ParseDaemonStatus(answer.out);
}

Result<DaemonCounters> AskDaemon(const std::string& mountpoint) {
  ASSIGN_OR_RETURN(const std::string program, FindStokerProgram());
  return AskDaemon(program, mountpoint, kDaemonTimeout);
}

}  // namespace stoker::bench
