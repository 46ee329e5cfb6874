#include "workload/cli/verb_profiles.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "cache/base/units.h"
#include "workload/base/console.h"

namespace stoker::bench {
namespace {

using Json = nlohmann::ordered_json;

/// What one accelerator that never waits asks for.
struct Asked {
  double samples_per_s = 0;
  double bytes_per_s = 0;       // nominal record, as all public figures
  double read_bytes_per_s = 0;  // of the columns that are read; other formats: nominal
};

Asked AskedBy(const Profile& profile) {
  Asked out;
  out.samples_per_s = static_cast<double>(profile.batch_size) / profile.computation_time;
  out.bytes_per_s = out.samples_per_s * profile.record_bytes;
  const bool columns = profile.format == Format::kParquet && !profile.columns.empty();
  out.read_bytes_per_s =
      columns ? out.samples_per_s * static_cast<double>(ReadRowBytes(profile.columns)) : out.bytes_per_s;
  return out;
}

/// Enough digits for the smallest (bert: 0.124 MB/s) without drowning the largest.
std::string Rate(double value) {
  return Text(value < 1 ? "%.3f" : "%.1f", value);
}

Json ToJson(const Profile& profile) {
  const Asked asked = AskedBy(profile);
  Json out;
  out["workload"] = profile.workload;
  out["edition"] = Name(profile.edition);
  out["accelerator"] = profile.accelerator;
  out["division"] = profile.division;
  out["format"] = Name(*profile.format);
  out["samples_per_second"] = asked.samples_per_s;
  out["demand_MB_per_second"] = asked.bytes_per_s / 1e6;
  out["demand_MiB_per_second"] = asked.bytes_per_s / static_cast<double>(kMiB);
  out["read_MiB_per_second"] = asked.read_bytes_per_s / static_cast<double>(kMiB);
  out["bytes_per_step"] = profile.record_bytes * static_cast<double>(profile.batch_size);
  out["au_threshold"] = profile.au;
  Json& params = out["params"];
  for (const auto& [key, value] : EffectiveParams(profile)) params[key] = value;
  return out;
}

void PrintTable(const std::vector<Profile>& profiles) {
  std::printf("%-10s %-5s %-6s %-8s %-8s %9s %9s %6s %12s %10s %10s %5s\n", "workload", "round", "accel.",
              "division", "format", "files", "samples/f", "batch", "samples/s", "MB/s", "MiB/s", "AU %");
  for (const Profile& profile : profiles) {
    const Asked asked = AskedBy(profile);
    std::printf(
        "%-10s %-5s %-6s %-8s %-8s %9llu %9llu %6llu %12s %10s %10s %5s\n", profile.workload.c_str(),
        std::string(Name(profile.edition)).c_str(), profile.accelerator.c_str(), profile.division.c_str(),
        std::string(Name(*profile.format)).c_str(), static_cast<unsigned long long>(profile.num_files_train),
        static_cast<unsigned long long>(profile.num_samples_per_file),
        static_cast<unsigned long long>(profile.batch_size), Text("%.2f", asked.samples_per_s).c_str(),
        Rate(asked.bytes_per_s / 1e6).c_str(), Rate(asked.bytes_per_s / static_cast<double>(kMiB)).c_str(),
        Text("%g", 100 * profile.au).c_str());
  }
  Print(
      "samples/s, MB/s (10^6 bytes) and MiB/s: what one accelerator that never waits asks for. One profile "
      "in full: "
      "stoker-bench profiles NAME");
}

void PrintOne(const Profile& profile) {
  const Asked asked = AskedBy(profile);
  const double mib = static_cast<double>(kMiB);
  Print(profile.workload + ", " + std::string(Name(profile.edition)) + ", " + profile.accelerator +
        ", division " + profile.division);
  Print("demand of one accelerator: " + Text("%.2f", asked.samples_per_s) + " samples/s, " +
        Rate(asked.bytes_per_s / 1e6) + " MB/s = " + Rate(asked.bytes_per_s / mib) + " MiB/s, " +
        Text("%.2f", profile.record_bytes * static_cast<double>(profile.batch_size) / mib) + " MiB a step");
  if (asked.read_bytes_per_s != asked.bytes_per_s) {
    Print("of which the columns that are read: " + Rate(asked.read_bytes_per_s / 1e6) +
          " MB/s = " + Rate(asked.read_bytes_per_s / mib) + " MiB/s");
  }
  for (const auto& [key, value] : EffectiveParams(profile)) Print(key + "=" + value);
}

/// The newest round that has the pair, or (`accelerator` empty) the workload at all.
Result<Edition> NewestEdition(const std::vector<ProfileKey>& keys, const std::string& workload,
                              const std::string& accelerator) {
  std::set<std::string> workloads;
  std::set<std::string> accelerators;
  const ProfileKey* best = nullptr;
  for (const ProfileKey& key : keys) {
    workloads.insert(key.workload);
    if (key.workload != workload) continue;
    accelerators.insert(key.accelerator);
    if (!accelerator.empty() && key.accelerator != accelerator) continue;
    if (best == nullptr || key.edition > best->edition) best = &key;
  }
  if (best != nullptr) return best->edition;
  const bool known = workloads.count(workload) != 0;
  const std::set<std::string>& names = known ? accelerators : workloads;
  return Status(Code::kInvalidArgument,
                NotOneOf(known ? "--accelerator" : "profiles", known ? accelerator : workload,
                         {names.begin(), names.end()}));
}

}  // namespace

void ProfilesVerb::AddFlags(CLI::App& app) {
  app.add_option("NAME", one_, "Show this workload's effective profile instead of the list");
  app.add_option("--mlperf", mlperf_, "Only this round (default: all; with NAME: the newest that has it)");
  app.add_option("--accelerator,--accelerator-type", accelerator_,
                 "Only this accelerator (with NAME: default the round's own)");
  app.add_option("--param", params_, "key=value: with this key overridden; repeatable; needs NAME")
      ->allow_extra_args(false);
  app.add_option("--profiles-dir", profiles_dir_, "Folder of WORKLOAD.yaml files, looked at first");
  app.add_flag("--json", json_, "One JSON array (with NAME: one object) instead of text");
}

Status ProfilesVerb::Check() {
  RETURN_IF_ERROR(CheckProfilesDir(profiles_dir_));
  const std::vector<std::string> dirs = ProfileDirs(profiles_dir_);
  if (one_.empty() && !params_.empty()) {
    return {Code::kInvalidArgument,
            "--param needs the name of a profile: stoker-bench profiles NAME --param " + params_.front()};
  }
  std::optional<Edition> edition;
  if (!mlperf_.empty()) {
    ASSIGN_OR_RETURN(edition, ParseEdition("--mlperf", mlperf_));
  }
  ASSIGN_OR_RETURN(const std::vector<ProfileKey> keys, ListProfiles(dirs));
  if (!one_.empty()) {
    if (!edition) {
      ASSIGN_OR_RETURN(edition, NewestEdition(keys, one_, accelerator_));
    }
    ASSIGN_OR_RETURN(Profile profile, LoadProfile(dirs, one_, *edition, accelerator_));
    for (const std::string& param : params_) RETURN_IF_ERROR(ApplyParam(profile, param));
    RETURN_IF_ERROR(CheckProfile(profile));
    profiles_.push_back(std::move(profile));
    return Status::Ok();
  }
  std::set<std::string> accelerators;
  for (const ProfileKey& key : keys) {
    accelerators.insert(key.accelerator);
    if ((edition && key.edition != *edition) || (!accelerator_.empty() && key.accelerator != accelerator_))
      continue;
    ASSIGN_OR_RETURN(Profile profile, LoadProfile(dirs, key.workload, key.edition, key.accelerator));
    profiles_.push_back(std::move(profile));
  }
  if (!accelerator_.empty() && accelerators.count(accelerator_) == 0) {
    return {Code::kInvalidArgument,
            NotOneOf("--accelerator", accelerator_, {accelerators.begin(), accelerators.end()})};
  }
  return Status::Ok();
}

int ProfilesVerb::Run(const CancelToken&) {
  if (json_) {
    Json out = Json::array();
    for (const Profile& profile : profiles_) out.push_back(ToJson(profile));
    Print((one_.empty() ? out : out.front()).dump(2));
  } else if (one_.empty()) {
    PrintTable(profiles_);
  } else {
    PrintOne(profiles_.front());
  }
  return kExitPass;
}

}  // namespace stoker::bench
