#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cache/base/result.h"
#include "fuse/path_rules.h"

namespace stoker {

/// A size in bytes, or a share of a disk whose size is known only later.
struct SizeSpec {
  uint64_t bytes = 0;
  double percent = -1;  // 0..100: of the disk; negative: `bytes` counts

  uint64_t Of(uint64_t disk_bytes) const;
  friend bool operator==(const SizeSpec&, const SizeSpec&) = default;
};

/// Every setting of the daemon, typed. Defaults, limits, meaning and reasons stand in ConfigKeys(), the one
/// list.
struct Settings {
  std::vector<std::string> cache_dirs;
  SizeSpec cache_size;
  SizeSpec cache_min_free;
  std::string cache_policy;

  bool prefetch_enable = false;
  uint64_t prefetch_threads = 0;
  uint64_t prefetch_part_length = 0;  // bytes
  uint64_t prefetch_max_parts = 0;
  uint64_t prefetch_budget = 0;  // bytes
  std::chrono::nanoseconds prefetch_deadline{};
  std::string prefetch_io;

  std::chrono::nanoseconds metadata_ttl{};
  std::chrono::nanoseconds metadata_negative_ttl{};
  uint64_t metadata_threads = 0;
  std::vector<PathRule> metadata_rules;

  std::string fuse_passthrough;
  bool fuse_allow_other = false;
  uint64_t fuse_max_background = 0;
  uint64_t fuse_open_fetch = 0;  // bytes
  uint64_t fuse_read_ahead = 0;  // bytes
  uint64_t fuse_threads = 0;     // 0: auto
  std::chrono::nanoseconds fuse_stop_grace{};

  std::string control_socket;
  std::string control_http;

  std::string log_level;
  std::string log_file;
};

enum class ConfigType {
  kBool,
  kCount,        // a whole number within [min, max]
  kAutoOrCount,  // the same, or "auto" (stored as 0)
  kBytes,
  kSize,      // bytes or % of the disk
  kDuration,  // [min, max] in nanoseconds
  kText,
  kChoice,  // one of `choices`
  kPaths,   // a list of absolute paths
  kRules,   // a list of PathRule; only a configuration file can hold one that is not empty
};

using SettingsField = std::variant<bool Settings::*, uint64_t Settings::*, SizeSpec Settings::*,
                                   std::chrono::nanoseconds Settings::*, std::string Settings::*,
                                   std::vector<std::string> Settings::*, std::vector<PathRule> Settings::*>;

/// One key of the configuration. Parsing, flags, `config show`, conf/default.yaml and docs/configuration.md
/// all come from this.
struct ConfigKey {
  std::string_view name;  // "section.key"
  ConfigType type;
  SettingsField field;
  std::string_view default_text;  // as written in YAML, in the canonical spelling
  std::string_view unit;          // what a value may look like
  uint64_t min = 0;               // kCount, kAutoOrCount, kBytes: value; kDuration: ns
  uint64_t max = 0;
  uint64_t multiple_of = 1;       // kBytes
  std::string_view choices = {};  // kChoice: "a|b|c"
  std::string_view flag = {};     // command-line flag, "" when only -o reaches it
  std::string_view meaning = {};
  std::string_view reason = {};  // why this default
};

/// All keys, grouped by section.
std::span<const ConfigKey> ConfigKeys();
/// nullptr when there is no such key.
const ConfigKey* FindConfigKey(std::string_view name);

/// Parses `text` by the key's type and limits and stores it. kInvalidArgument: the message says what is wrong
/// with the value and what would be right, without naming the key.
Status SetValue(const ConfigKey& key, std::string_view text, Settings& settings);
Status SetList(const ConfigKey& key, std::vector<std::string> items, Settings& settings);
/// The canonical spelling, which SetValue reads back ("4MiB", "90%", "60s", "[/a]").
std::string GetValue(const ConfigKey& key, const Settings& settings);
/// All keys at their defaults.
Settings DefaultSettings();

/// A key that Stoker's design names and this version does not have. `only_value`, when not empty, is what
/// happens anyway, so a file that says so is right.
struct ReservedKey {
  std::string_view name;
  std::string_view only_value;
  std::string_view why;
};
const ReservedKey* FindReservedKey(std::string_view name);

/// A property name of Alluxio's that people bring along. `native` is the key it sets here; "" means that it
/// has no meaning here, and `why` says so.
struct AlluxioKey {
  std::string_view name;
  std::string_view native;
  std::string_view why;
};
std::span<const AlluxioKey> AlluxioKeys();
const AlluxioKey* FindAlluxioKey(std::string_view name);
/// True for names in Alluxio's namespaces (alluxio.*, s3a.*, fs.s3a.*, aws.*), known or not.
bool LooksLikeAlluxio(std::string_view name);
/// A value as Alluxio means it, respelled for the native key: its sizes are binary whatever the suffix says
/// (4MB = 4 MiB) and need none (bytes).
Result<std::string> TranslateAlluxioValue(const AlluxioKey& key, std::string_view value);

/// conf/default.yaml, and docs/configuration.md.
std::string RenderDefaultYaml();
std::string RenderConfigMarkdown();
/// docs/metrics.md.
std::string RenderMetricsPage();

}  // namespace stoker
