#include "fuse/control_protocol.h"

#include <algorithm>
#include <array>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxWarmPaths = 100'000;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status Invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

Result<Json> Parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return Invalid("the text is not valid JSON");
  return json;
}

/// Runs a decoder whose library throws on a missing or mistyped member.
template <typename F>
auto Guarded(std::string_view text, F decode) -> Result<decltype(decode(std::declval<const Json&>()))> {
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  try {
    return decode(json);
  } catch (const std::exception& error) {
    return Invalid(std::string("unexpected JSON: ") + error.what());
  }
}

bool IsUtf8(const std::string& text) {
  try {
    return !Json(text).dump().empty();
  } catch (const Json::type_error&) {  // the library's strict check
    return false;
  }
}

std::string ToHex(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

Result<std::string> FromHex(const std::string& hex) {
  std::string out;
  if (hex.size() % 2 != 0) return Invalid("a hex path has an odd number of digits");
  for (size_t i = 0; i < hex.size(); i += 2) {
    const auto digit = [&](char c) {
      if (c >= '0' && c <= '9') return c - '0';
      return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    const int high = digit(hex[i]);
    const int low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return Invalid("a hex path takes the digits 0-9 and a-f");
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

CachePolicy PolicyFrom(const Json& name) {
  const std::optional<CachePolicy> policy = ParsePolicy(name.get<std::string>());
  if (!policy) throw std::invalid_argument("there is no policy " + name.dump());  // for Guarded()
  return *policy;
}

Json ProgressJson(const WarmProgress& p) {
  return Json{{"job", p.id},
              {"state", StateName(p.state)},
              {"walk_finished", p.walk_finished},
              {"files_total", p.files_total},
              {"files_done", p.files_done},
              {"files_failed", p.files_failed},
              {"files_skipped", p.files_skipped},
              {"bytes_total", p.bytes_total},
              {"bytes_done", p.bytes_done},
              {"bytes_fetched", p.bytes_fetched},
              {"seconds", p.seconds},
              {"bytes_per_second", p.bytes_per_second},
              {"eta_seconds", p.eta_seconds}};
}

WarmProgress ProgressFrom(const Json& json) {
  WarmProgress p;
  p.id = json.at("job").get<WarmJobId>();
  const std::string state = json.at("state").get<std::string>();
  p.state = WarmProgress::State::kRunning;
  for (const auto each :
       {WarmProgress::State::kDone, WarmProgress::State::kFailed, WarmProgress::State::kCancelled}) {
    if (state == StateName(each)) p.state = each;
  }
  p.walk_finished = json.at("walk_finished").get<bool>();
  p.files_total = json.at("files_total").get<uint64_t>();
  p.files_done = json.at("files_done").get<uint64_t>();
  p.files_failed = json.at("files_failed").get<uint64_t>();
  p.files_skipped = json.at("files_skipped").get<uint64_t>();
  p.bytes_total = json.at("bytes_total").get<uint64_t>();
  p.bytes_done = json.at("bytes_done").get<uint64_t>();
  p.bytes_fetched = json.at("bytes_fetched").get<uint64_t>();
  p.seconds = json.at("seconds").get<double>();
  p.bytes_per_second = json.at("bytes_per_second").get<double>();
  p.eta_seconds = json.at("eta_seconds").get<double>();
  if (json.contains("failures")) {
    for (const Json& failure : json.at("failures")) {
      p.failures.emplace_back(failure.at("path").get<std::string>(), failure.at("reason").get<std::string>());
    }
  }
  return p;
}

}  // namespace

std::string_view StateName(WarmProgress::State state) {
  switch (state) {
    case WarmProgress::State::kRunning:
      return "running";
    case WarmProgress::State::kDone:
      return "done";
    case WarmProgress::State::kFailed:
      return "failed";
    case WarmProgress::State::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string EncodeStatus(const DaemonStatus& s) {
  const auto metric = [&](const char* name) {
    const auto found = s.metrics.find(name);
    return found == s.metrics.end() ? int64_t{0} : found->second;
  };
  Json metrics = Json::object();
  for (const auto& [name, value] : s.metrics) metrics[name] = value;
  Json dirs = Json::array();
  for (const DirectoryReport& one : s.dirs) {
    dirs.push_back({{"dir", one.dir},
                    {"state", one.up ? "normal" : "down"},
                    {"reason", one.reason},
                    {"used_bytes", one.usage.used_bytes},
                    {"limit_bytes", one.usage.limit_bytes},
                    {"objects", one.usage.objects},
                    {"complete_objects", one.usage.complete_objects}});
  }
  const Json json{{"pid", s.pid},
                  {"version", s.version},
                  {"ufs", s.ufs},
                  {"mountpoint", s.mountpoint},
                  {"uptime_seconds", s.uptime_seconds},
                  {"stopping", s.stopping},
                  {"log_file", s.log_file},
                  {"passthrough", {{"active", s.passthrough.active}, {"reason", s.passthrough.reason}}},
                  {"cache",
                   {{"dir", s.cache_dir},
                    {"dirs", dirs},
                    {"used_bytes", s.cache.used_bytes},
                    {"reserved_bytes", s.cache.reserved_bytes},
                    {"limit_bytes", s.cache.limit_bytes},
                    {"objects", s.cache.objects},
                    {"complete_objects", s.cache.complete_objects},
                    {"policy",
                     {{"configured", PolicyName(s.policy.configured)},
                      {"deciding", PolicyName(s.policy.deciding)},
                      {"reason", s.policy.reason},
                      {"switches", s.policy.switches}}}}},
                  {"reads",
                   {{"hits", metric("read_hits")},
                    {"misses", metric("read_misses")},
                    {"bytes_cache", metric("read_bytes_cache")},
                    {"bytes_ufs", metric("ufs_bytes")},
                    {"bytes_delivered", metric("read_bytes_delivered")},
                    {"note",
                     "passthrough reads go from the cache file to the application in the kernel and are not "
                     "counted here"}}},
                  {"opens", metric("opens")},
                  {"passthrough_opens", metric("opens_passthrough")},
                  {"prefetch",
                   {{"useful_bytes", metric("prefetch_useful_bytes")},
                    {"wasted_bytes", metric("prefetch_wasted_bytes")},
                    {"in_flight_bytes", s.fetch.in_flight_bytes},
                    {"queued", s.fetch.queued},
                    {"io", s.fetch.io},
                    {"io_reason", s.fetch.io_reason},
                    {"threads", s.fetch.threads}}},
                  {"warm_jobs_running", s.warm_jobs_running},
                  {"errors",
                   {{"reads", metric("read_errors")},
                    {"ufs", metric("ufs_errors")},
                    {"cache", metric("cache_errors")},
                    {"fetch_failed", metric("fetch_failed")},
                    {"no_space", metric("cache_no_space")},
                    {"damaged_parts", metric("cache_damaged_parts")}}},
                  {"metrics", metrics}};
  return Dump(json);
}

Result<DaemonStatus> DecodeStatus(std::string_view text) {
  return Guarded(text, [](const Json& json) {
    DaemonStatus s;
    s.pid = json.at("pid").get<int64_t>();
    s.version = json.at("version").get<std::string>();
    s.ufs = json.at("ufs").get<std::string>();
    s.mountpoint = json.at("mountpoint").get<std::string>();
    s.uptime_seconds = json.at("uptime_seconds").get<double>();
    s.stopping = json.at("stopping").get<bool>();
    s.log_file = json.at("log_file").get<std::string>();
    s.passthrough.active = json.at("passthrough").at("active").get<bool>();
    s.passthrough.reason = json.at("passthrough").at("reason").get<std::string>();
    const Json& cache = json.at("cache");
    s.cache_dir = cache.at("dir").get<std::string>();
    s.cache.used_bytes = cache.at("used_bytes").get<uint64_t>();
    s.cache.reserved_bytes = cache.at("reserved_bytes").get<uint64_t>();
    s.cache.limit_bytes = cache.at("limit_bytes").get<uint64_t>();
    s.cache.objects = cache.at("objects").get<uint64_t>();
    s.cache.complete_objects = cache.at("complete_objects").get<uint64_t>();
    for (const Json& item : cache.value("dirs", Json::array())) {
      DirectoryReport one;
      one.dir = item.at("dir").get<std::string>();
      one.up = item.at("state").get<std::string>() != "down";
      one.reason = item.at("reason").get<std::string>();
      one.usage.used_bytes = item.at("used_bytes").get<uint64_t>();
      one.usage.limit_bytes = item.at("limit_bytes").get<uint64_t>();
      one.usage.objects = item.at("objects").get<uint64_t>();
      one.usage.complete_objects = item.at("complete_objects").get<uint64_t>();
      s.dirs.push_back(std::move(one));
    }
    if (cache.contains("policy")) {  // a daemon that was started before an upgrade has none
      const Json& policy = cache.at("policy");
      s.policy.configured = PolicyFrom(policy.at("configured"));
      s.policy.deciding = PolicyFrom(policy.at("deciding"));
      s.policy.reason = policy.at("reason").get<std::string>();
      s.policy.switches = policy.at("switches").get<uint64_t>();
    }
    const Json& fetch = json.at("prefetch");
    s.fetch.in_flight_bytes = fetch.at("in_flight_bytes").get<uint64_t>();
    s.fetch.queued = fetch.at("queued").get<uint64_t>();
    s.fetch.io = fetch.at("io").get<std::string>();
    s.fetch.io_reason = fetch.at("io_reason").get<std::string>();
    s.fetch.threads = fetch.at("threads").get<uint64_t>();
    s.warm_jobs_running = json.at("warm_jobs_running").get<uint64_t>();
    for (const auto& [name, value] : json.at("metrics").items()) s.metrics[name] = value.get<int64_t>();
    return s;
  });
}

std::string EncodeProgress(const WarmProgress& progress, size_t failures_from) {
  Json json = ProgressJson(progress);
  json["failures"] = Json::array();
  for (size_t i = failures_from; i < progress.failures.size(); ++i) {
    const auto& [path, reason] = progress.failures[i];
    json["failures"].push_back({{"path", path}, {"reason", reason}});
  }
  return Dump(json);
}

std::string EncodeJobs(const std::vector<WarmProgress>& jobs) {
  Json json{{"jobs", Json::array()}};
  for (const WarmProgress& job : jobs) json["jobs"].push_back(ProgressJson(job));
  return Dump(json);
}

Result<WarmProgress> DecodeProgress(std::string_view json) {
  return Guarded(json, [](const Json& parsed) { return ProgressFrom(parsed); });
}

Result<std::vector<WarmProgress>> DecodeJobs(std::string_view json) {
  return Guarded(json, [](const Json& parsed) {
    std::vector<WarmProgress> jobs;
    for (const Json& job : parsed.at("jobs")) jobs.push_back(ProgressFrom(job));
    return jobs;
  });
}

std::string EncodeWarmRequest(const std::vector<std::string>& paths) {
  Json json{{"paths", Json::array()}};
  for (const std::string& path : paths) {
    if (IsUtf8(path)) {
      json["paths"].push_back(path);
    } else {
      json["paths"].push_back({{"hex", ToHex(path)}});
    }
  }
  return Dump(json);
}

Result<std::vector<std::string>> DecodeWarmRequest(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  const Status shape =
      Invalid("the body must be {\"paths\": [\"dir/file\", …]}, paths as seen below the mount point");
  if (!json.is_object() || !json.contains("paths") || !json["paths"].is_array()) return shape;
  if (json["paths"].empty()) return Invalid("'paths' is empty: name at least one, \"\" is the whole UFS");
  if (json["paths"].size() > kMaxWarmPaths) {
    return Invalid("'paths' has " + std::to_string(json["paths"].size()) + " entries: name at most " +
                   std::to_string(kMaxWarmPaths) + ", a directory stands for all below it");
  }
  std::vector<std::string> paths;
  for (const Json& item : json["paths"]) {
    std::string path;
    if (item.is_string()) {
      path = item.get<std::string>();
    } else if (item.is_object() && item.contains("hex") && item["hex"].is_string()) {
      ASSIGN_OR_RETURN(path, FromHex(item["hex"].get<std::string>()));
    } else {
      return shape;
    }
    if (!path.empty() && path.front() == '/') {
      return Invalid("'" + path + "': a path is relative to the mount point: leave the first / out");
    }
    if (path.find('\0') != std::string::npos) return Invalid("a path cannot hold a NUL byte");
    paths.push_back(std::move(path));
  }
  return paths;
}

std::string EncodeJobId(WarmJobId id) {
  return Dump({{"job", id}});
}

Result<WarmJobId> DecodeJobId(std::string_view text) {
  return Guarded(text, [](const Json& json) { return json.at("job").get<WarmJobId>(); });
}

std::string EncodeError(const Status& status) {
  return Dump({{"error", {{"code", CodeName(status.code())}, {"message", status.message()}}}});
}

Status DecodeError(long http_status, std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_object() && json.contains("error") && json["error"].is_object()) {
    const Json& error = json["error"];
    if (error.contains("message") && error["message"].is_string()) {
      Code code = Code::kInternal;
      const std::string name = error.value("code", "");
      for (int i = 1; i <= static_cast<int>(Code::kInternal); ++i) {
        if (CodeName(static_cast<Code>(i)) == name) code = static_cast<Code>(i);
      }
      return {code, error["message"].get<std::string>()};
    }
  }
  return {Code::kInternal, "the daemon answered HTTP " + std::to_string(http_status) + ": " +
                               std::string(text.substr(0, 200))};
}

std::string JoinStatuses(const std::vector<std::string>& bodies) {
  Json json{{"mounts", Json::array()}};
  for (const std::string& body : bodies) {
    Json parsed = Json::parse(body, nullptr, false);
    if (!parsed.is_discarded()) json["mounts"].push_back(std::move(parsed));
  }
  return Dump(json);
}

std::string WarmStartEvent(WarmJobId job, const std::string& mountpoint,
                           const std::vector<std::string>& paths) {
  return Dump({{"event", "start"}, {"job", job}, {"mountpoint", mountpoint}, {"paths", paths}});
}

std::string WarmProgressEvent(const WarmProgress& progress) {
  Json json{{"event", "progress"}};
  json.update(ProgressJson(progress));
  return Dump(json);
}

std::string WarmFailureEvent(WarmJobId job, const std::string& path, const std::string& reason) {
  return Dump({{"event", "failure"}, {"job", job}, {"path", path}, {"reason", reason}});
}

std::string WarmDoneEvent(const WarmProgress& progress) {
  Json json{{"event", "done"}, {"ok", progress.state == WarmProgress::State::kDone}};
  json.update(ProgressJson(progress));
  return Dump(json);
}

}  // namespace stoker
