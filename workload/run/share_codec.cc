#include "workload/run/share_codec.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "workload/train/log_codec.h"

namespace stoker::bench {
namespace {

using Json = nlohmann::json;

Json Optional(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}
std::optional<double> ReadOptional(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional<double>(json.get<double>());
}

Json CacheOut(const CacheState& cache) {
  Json out{{"sampled", cache.sampled_files},
           {"before", Optional(cache.page_cache_before)},
           {"after", Optional(cache.page_cache_after)},
           {"note", cache.daemon_note}};
  if (cache.mount) out["mount"] = {cache.mount->mountpoint, cache.mount->fstype, cache.mount->source};
  if (cache.daemon) {
    const DaemonCounters& daemon = *cache.daemon;
    out["daemon"] = {
        {"pid", daemon.pid},
        {"version", daemon.version},
        {"passthrough", daemon.passthrough},
        {"counts",
         {daemon.read_hits, daemon.read_misses, daemon.bytes_cache, daemon.bytes_delivered, daemon.bytes_ufs,
          daemon.opens, daemon.passthrough_opens, daemon.read_errors, daemon.ufs_errors}}};
  }
  return out;
}

CacheState CacheIn(const Json& in) {
  CacheState out;
  out.sampled_files = in.at("sampled").get<uint64_t>();
  out.page_cache_before = ReadOptional(in.at("before"));
  out.page_cache_after = ReadOptional(in.at("after"));
  out.daemon_note = in.at("note").get<std::string>();
  if (in.contains("mount")) {
    const auto mount = in.at("mount").get<std::array<std::string, 3>>();
    out.mount = MountInfo{mount[0], mount[1], mount[2]};
  }
  if (in.contains("daemon")) {
    const Json& from = in.at("daemon");
    const auto counts = from.at("counts").get<std::array<uint64_t, 9>>();
    DaemonCounters daemon;
    daemon.pid = from.at("pid").get<int64_t>();
    daemon.version = from.at("version").get<std::string>();
    daemon.passthrough = from.at("passthrough").get<bool>();
    daemon.read_hits = counts[0];
    daemon.read_misses = counts[1];
    daemon.bytes_cache = counts[2];
    daemon.bytes_delivered = counts[3];
    daemon.bytes_ufs = counts[4];
    daemon.opens = counts[5];
    daemon.passthrough_opens = counts[6];
    daemon.read_errors = counts[7];
    daemon.ufs_errors = counts[8];
    out.daemon = daemon;
  }
  return out;
}

}  // namespace

std::string EncodeShare(const RunRecord& mine) {
  const Json head{{"host",
                   {{"hostname", mine.host.hostname},
                    {"cpus", mine.host.cpus},
                    {"processor", mine.host.processor},
                    {"memory_bytes", mine.host.memory_bytes}}},
                  {"cpu", {mine.cpu.cores, mine.cpu.process, mine.cpu.machine}},
                  {"cache", CacheOut(mine.cache)}};
  const std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  const uint64_t size = text.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out + text + EncodeTrainingLog(mine.log);
}

Result<RunRecord> DecodeShare(std::string_view bytes) {
  uint64_t size = 0;
  if (bytes.size() < sizeof size) return Status(Code::kCorruption, "not a part of a run's record: too short");
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size > bytes.size()) return Status(Code::kCorruption, "not a part of a run's record: cut off");
  RunRecord out;
  try {
    const Json head = Json::parse(bytes.substr(0, size));
    const Json& host = head.at("host");
    out.host.hostname = host.at("hostname").get<std::string>();
    out.host.cpus = host.at("cpus").get<uint64_t>();
    out.host.processor = host.at("processor").get<std::string>();
    out.host.memory_bytes = host.at("memory_bytes").get<uint64_t>();
    const auto cpu = head.at("cpu").get<std::array<double, 3>>();
    out.cpu.cores = cpu[0];
    out.cpu.process = cpu[1];
    out.cpu.machine = cpu[2];
    out.cache = CacheIn(head.at("cache"));
  } catch (const Json::exception& error) {
    return Status(Code::kCorruption, std::string("not a part of a run's record: ") + error.what());
  }
  ASSIGN_OR_RETURN(out.log, DecodeTrainingLog(bytes.substr(size)));
  return out;
}

}  // namespace stoker::bench
