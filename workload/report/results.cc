#include "workload/report/results.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cache/base/units.h"
#include "workload/report/validity.h"
#include "workload/train/loader.h"

namespace stoker::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMarkName[] = ".run-in-progress";

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// 2024-05-01T12:00:00.000000, local time, as the public summaries have it.
std::string IsoTime(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(std::floor(unix_seconds));
  const auto micros = static_cast<long>((unix_seconds - std::floor(unix_seconds)) * 1e6);
  std::tm local{};
  ::localtime_r(&whole, &local);
  char text[64];
  const size_t used = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local);
  std::snprintf(text + used, sizeof text - used, ".%06ld", micros);
  return text;
}

Json Share(const std::optional<double>& share) {
  return share ? Json(*share) : Json(nullptr);
}

Json LatencyJson(const Histogram& ns) {
  const auto micros = [&](double q) { return static_cast<double>(ns.Quantile(q)) / 1e3; };
  return Json{{"count", ns.count()}, {"p50", micros(0.5)},    {"p90", micros(0.9)},
              {"p99", micros(0.99)}, {"p999", micros(0.999)}, {"max", static_cast<double>(ns.max()) / 1e3}};
}

Json ProbeJson(const ProbeResult& probe) {
  return Json{{"bytes", probe.bytes},
              {"files", probe.files},
              {"threads", probe.threads},
              {"seconds", probe.seconds},
              {"MiB_per_second", probe.bytes_per_s / static_cast<double>(kMiB)},
              {"page_cache_share_before", Share(probe.page_cache_before)},
              {"errors", probe.errors},
              {"hung", probe.hung}};
}

Json DaemonJson(const DaemonCounters& daemon, uint64_t bytes_read) {
  return Json{
      {"version", daemon.version},
      {"passthrough", daemon.passthrough},
      {"bytes_from_cache", daemon.bytes_cache},
      {"bytes_delivered", daemon.bytes_delivered},
      {"bytes_from_ufs", daemon.bytes_ufs},
      {"hit_share", daemon.bytes_delivered > 0 ? Json(HitShare(daemon)) : Json(nullptr)},
      {"share_without_ufs", bytes_read > 0 ? Json(ShareWithoutUfs(daemon, bytes_read)) : Json(nullptr)},
      {"read_hits", daemon.read_hits},
      {"read_misses", daemon.read_misses},
      {"opens", daemon.opens},
      {"passthrough_opens", daemon.passthrough_opens},
      {"read_errors", daemon.read_errors},
      {"ufs_errors", daemon.ufs_errors}};
}

Json CacheJson(const CacheState& state, uint64_t bytes_read) {
  Json cache;
  cache["mount"] = state.mount ? state.mount->mountpoint : "";
  cache["fstype"] = state.mount ? state.mount->fstype : "";
  cache["source"] = state.mount ? state.mount->source : "";
  cache["stoker_mount"] = state.mount && state.mount->is_stoker();
  cache["page_cache_sampled_files"] = state.sampled_files;
  cache["page_cache_share_before"] = Share(state.page_cache_before);
  cache["page_cache_share_after"] = Share(state.page_cache_after);
  if (state.daemon) cache["daemon"] = DaemonJson(*state.daemon, bytes_read);
  if (!state.daemon_note.empty()) cache["daemon_note"] = state.daemon_note;
  return cache;
}

Json HostJson(const HostShare& share) {
  return Json{{"hostname", share.host.hostname},
              {"processes", share.processes},
              {"accelerators", share.accelerators},
              {"true_bytes", share.true_bytes},
              {"cpu_seconds", share.cpu_s},
              {"client_cores", share.cpu.cores},
              {"client_cpu_share", share.cpu.process},
              {"machine_cpu_share", share.cpu.machine},
              {"cache_state", CacheJson(share.cache, share.true_bytes)}};
}

Json MetricJson(const RunRecord& record) {
  const RunFigures& run = record.figures;
  Json au = Json::array();
  Json samples = Json::array();
  for (const EpochFigures& epoch : run.epochs) {
    au.push_back(epoch.au_percent);
    samples.push_back(epoch.samples_per_s);
  }
  // A run that is not whole or missed files has met nothing, whatever its figures.
  const bool met = run.meets_threshold && record.valid();
  return Json{{"train_au_percentage", au},
              {"train_au_mean_percentage", run.au_mean_percent},
              {"train_au_meet_expectation", met ? "success" : "fail"},
              {"train_au_stdev_percentage", run.au_stdev_percent},
              {"train_throughput_samples_per_second", samples},
              {"train_throughput_mean_samples_per_second", run.samples_mean},
              {"train_throughput_stdev_samples_per_second", run.samples_stdev},
              {"train_io_mean_MB_per_second", run.mib_mean},
              {"train_io_stdev_MB_per_second", run.mib_stdev}};
}

/// Every epoch as it was: when, whether whole, and each accelerator's AU (the public fields have its mean
/// only).
Json EpochsJson(const RunRecord& record) {
  Json out = Json::array();
  for (const EpochLog& epoch : record.log.epochs) {
    const EpochFigures figures = ComputeEpoch(record.metric, epoch);
    out.push_back(Json{{"unix_start", epoch.unix_start},
                       {"unix_end", epoch.unix_end},
                       {"complete", epoch.complete},
                       {"au_percent", figures.au_percent},
                       {"samples_per_second", figures.samples_per_s},
                       {"au_percent_per_accelerator", figures.au_per_rank}});
  }
  return out;
}

Json StokerJson(const RunRecord& record) {
  const Command& command = record.command;
  const ReadStats& reads = record.log.reads;
  const HarnessFigures& harness = record.harness;
  const double mib = static_cast<double>(kMiB);
  Json out;
  out["version"] = STOKER_VERSION;
  out["status"] = record.status();
  out["partial"] = !record.complete();
  out["valid"] = record.valid();
  if (!record.log.failure.ok()) out["failure"] = record.log.failure.message();
  if (!record.note.empty()) out["note"] = record.note;
  out["mlperf"] = Name(command.profile.edition);
  out["workload"] = command.profile.workload;
  out["accelerator"] = command.profile.accelerator;
  out["division"] = DivisionOf(command);
  out["rules"] = Json{{"metric", Name(command.rules.metric)},
                      {"file_layout", Name(command.rules.file_layout)},
                      {"order", Name(command.rules.order)},
                      {"read_shape", Name(command.rules.read_shape)},
                      {"cache_control", Name(command.rules.cache_control)},
                      {"null_storage", command.null_storage},
                      {"seed", command.seed}};
  out["rule_overrides"] = command.rule_overrides;
  out["overrides"] = command.profile.overridden;
  Json parameters = Json::object();
  for (const auto& [key, value] : EffectiveParams(command.profile)) parameters[key] = value;
  out["parameters"] = std::move(parameters);
  out["data_dir"] = command.data_dir;
  out["host_memory_bytes"] = record.host.memory_bytes;
  out["au_threshold_percent"] = 100 * record.metric.au_threshold;
  out["steps_per_epoch"] = record.steps;
  out["epochs_complete"] = std::count_if(record.log.epochs.begin(), record.log.epochs.end(),
                                         [](const EpochLog& epoch) { return epoch.complete; });
  out["epochs"] = EpochsJson(record);
  out["files_read"] = reads.files;
  out["read_errors"] = reads.errors;
  if (!reads.first_error.empty()) out["first_read_error"] = reads.first_error;
  out["true_bytes"] = reads.bytes;
  out["true_MiB_per_second"] = harness.bytes_per_s / mib;
  out["true_MB_per_second"] = harness.bytes_per_s / 1e6;
  out["nominal_MiB_per_second"] = record.figures.mib_mean;
  out["demand_MiB_per_second"] = record.demand.bytes_per_s / mib;
  out["read_file_latency_us"] = LatencyJson(reads.file_ns);
  out["read_call_latency_us"] = LatencyJson(reads.call_ns);
  out["cpu_user_seconds"] = record.log.cpu_user_s;
  out["cpu_system_seconds"] = record.log.cpu_system_s;
  out["cpu_seconds_per_GB"] = harness.cpu_s_per_gb;
  if (record.probe) out["probe"] = ProbeJson(*record.probe);
  if (record.self_test_au) out["self_test_au_percent"] = *record.self_test_au;
  out["client_cores"] = record.cpu.cores;
  out["client_cpu_share"] = record.cpu.process;
  out["machine_cpu_share"] = record.cpu.machine;
  out["client_cpu_limits"] = record.cpu.client_limits();
  out["wall_seconds"] = harness.wall_s;
  out["step_overhead_us_mean"] = harness.step_overhead_us;
  out["barrier_wait_seconds_mean"] = harness.barrier_wait_s;
  out["load_wait_seconds_per_rank"] = harness.load_wait_s;
  out["batches_in_flight_per_rank"] =
      BatchesInFlight(command.profile.read_threads, command.profile.prefetch_size);
  out["cache_state"] = CacheJson(record.cache, reads.bytes);
  if (!record.hosts.empty()) {
    out["message_library"] = record.message_library;
    Json hosts = Json::array();
    for (const HostShare& share : record.hosts) hosts.push_back(HostJson(share));
    out["hosts"] = hosts;
  }
  return out;
}

double StartOf(const RunRecord& record) {
  return record.log.epochs.empty() ? 0 : record.log.epochs.front().unix_start;
}
double EndOf(const RunRecord& record) {
  return record.log.epochs.empty() ? 0 : record.log.epochs.back().unix_end;
}

std::string Seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", seconds);
  return text;
}

/// Adds a key that is not there yet. An ordered object's [] looks at every key: with a million epochs it
/// would take an hour.
void Append(Json& object, std::string key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(std::move(key), std::move(value));
}

/// Epoch and block times; one block an epoch, since nothing interrupts it.
Json EpochStats(const RunRecord& record) {
  Json out = Json::object();
  for (size_t i = 0; i < record.log.epochs.size(); ++i) {
    const EpochLog& epoch = record.log.epochs[i];
    const std::string start = IsoTime(epoch.unix_start);
    const std::string end = IsoTime(epoch.unix_end);
    const std::string duration = Seconds(epoch.unix_end - epoch.unix_start);
    Append(out, std::to_string(i + 1),
           Json{{"start", start},
                {"block1", {{"start", start}, {"end", end}, {"duration", duration}}},
                {"end", end},
                {"duration", duration}});
  }
  return out;
}

Json RankOutput(const RunRecord& record, size_t rank) {
  Json out = Json::object();
  for (size_t i = 0; i < record.log.epochs.size(); ++i) {
    const EpochLog& epoch = record.log.epochs[i];
    if (rank >= epoch.ranks.size()) continue;
    const StepArrays arrays = ArraysOf(record.metric, epoch.ranks[rank]);
    const RankFigures figures = ComputeRank(record.metric, epoch.ranks[rank]);
    Append(out, std::to_string(i + 1),
           Json{{"load", {{"block1", arrays.load}}},
                {"proc", {{"block1", arrays.proc}}},
                {"compute", {{"block1", arrays.compute}}},
                {"au", {{"block1", figures.au_percent}}},
                {"throughput", {{"block1", figures.samples_per_s}}}});
  }
  return out;
}

/// A value as YAML reads it back: double quotes with JSON's escapes, unless it is plain.
std::string YamlScalar(const std::string& value) {
  if (value.empty()) return "''";
  const bool plain = value.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                         "_./+-") == std::string::npos;
  return plain && value.front() != '-' ? value
                                       : Json(value).dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// The profile's keys as nested YAML.
std::string ConfigYaml(const RunRecord& record) {
  std::string out = "workload: " + YamlScalar(record.command.profile.workload) +
                    "\naccelerator: " + YamlScalar(record.command.profile.accelerator) +
                    "\nmlperf: " + std::string(Name(record.command.profile.edition)) +
                    "\nnum_accelerators: " + std::to_string(record.command.accelerators) + "\n";
  std::string section;
  for (const auto& [key, value] : EffectiveParams(record.command.profile)) {
    const size_t dot = key.find('.');
    if (dot == std::string::npos) {  // beside the sections
      out += key + ": " + YamlScalar(value) + "\n";
      continue;
    }
    if (key.substr(0, dot) != section) {
      section = key.substr(0, dot);
      out += section + ":\n";
    }
    out += "  " + key.substr(dot + 1) + ": " + YamlScalar(value) + "\n";
  }
  return out;
}

/// The first line is where the public report of v1.0 finds model and accelerator.
std::string OverridesYaml(const RunRecord& record) {
  const Profile& profile = record.command.profile;
  std::string out = "- workload=" + profile.workload + "_" + profile.accelerator + "\n";
  for (const std::string& assignment : profile.overridden) out += "- " + assignment + "\n";
  return out;
}

}  // namespace

std::string DivisionOf(const Command& command) {
  if (command.profile.division != "closed" || command.null_storage) return "whatif";
  for (const std::string& assignment : command.profile.overridden) {
    const std::string key = assignment.substr(0, assignment.find('='));
    if (ClassOfOverride(command.profile.edition, key) != OverrideClass::kClosed) return "open";
  }
  return command.rule_overrides.empty() ? "closed" : "open";
}

std::string ResultsFolder(const Command& command, const std::string& hostname, std::time_t now) {
  std::tm local{};
  ::localtime_r(&now, &local);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d_%H%M%S", &local);
  const std::string model = command.profile.workload;
  switch (command.rules.results_layout) {
    case ResultsLayout::kV2:
      return command.results_dir + "/training/" + model + "/run/" + time;
    case ResultsLayout::kV3:
      return command.results_dir + "/" + DivisionOf(command) + "/" +
             (command.org.empty() ? "local" : command.org) + "/results/" +
             (command.system.empty() ? hostname : command.system) + "/training/" + model + "/run/" + time;
    case ResultsLayout::kFlat:
      break;
  }
  return command.results_dir;
}

Result<std::unique_ptr<ResultsDir>> ResultsDir::Reserve(const std::string& folder) {
  const auto unusable = [&](int error) {
    return Status(Code::kInvalidArgument,
                  "cannot write results to " + folder + ": " +
                      std::error_code(error, std::generic_category()).message() +
                      "; give a writable --results-dir",
                  error);
  };
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return unusable(error.value());
  const std::string mark = folder + "/" + kMarkName;
  Fd fd(::open(mark.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return unusable(errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return Status(Code::kBusy, "another run is writing to " + folder + "; give another --results-dir");
  }
  if (::access((folder + "/summary.json").c_str(), F_OK) == 0) {
    ::unlink(mark.c_str());
    return Status(Code::kAlreadyExists,
                  folder + " already holds a run (summary.json); give another --results-dir");
  }
  return std::unique_ptr<ResultsDir>(new ResultsDir(folder, std::move(fd)));
}

ResultsDir::~ResultsDir() {
  ::unlink((folder_ + "/" + kMarkName).c_str());
}

Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return Status::FromErrno(error.value(), path);
  Fd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return Status::FromErrno(errno, part);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(fd.get(), text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Status::FromErrno(errno, part);
    done += static_cast<size_t>(put);
  }
  if (::close(fd.Release()) != 0) return Status::FromErrno(errno, part);
  if (::rename(part.c_str(), path.c_str()) != 0) return Status::FromErrno(errno, path);
  return Status::Ok();
}

Status ResultsDir::Write(const std::string& name, const std::string& text) {
  return WriteWhole(folder_ + "/" + name, text);
}

bool RunRecord::complete() const {
  return log.epochs_planned > 0 && log.epochs.size() == log.epochs_planned &&
         std::all_of(log.epochs.begin(), log.epochs.end(),
                     [](const EpochLog& epoch) { return epoch.complete; });
}

std::string RunRecord::status() const {
  if (!log.failure.ok() || log.reads.errors > 0) return "failed";
  return complete() ? "complete" : "interrupted";
}

std::string SummaryJson(const RunRecord& record) {
  const Command& command = record.command;
  const double nominal_bytes = static_cast<double>(command.profile.num_files_train) *
                               static_cast<double>(command.profile.num_samples_per_file) *
                               command.profile.record_bytes;
  const bool hosts_known = command.rules.results != Edition::kV05;
  Json out;
  if (!hosts_known) out["model"] = command.profile.workload;
  out["start"] = IsoTime(StartOf(record));
  out["end"] = IsoTime(EndOf(record));
  out["num_accelerators"] = command.accelerators;
  std::vector<HostInfo> hosts;
  for (const HostShare& share : record.hosts) hosts.push_back(share.host);
  if (hosts.empty()) hosts.push_back(record.host);
  // What one host reads in an epoch.
  const double host_bytes = nominal_bytes / static_cast<double>(hosts.size());
  if (hosts_known) out["num_hosts"] = hosts.size();
  out["hostname"] = record.host.hostname;
  out["metric"] = MetricJson(record);
  out["num_files_train"] = command.profile.num_files_train;
  out["num_files_eval"] = 0;
  out["num_samples_per_file"] = command.profile.num_samples_per_file;
  out["epochs"] = command.profile.epochs;
  if (hosts_known) {
    Json cpus = Json::array();
    Json memory_gb = Json::array();
    Json caching = Json::array();
    for (const HostInfo& host : hosts) {
      const auto memory = static_cast<double>(host.memory_bytes);
      cpus.push_back(host.cpus);
      memory_gb.push_back(memory / static_cast<double>(kGiB));
      caching.push_back(host_bytes <= memory ? 1 : 0);
    }
    out["host_cpu_count"] = cpus;
    out["host_processor_name"] = record.host.processor;
    out["host_cpuinfo"] = record.host.cpuinfo;
    out["host_meminfo"] = record.host.meminfo;
    out["host_memory_GB"] = memory_gb;
    out["potential_caching"] = caching;
    out["data_size_per_host_GB"] = host_bytes / static_cast<double>(kGiB);
  }
  out["stoker"] = StokerJson(record);
  return Dump(out);
}

Result<std::string> WriteResults(ResultsDir& dir, const RunRecord& record) {
  const bool per_rank_stats =
      record.command.rules.results == Edition::kV20 || record.command.rules.results == Edition::kV30;
  const std::string stats = Dump(EpochStats(record));
  if (!per_rank_stats) RETURN_IF_ERROR(dir.Write("per_epoch_stats.json", stats));
  for (uint64_t rank = 0; rank < record.command.accelerators; ++rank) {
    const std::string prefix = std::to_string(rank) + "_";
    if (per_rank_stats) RETURN_IF_ERROR(dir.Write(prefix + "per_epoch_stats.json", stats));
    RETURN_IF_ERROR(dir.Write(prefix + "output.json", Dump(RankOutput(record, rank))));
  }
  const std::string configs = per_rank_stats ? "dlio_config/" : "configs/";
  RETURN_IF_ERROR(dir.Write(configs + "config.yaml", ConfigYaml(record)));
  RETURN_IF_ERROR(dir.Write(configs + "overrides.yaml", OverridesYaml(record)));
  if (!record.series.points.empty()) {
    RETURN_IF_ERROR(dir.Write("timeseries.json", TimeSeriesJson(record.series)));
  }
  RETURN_IF_ERROR(dir.Write("summary.json", SummaryJson(record)));
  return dir.folder() + "/summary.json";
}

}  // namespace stoker::bench
