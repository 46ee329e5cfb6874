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

/// The one key that stands beside the sections in the public files.
constexpr char kFramework[] = "framework";

Status WrongIn(const std::string& file, const std::string& what) {
  return Status(Code::kInvalidArgument, file + ": " + what);
}

/// parquet columns as the public files list them, [{name: x, dtype: float32, size: 8, read: false}, ...], as
/// the one text that the key takes.
Result<std::string> ColumnList(const YAML::Node& list, const std::string& key) {
  std::string out;
  for (const auto& column : list) {
    if (!column.IsMap() || !column["name"]) {
      return Status(Code::kInvalidArgument, key + ": each item is a map with name, dtype, size, read");
    }
    for (const auto& entry : column) {
      const auto name = entry.first.as<std::string>();
      static const std::vector<std::string> allowed = {"name", "dtype", "size", "read"};
      if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
        return Status(Code::kInvalidArgument, NotOneOf(key + ": key", name, allowed));
      }
    }
    if (!out.empty()) out += ", ";
    out += column["name"].as<std::string>() + ":" + column["dtype"].as<std::string>("float32");
    if (column["size"]) out += "*" + column["size"].as<std::string>();
    if (!column["read"].as<bool>(true)) out += ":skip";
  }
  return out;
}

/// Applies what stands below the dotted `key`: one value, or a map of further keys.
Status ApplyNode(Profile& profile, const YAML::Node& node, const std::string& key, const std::string& file) {
  if (node.IsMap()) {
    for (const auto& entry : node) {
      RETURN_IF_ERROR(ApplyNode(profile, entry.second, key + "." + entry.first.as<std::string>(), file));
    }
    return Status::Ok();
  }
  std::string value;
  if (node.IsSequence()) {
    const Result<std::string> columns = ColumnList(node, key);
    if (!columns.ok()) return WrongIn(file, columns.status().message());
    value = *columns;
  } else if (node.IsScalar()) {
    value = node.as<std::string>();
  } else {
    return WrongIn(file, key + ": one value is expected here");
  }
  const Status set = SetParam(profile, key, value);
  return set.ok() ? set : WrongIn(file, set.message());
}

/// Applies the sections of one level. `ours`: keys of that level that are not sections.
Status ApplyLevel(Profile& profile, const YAML::Node& level, const std::string& file,
                  const std::set<std::string>& ours) {
  for (const auto& entry : level) {
    const auto name = entry.first.as<std::string>();
    if (ours.count(name) != 0) continue;
    if (name == kFramework) {
      RETURN_IF_ERROR(ApplyNode(profile, entry.second, name, file));
      continue;
    }
    if (Sections().count(name) == 0) {
      std::vector<std::string> allowed(Sections().begin(), Sections().end());
      allowed.emplace_back(kFramework);
      allowed.insert(allowed.end(), ours.begin(), ours.end());
      return WrongIn(file, NotOneOf("key", name, allowed));
    }
    if (!entry.second.IsMap()) return WrongIn(file, name + ": a map of keys is expected here");
    RETURN_IF_ERROR(ApplyNode(profile, entry.second, name, file));
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

/// All pairs of one file.
Status ListFile(const std::string& file, const std::string& workload, std::vector<ProfileKey>& out) {
  const YAML::Node root = YAML::LoadFile(file);
  if (!root.IsMap()) return WrongIn(file, "the file must be a map");
  const YAML::Node editions = root["editions"];
  for (const std::string& name : KeysOf(editions)) {
    const Result<Edition> edition = ParseEdition("editions", name);
    if (!edition.ok()) return WrongIn(file, edition.status().message());
    for (const std::string& accelerator : KeysOf(editions[name]["accelerators"])) {
      out.push_back({workload, *edition, accelerator});
    }
  }
  return Status::Ok();
}

Status NoProfiles(const std::vector<std::string>& dirs) {
  return Status(Code::kInvalidArgument,
                "no workload profiles in " + Join(dirs) + "; give their folder with --profiles-dir");
}

/// `workload`.yaml in the first directory that has one; empty: in none.
std::string FileOf(const std::vector<std::string>& dirs, const std::string& workload) {
  for (const std::string& dir : dirs) {
    std::error_code error;
    std::string file = dir + "/" + workload + ".yaml";
    if (fs::exists(file, error)) return file;
  }
  return "";
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

Status CheckProfilesDir(const std::string& user_dir) {
  std::error_code error;
  if (user_dir.empty() || fs::is_directory(user_dir, error)) return Status::Ok();
  return {Code::kInvalidArgument,
          "--profiles-dir: " + user_dir + " is not a folder; give the folder of WORKLOAD.yaml files"};
}

Result<Profile> LoadProfile(const std::vector<std::string>& dirs, const std::string& workload,
                            Edition edition, const std::string& accelerator) {
  const bool plain = workload.find('/') == std::string::npos && !workload.empty();
  const std::string file = plain ? FileOf(dirs, workload) : "";
  if (!file.empty()) {
    try {
      return ParseProfile(YAML::LoadFile(file), file, workload, edition, accelerator);
    } catch (const YAML::Exception& wrong) {
      return WrongIn(file, wrong.what());
    }
  }
  const std::vector<std::string> known = WorkloadsIn(dirs);
  if (known.empty()) return NoProfiles(dirs);
  return Status(Code::kInvalidArgument, NotOneOf("--workload", workload, known));
}

Result<std::vector<ProfileKey>> ListProfiles(const std::vector<std::string>& dirs) {
  std::vector<ProfileKey> out;
  const std::vector<std::string> known = WorkloadsIn(dirs);
  if (known.empty()) return NoProfiles(dirs);
  for (const std::string& workload : known) {
    const std::string file = FileOf(dirs, workload);
    try {
      RETURN_IF_ERROR(ListFile(file, workload, out));
    } catch (const YAML::Exception& wrong) {
      return WrongIn(file, wrong.what());
    }
  }
  return out;
}

}  // namespace stoker::bench
