#include "workload/base/profile.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#ifndef STOKER_PROFILES_SOURCE
#error "the build says where the profiles are"
#endif

namespace stoker::bench {
namespace {

namespace fs = std::filesystem;

/// The sections that hold dotted keys; anything else at that level is one of ours or a mistake.
const std::set<std::string>& Sections() {
  static const std::set<std::string> sections = {"dataset", "reader", "train", "metric"};
  return sections;
}

Status WrongIn(const std::string& file, const std::string& what) {
  return Status(Code::kInvalidArgument, file + ": " + what);
}

/// Applies the sections of one level. `ours`: keys of that level that are not sections.
Status ApplyLevel(Profile& profile, const YAML::Node& level, const std::string& file,
                  const std::set<std::string>& ours) {
  for (const auto& entry : level) {
    const auto name = entry.first.as<std::string>();
    if (ours.count(name) != 0) continue;
    if (Sections().count(name) == 0) {
      std::vector<std::string> allowed(Sections().begin(), Sections().end());
      allowed.insert(allowed.end(), ours.begin(), ours.end());
      return WrongIn(file, NotOneOf("key", name, allowed));
    }
    if (!entry.second.IsMap()) return WrongIn(file, name + ": a map of keys is expected here");
    for (const auto& item : entry.second) {
      if (!item.second.IsScalar()) {
        return WrongIn(file, name + "." + item.first.as<std::string>() + ": one value is expected here");
      }
      const Status set =
          SetParam(profile, name + "." + item.first.as<std::string>(), item.second.as<std::string>());
      if (!set.ok()) return WrongIn(file, set.message());
    }
  }
  return Status::Ok();
}

std::vector<std::string> KeysOf(const YAML::Node& map) {
  std::vector<std::string> keys;
  if (map && map.IsMap()) {
    for (const auto& entry : map) keys.push_back(entry.first.as<std::string>());
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

Result<Profile> ParseProfile(const YAML::Node& root, const std::string& file, const std::string& workload,
                             Edition edition, const std::string& wanted) {
  if (!root.IsMap()) return WrongIn(file, "the file must be a map");
  const YAML::Node editions = root["editions"];
  const std::string edition_name(Name(edition));
  const YAML::Node level = editions && editions.IsMap() ? editions[edition_name] : YAML::Node();
  if (!level || !level.IsMap()) {
    return Status(Code::kInvalidArgument, "--mlperf: " + workload + " is not part of " + edition_name +
                                              "; it is in " + Join(KeysOf(editions)));
  }
  Profile profile;
  profile.workload = workload;
  profile.edition = edition;
  RETURN_IF_ERROR(ApplyLevel(profile, root, file, {"workload", "editions"}));
  RETURN_IF_ERROR(ApplyLevel(profile, level, file, {"accelerators", "default_accelerator"}));

  const YAML::Node accelerators = level["accelerators"];
  profile.accelerator = wanted;
  if (wanted.empty() && level["default_accelerator"]) {
    profile.accelerator = level["default_accelerator"].as<std::string>();
  }
  const YAML::Node chosen =
      accelerators && accelerators.IsMap() ? accelerators[profile.accelerator] : YAML::Node();
  if (!chosen || !chosen.IsMap()) {
    std::string message = NotOneOf("--accelerator", profile.accelerator, KeysOf(accelerators)) + " (" +
                          workload + " under " + edition_name + ")";
    std::vector<std::string> elsewhere;
    for (const std::string& other : KeysOf(editions)) {
      const YAML::Node theirs = editions[other]["accelerators"];
      if (theirs && theirs.IsMap() && theirs[profile.accelerator]) elsewhere.push_back(other);
    }
    if (!elsewhere.empty()) message += "; it is under --mlperf " + Join(elsewhere);
    return Status(Code::kInvalidArgument, message);
  }
  profile.division = chosen["division"] ? chosen["division"].as<std::string>() : "whatif";
  RETURN_IF_ERROR(ApplyLevel(profile, chosen, file, {"division"}));
  RETURN_IF_ERROR(CheckProfile(profile));
  return profile;
}

std::vector<std::string> WorkloadsIn(const std::vector<std::string>& dirs) {
  std::set<std::string> found;
  for (const std::string& dir : dirs) {
    std::error_code error;
    for (fs::directory_iterator entry(dir, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().extension() == ".yaml") found.insert(entry->path().stem().string());
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace

std::vector<std::string> ProfileDirs(const std::string& user_dir) {
  std::vector<std::string> dirs;
  if (!user_dir.empty()) dirs.push_back(user_dir);
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) dirs.push_back((self.parent_path().parent_path() / "share/stoker/workloads").string());
  dirs.emplace_back(STOKER_PROFILES_SOURCE);
  dirs.emplace_back(STOKER_PROFILES_INSTALLED);
  return dirs;
}

Result<Profile> LoadProfile(const std::vector<std::string>& dirs, const std::string& workload,
                            Edition edition, const std::string& accelerator) {
  if (!dirs.empty() && workload.find('/') == std::string::npos && !workload.empty()) {
    for (const std::string& dir : dirs) {
      const std::string file = dir + "/" + workload + ".yaml";
      std::error_code error;
      if (!fs::exists(file, error)) continue;
      try {
        return ParseProfile(YAML::LoadFile(file), file, workload, edition, accelerator);
      } catch (const YAML::Exception& wrong) {
        return WrongIn(file, wrong.what());
      }
    }
  }
  const std::vector<std::string> known = WorkloadsIn(dirs);
  if (known.empty()) {
    return Status(Code::kInvalidArgument,
                  "no workload profiles in " + Join(dirs) + "; give their folder with --profiles-dir");
  }
  return Status(Code::kInvalidArgument, NotOneOf("--workload", workload, known));
}

}  // namespace stoker::bench
