#include "workload/run/training_team.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "workload/base/host.h"
#include "workload/run/share_codec.h"
#include "workload/train/log_codec.h"

namespace stoker::bench {
namespace {

using Json = nlohmann::json;

/// What is waited for at least, however short --step-timeout is: a slow mount takes its time to be looked at.
constexpr Nanos kLeastPatience = std::chrono::minutes(1);
/// For the log of a process whose run was cut short: this beyond its grace for reads that hang.
constexpr Nanos kCutPatience = std::chrono::seconds(6);
constexpr Nanos kLongest = std::chrono::hours(7 * 24);
constexpr Nanos kLeave = std::chrono::seconds(20);

std::string Lines(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "\n") + line;
  return out;
}

/// K of "run-K", 0 for other names.
uint64_t RunNumber(const std::string& name) {
  uint64_t number = 0;
  if (name.compare(0, 4, "run-") != 0) return 0;
  const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : 0;
}

/// One more than the highest run-K in `folder`.
uint64_t NextRun(const std::string& folder) {
  uint64_t highest = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    highest = std::max(highest, RunNumber(entry.path().filename().string()));
  }
  return highest + 1;
}

/// Which exit status tells most: failed, usage, interrupted, under the threshold, passed.
int Worse(int a, int b) {
  static constexpr int kOrder[] = {1, 2, 4, 3};
  for (const int status : kOrder) {
    if (a == status || b == status) return status;
  }
  return std::max(a, b);
}

/// Counts of one host's daemon added to those of others.
void AddDaemon(const DaemonCounters& more, DaemonCounters& into) {
  for (uint64_t DaemonCounters::*count :
       {&DaemonCounters::read_hits, &DaemonCounters::read_misses, &DaemonCounters::bytes_cache,
        &DaemonCounters::bytes_delivered, &DaemonCounters::bytes_ufs, &DaemonCounters::opens,
        &DaemonCounters::passthrough_opens, &DaemonCounters::read_errors, &DaemonCounters::ufs_errors}) {
    into.*count += more.*count;
  }
}

double Busy(const CpuUse& cpu) {
  return std::max(cpu.process, cpu.machine);
}

/// The whole run's caches: daemons added up when every host has one, means of shares.
void MergeCaches(const std::vector<HostShare>& hosts, CacheState& out) {
  out.daemon = hosts.front().cache.daemon;
  for (size_t i = 1; i < hosts.size(); ++i) {
    if (out.daemon && hosts[i].cache.daemon) {
      AddDaemon(*hosts[i].cache.daemon, *out.daemon);
    } else if (out.daemon || hosts[i].cache.daemon || !hosts[i].cache.daemon_note.empty()) {
      out.daemon.reset();
      out.daemon_note = "host " + hosts[i].host.hostname + ": " +
                        (hosts[i].cache.daemon_note.empty() ? "other counters than on other hosts"
                                                            : hosts[i].cache.daemon_note);
      break;
    }
  }
  for (std::optional<double> CacheState::*share :
       {&CacheState::page_cache_before, &CacheState::page_cache_after}) {
    double sum = 0;
    size_t known = 0;
    for (const HostShare& host : hosts) {
      if (!(host.cache.*share)) continue;
      sum += *(host.cache.*share);
      ++known;
    }
    out.*share = known > 0 ? std::optional<double>(sum / static_cast<double>(known)) : std::nullopt;
  }
}

}  // namespace

TrainingTeam::TrainingTeam(std::unique_ptr<Communicator> world) : world_(std::move(world)) {}

Status TrainingTeam::Broken(Status why) {
  whole_ = false;
  return why;
}

Result<std::vector<ProcessReport>> TrainingTeam::Exchange(const ProcessReport& mine) {
  const auto sent = world_->Gather(EncodeReport(mine), patience_);
  if (!sent.ok()) return Broken(sent.status());
  std::vector<ProcessReport> out;
  for (size_t i = 0; i < sent->size(); ++i) {
    const std::optional<std::string>& text = (*sent)[i];
    if (!text) {
      return Broken(Status(Code::kDeadlineExceeded, world_->NameOf(i) +
                                                        " did not get ready within a minute or more: "
                                                        "does its data folder hang?"));
    }
    Result<ProcessReport> report = DecodeReport(*text);
    if (!report.ok()) {
      return Broken(
          Status(Code::kInvalidArgument,
                 world_->NameOf(i) + " runs another version of stoker-bench: " + report.status().message()));
    }
    out.push_back(std::move(*report));
  }
  return out;
}

Status TrainingTeam::Assemble(Command& command, bool training) {
  accelerators_ = command.accelerators;
  if (alone()) return Status::Ok();
  patience_ = std::max(command.step_timeout, kLeastPatience);
  independent_ = training && command.profile.edition == Edition::kV05;
  mine_.version = STOKER_VERSION;
  mine_.hostname = ReadHostInfo().hostname;
  mine_.parameters = SharedParameters(command);
  ASSIGN_OR_RETURN(std::vector<ProcessReport> reports, Exchange(mine_));
  Json told;
  if (speaks()) {
    const Findings findings =
        training ? CheckCrew(reports, command.accelerators, independent_) : CheckSame(reports);
    told["faults"] = Lines(findings.faults);
    told["run"] = independent_ ? NextRun(command.results_dir) : 0;
    for (const ProcessReport& report : reports) told["hosts"].push_back(report.hostname);
  }
  const auto heard = world_->Broadcast(told.dump(), patience_);
  if (!heard.ok()) return Broken(heard.status());
  const Json all = Json::parse(*heard, nullptr, false);
  if (all.is_discarded()) return Broken(Status(Code::kUnavailable, "process 0 said what nobody understands"));
  const std::string faults = all.at("faults").get<std::string>();
  if (!faults.empty()) return Status(Code::kInvalidArgument, speaks() ? faults : "");
  reports.resize(world_->size());
  for (size_t i = 0; i < reports.size(); ++i) reports[i].hostname = all.at("hosts").at(i).get<std::string>();
  return Assembled(command, reports, all.at("run").get<uint64_t>());
}

Status TrainingTeam::Assembled(Command& command, const std::vector<ProcessReport>& reports,
                               uint64_t run_number) {
  crew_ = CrewOf(reports);
  world_->SetNames(ProcessNames(crew_, command.accelerators));
  if (independent_) {
    const size_t host = crew_.host_of[world_->rank()];
    auto part = world_->Split(host);
    if (!part.ok()) return Broken(part.status());
    part_ = std::move(*part);
    accelerators_ = command.accelerators / crew_.hosts.size();
    command.accelerators = accelerators_;
    std::vector<std::string> names;
    for (size_t i = 0; i < crew_.host_of.size(); ++i) {
      if (crew_.host_of[i] == host) names.push_back(world_->NameOf(i));
    }
    part_->SetNames(std::move(names));
    const std::filesystem::path given(command.results_dir);
    const bool numbered = RunNumber(given.filename().string()) > 0;
    independent_folder_ = (numbered ? given : given / ("run-" + std::to_string(run_number))) /
                          ("host-" + std::to_string(host + 1));
  }
  auto clocks = run().MeasureClocks(patience_);
  if (!clocks.ok()) return Broken(clocks.status());
  clocks_ = std::move(*clocks);
  return Status::Ok();
}

Status TrainingTeam::Ready(const Status& problem, const TrainingPlan* plan,
                           std::vector<std::string>& warnings) {
  if (alone()) return problem;
  mine_.problem = problem.message();
  mine_.parameters.clear();
  if (plan != nullptr && !plan->record.command.null_storage) {
    const Dataset& dataset = plan->options.dataset;
    mine_.data_folder = dataset.folder;
    mine_.dataset_files = dataset.files;
    if (plan->record.cache.mount) mine_.fstype = plan->record.cache.mount->fstype;
    struct stat info;
    if (::stat(dataset.Path(0).c_str(), &info) == 0)
      mine_.first_file_bytes = static_cast<uint64_t>(info.st_size);
  }
  ASSIGN_OR_RETURN(std::vector<ProcessReport> reports, Exchange(mine_));
  const auto clocks = world_->MeasureClocks(patience_);
  if (!clocks.ok()) return Broken(clocks.status());
  std::string faults;
  if (speaks()) {
    for (size_t i = 0; i < reports.size(); ++i) reports[i].clock_ahead_s = (*clocks)[i].wall_s;
    const Findings findings = CheckReadiness(reports, independent_);
    faults = Lines(findings.faults);
    warnings = findings.warnings;
  }
  const auto heard = world_->Broadcast(faults, patience_);
  if (!heard.ok()) return Broken(heard.status());
  if (heard->empty()) return Status::Ok();
  return Status(Code::kInvalidArgument, speaks() ? faults : "");
}

std::string TrainingTeam::Describe() const {
  const uint64_t each = accelerators_ / run().size();
  std::string out = std::to_string(world_->size()) + " processes on " + std::to_string(crew_.hosts.size()) +
                    (crew_.hosts.size() == 1 ? " host, " : " hosts, ") + std::to_string(each) +
                    (each == 1 ? " accelerator each (" : " accelerators each (") + world_->Library() + "); ";
  return out + (independent_ ? "each host is a run of its own; what follows is of host " + crew_.hosts.front()
                             : "lines per epoch are of process 0's");
}

void TrainingTeam::Share(TrainingPlan& plan) {
  if (alone()) return;
  const uint64_t each = accelerators_ / run().size();
  plan.options.ranks = each;
  plan.options.first_rank = each * run().rank();
  plan.options.others = &run();
  plan.host_ranks = each * crew_.processes_on[crew_.host_of[world_->rank()]];
}

Result<RunRecord> TrainingTeam::Collect(RunRecord mine) {
  if (alone()) return mine;
  const bool cut = mine.log.interrupted || !mine.log.failure.ok();
  const auto sent = run().Gather(run().rank() == 0 ? "" : EncodeShare(mine),
                                 cut ? TrainerOptions().stop_grace + kCutPatience : patience_);
  if (!sent.ok()) return Broken(sent.status());
  if (!leads()) return mine;
  const uint64_t each = accelerators_ / run().size();
  std::vector<LogPart> parts(run().size());
  std::vector<RunRecord> records(run().size());
  for (uint64_t i = 0; i < parts.size(); ++i) {
    LogPart& part = parts[i];
    part.name = run().NameOf(i);
    part.first_rank = i * each;
    part.ranks = each;
    part.clock_ahead_s = clocks_[i].steady_s;
    if (i == 0) {
      records[i] = mine;
    } else if ((*sent)[i]) {
      Result<RunRecord> record = DecodeShare(*(*sent)[i]);
      if (!record.ok())
        return Broken(Status(Code::kUnavailable, part.name + ": " + record.status().message()));
      records[i] = std::move(*record);
    } else {
      whole_ = false;
      continue;
    }
    part.received = true;
    part.log = std::move(records[i].log);
  }
  RunRecord out = std::move(mine);
  for (uint64_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].received) continue;
    const RunRecord& record = records[i];
    size_t at = 0;
    while (at < out.hosts.size() && out.hosts[at].host.hostname != record.host.hostname) ++at;
    if (at == out.hosts.size()) {
      out.hosts.emplace_back();
      out.hosts[at].host = record.host;
      out.hosts[at].cache = record.cache;
    }
    HostShare& share = out.hosts[at];
    ++share.processes;
    share.accelerators += each;
    share.true_bytes += parts[i].log.reads.bytes;
    share.cpu_s += parts[i].log.cpu_user_s + parts[i].log.cpu_system_s;
    if (Busy(record.cpu) >= Busy(share.cpu)) share.cpu = record.cpu;
    if (Busy(record.cpu) > Busy(out.cpu)) out.cpu = record.cpu;
  }
  out.message_library = run().Library();
  out.log = MergeLogs(parts);
  MergeCaches(out.hosts, out.cache);
  out.figures = ComputeRun(out.metric, out.log.epochs);
  out.harness = ComputeHarness(out.log);
  return out;
}

int TrainingTeam::End(const Outcome& mine, std::vector<Outcome>& outcomes) {
  if (alone()) return mine.exit_status;
  // Other hosts' runs go on without those that this one lost; the end below will not be a good one then.
  if (!whole_ && !independent_) world_->Abort(mine.exit_status);
  // An independent host may be slower than this one by any time.
  const Nanos wait = independent_ ? kLongest : patience_;
  const Json text{{"host", mine.host},     {"status", mine.exit_status},
                  {"au", mine.au_percent}, {"samples", mine.samples_per_s},
                  {"mib", mine.mib_per_s}, {"folder", mine.folder}};
  const auto sent =
      world_->Gather(leads() ? text.dump(-1, ' ', false, Json::error_handler_t::replace) : "", wait);
  if (!sent.ok()) world_->Abort(mine.exit_status);
  int worst = mine.exit_status;
  for (const std::optional<std::string>& one : *sent) {
    if (!one) world_->Abort(worst);
    if (one->empty()) continue;
    const Json json = Json::parse(*one, nullptr, false);
    if (json.is_discarded()) continue;
    Outcome outcome;
    outcome.host = json.at("host").get<std::string>();
    outcome.exit_status = json.at("status").get<int>();
    outcome.au_percent = json.at("au").get<double>();
    outcome.samples_per_s = json.at("samples").get<double>();
    outcome.mib_per_s = json.at("mib").get<double>();
    outcome.folder = json.at("folder").get<std::string>();
    worst = Worse(worst, outcome.exit_status);
    if (independent_) outcomes.push_back(std::move(outcome));
  }
  const auto status = world_->Broadcast(std::to_string(worst), wait);
  if (!status.ok()) world_->Abort(worst);
  worst = std::atoi(status->c_str());
  if (part_ != nullptr && !part_->Finish(kLeave).ok()) world_->Abort(worst);
  if (!world_->Finish(kLeave).ok()) world_->Abort(worst);
  return worst;
}

}  // namespace stoker::bench
