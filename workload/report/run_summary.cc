#include "workload/report/run_summary.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kSummaryName[] = "summary.json";
constexpr uint64_t kMaxFileBytes = 256ull << 20;  // a summary with 100 000 accelerators is far smaller
constexpr int kMaxNesting = 32;                   // of a summary, which has 5 levels
constexpr int kMaxDepth = 12;                     // v3.0 has 9 levels below its root

Result<std::string> ReadText(const std::string& path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (error) return Status::FromErrno(error.value(), path);
  if (size > kMaxFileBytes) return Status(Code::kCorruption, path + ": too large for a result");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!(in && text << in.rdbuf()) && size > 0) return Status(Code::kIo, path + ": cannot be read");
  return text.str();
}

/// "2023-08-04T11:53:46.926486", local time; 0 when it is not such a text.
double UnixOf(const std::string& iso) {
  std::tm local{};
  const char* const rest = ::strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%S", &local);
  if (rest == nullptr) return 0;
  local.tm_isdst = -1;
  const std::time_t whole = std::mktime(&local);
  return static_cast<double>(whole) + (*rest == '.' ? std::strtod(rest, nullptr) : 0);
}

/// A number that the public tool may have written as one or, through numpy, as text.
uint64_t Count(const Json& value) {
  if (value.is_number()) {
    const double number = value.get<double>();
    if (!(number >= 0 && number < 1e18)) {
      throw Json::other_error::create(501, value.dump() + " is not a count", &value);
    }
    return value.get<uint64_t>();
  }
  const std::string text = value.get<std::string>();
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 18) {
    throw Json::other_error::create(501, "\"" + text + "\" is not a count", &value);
  }
  return std::stoull(text);
}

std::string AsText(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::pair<std::string, std::string>> Pairs(const Json& object) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [key, value] : object.items()) out.emplace_back(key, AsText(value));
  return out;
}

LatencySummary LatencyFrom(const Json& in) {
  return {in.at("count"), in.at("p50"), in.at("p90"), in.at("p99"), in.at("p999"), in.at("max")};
}

std::optional<double> Optional(const Json& in, const char* key) {
  return in.contains(key) && in[key].is_number() ? std::optional<double>(in[key].get<double>())
                                                 : std::nullopt;
}

OwnSummary OwnFrom(const Json& in) {
  OwnSummary out;
  out.version = in.value("version", "");
  out.status = in.at("status");
  out.valid = in.at("valid");
  out.failure = in.value("failure", "");
  out.note = in.value("note", "");
  out.first_read_error = in.value("first_read_error", "");
  out.division = in.value("division", "");
  out.data_dir = in.value("data_dir", "");
  out.au_threshold_percent = in.at("au_threshold_percent");
  out.steps_per_epoch = Count(in.at("steps_per_epoch"));
  out.read_errors = Count(in.at("read_errors"));
  out.files_read = Count(in.at("files_read"));
  out.true_bytes = Count(in.at("true_bytes"));
  out.true_mib_per_s = in.at("true_MiB_per_second");
  out.demand_mib_per_s = in.at("demand_MiB_per_second");
  out.cpu_s_per_gb = in.value("cpu_seconds_per_GB", 0.0);
  out.step_overhead_us = in.value("step_overhead_us_mean", 0.0);
  out.client_cpu_share = in.value("client_cpu_share", 0.0);
  out.client_cpu_limits = in.value("client_cpu_limits", false);
  out.memory_bytes = in.value("host_memory_bytes", uint64_t{0});
  out.file_us = LatencyFrom(in.at("read_file_latency_us"));
  out.call_us = LatencyFrom(in.at("read_call_latency_us"));
  const Json& rules = in.at("rules");
  out.rules = Pairs(rules);
  out.null_storage = rules.value("null_storage", false);
  out.seed = rules.value("seed", uint64_t{0});
  if (in.contains("parameters")) out.parameters = Pairs(in["parameters"]);
  if (in.contains("rule_overrides")) in["rule_overrides"].get_to(out.rule_overrides);
  for (const Json& epoch : in.value("epochs", Json::array())) {
    out.epochs.push_back({epoch.at("unix_start"), epoch.at("unix_end"), epoch.at("complete"),
                          epoch.at("au_percent"), epoch.at("samples_per_second"),
                          epoch.at("au_percent_per_accelerator")});
  }
  const Json cache = in.value("cache_state", Json::object());
  out.mount = cache.value("mount", "");
  out.fstype = cache.value("fstype", "");
  out.stoker_mount = cache.value("stoker_mount", false);
  out.page_cache_before = Optional(cache, "page_cache_share_before");
  out.page_cache_after = Optional(cache, "page_cache_share_after");
  if (cache.contains("daemon")) out.daemon = Pairs(cache["daemon"]);
  return out;
}

void FillPublic(const Json& in, RunSummary& out) {
  out.model = in.value("model", "");
  out.start = in.at("start");
  out.end = in.at("end");
  out.start_unix = UnixOf(out.start);
  out.accelerators = Count(in.at("num_accelerators"));
  if (out.accelerators == 0) throw Json::other_error::create(501, "num_accelerators is 0", &in);
  out.hosts = in.contains("num_hosts") ? Count(in["num_hosts"]) : 1;
  out.hostname = in.at("hostname");
  const Json& metric = in.at("metric");
  metric.at("train_au_percentage").get_to(out.au_percent);
  out.au_mean = metric.at("train_au_mean_percentage");
  out.au_stdev = metric.at("train_au_stdev_percentage");
  out.meets_expectation = metric.at("train_au_meet_expectation").get<std::string>() == "success";
  metric.at("train_throughput_samples_per_second").get_to(out.samples_per_s);
  out.samples_mean = metric.at("train_throughput_mean_samples_per_second");
  out.samples_stdev = metric.at("train_throughput_stdev_samples_per_second");
  out.mib_mean = metric.at("train_io_mean_MB_per_second");
  out.mib_stdev = metric.at("train_io_stdev_MB_per_second");
  out.metric_json = metric.dump();
  out.files = Count(in.at("num_files_train"));
  out.samples_per_file = Count(in.at("num_samples_per_file"));
  out.epochs = Count(in.at("epochs"));
  if (in.contains("host_memory_GB")) in["host_memory_GB"].get_to(out.host_memory_gb);
  if (in.contains("potential_caching")) in["potential_caching"].get_to(out.potential_caching);
  if (in.contains("model")) out.edition = Edition::kV05;  // no later edition names it there
}

/// A list of texts as the configuration library writes it: "- key=value" a line, keys after "++workload.".
/// The entry "workload=MODEL_ACCELERATOR" tells what was run.
void FillOverrides(const std::string& text, RunSummary& out) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, 2, "- ") != 0) continue;
    std::string item = line.substr(2);
    if (item.size() >= 2 && (item.front() == '\'' || item.front() == '"') && item.back() == item.front()) {
      item = item.substr(1, item.size() - 2);
    }
    if (item.compare(0, 9, "workload=") == 0) {
      const size_t split = item.find('_');
      if (out.model.empty()) out.model = item.substr(9, split == std::string::npos ? split : split - 9);
      if (split != std::string::npos) out.accelerator = item.substr(split + 1);
      continue;
    }
    if (item.compare(0, 2, "++") == 0) item = item.substr(2);
    if (item.compare(0, 9, "workload.") == 0) out.overrides.push_back(item.substr(9));
    // Anything else (hydra.run.dir and the like) says nothing about the workload, except from our own runs.
    if (out.own && item.compare(0, 9, "workload.") != 0) out.overrides.push_back(item);
  }
}

}  // namespace

Result<RunSummary> LoadRunSummary(const std::string& folder) {
  const std::string path = folder + "/" + kSummaryName;
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  RunSummary out;
  out.folder = folder;
  try {
    // What is nested deeper than any summary would overflow the stack when it is written again.
    const Json in = Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxNesting) throw Json::other_error::create(501, "nested too deeply", nullptr);
      return true;
    });
    FillPublic(in, out);
    if (in.contains("stoker")) {
      const Json& own = in["stoker"];
      out.own = OwnFrom(own);
      out.model = own.at("workload");
      out.accelerator = own.at("accelerator");
      ASSIGN_OR_RETURN(out.edition, ParseEdition("mlperf", own.at("mlperf").get<std::string>()));
    }
  } catch (const nlohmann::json::exception& error) {
    return Status(Code::kCorruption, path + " is not a summary of a training run: " + error.what());
  }
  for (const char* configs : {"configs", "dlio_config"}) {
    const Result<std::string> overrides = ReadText(folder + "/" + configs + "/overrides.yaml");
    if (overrides.ok()) FillOverrides(*overrides, out);
  }
  const std::string series_path = folder + "/timeseries.json";
  std::error_code error;
  if (fs::exists(fs::symlink_status(series_path, error))) {
    const Result<std::string> series_text = ReadText(series_path);
    const Result<TimeSeries> series =
        series_text.ok() ? ParseTimeSeries(*series_text) : Result<TimeSeries>(series_text.status());
    if (series.ok()) {
      out.series = *series;
    } else {
      out.series_fault = series_path + ": " + series.status().message();
    }
  }
  return out;
}

Result<std::vector<RunSummary>> FindRuns(const std::string& asked) {
  std::string folder = asked;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return Status(Code::kNotFound, folder + " is not a folder; give the results folder of one or more runs");
  }
  std::vector<fs::path> found;
  // A link that leads nowhere is there as well: reading it says what is wrong.
  if (fs::exists(fs::symlink_status(folder + "/" + kSummaryName, error))) found.emplace_back(folder);
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator entry(folder, options, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry.depth() >= kMaxDepth) entry.disable_recursion_pending();
    if (entry->path().filename() == kSummaryName && entry.depth() > 0) {
      found.push_back(entry->path().parent_path());
    }
  }
  if (error) return Status::FromErrno(error.value(), folder);
  if (found.empty()) {
    return Status(Code::kNotFound, folder + " holds no run: there is no summary.json in it or below");
  }
  std::sort(found.begin(), found.end());
  std::vector<RunSummary> out;
  for (const fs::path& path : found) {
    ASSIGN_OR_RETURN(RunSummary run, LoadRunSummary(path.string()));
    for (const fs::path& part : path.lexically_relative(folder)) {
      if (part != ".") run.below.push_back(part.string());
    }
    out.push_back(std::move(run));
  }
  return out;
}

}  // namespace stoker::bench
