#include "fuse/config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cache/base/fd.h"
#include "cache/base/spelling.h"
#include "cache/base/units.h"
#include "fuse/config_rules.h"

namespace stoker {
namespace {

constexpr uint64_t kMaxConfigBytes = kMiB;  // a configuration is a page; more is the wrong file
constexpr size_t kMaxListedKeys = 20;       // refused keys named in one message

Status Invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

/// "where: message", keeping the code.
Status At(const std::string& where, const Status& status) {
  return {status.code(), where + ": " + status.message(), status.os_errno()};
}

Result<std::string> ReadSmallFile(const std::string& path, std::string_view what) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return Status::FromErrno(errno, "cannot read the " + std::string(what) + " " + path);
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) {
    return Status::FromErrno(errno, "cannot read the " + std::string(what) + " " + path);
  }
  if (!S_ISREG(st.st_mode))
    return Invalid("the " + std::string(what) + " " + path + " is not a regular file");
  std::string text;
  char buffer[16384];
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(errno, "cannot read the " + std::string(what) + " " + path);
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxConfigBytes) {
      return Invalid("the " + std::string(what) + " " + path + " is larger than " +
                     FormatBytesExact(kMaxConfigBytes) + ": is it the right file?");
    }
  }
}

std::string Suggestion(const std::string& name) {
  std::vector<std::string> names;
  std::vector<std::string> same_ending;
  const size_t dot = name.rfind('.');
  const std::string ending = dot == std::string::npos ? name : name.substr(dot + 1);
  for (const ConfigKey& key : ConfigKeys()) {
    names.emplace_back(key.name);
    if (key.name.substr(key.name.find('.') + 1) == ending) same_ending.emplace_back(key.name);
  }
  if (LooksLikeAlluxio(name)) {
    for (const AlluxioKey& key : AlluxioKeys()) names.emplace_back(key.name);
  }
  std::string nearest = NearestSpelling(name, names);
  if (nearest.empty() && same_ending.size() == 1) nearest = same_ending.front();
  if (nearest.empty()) return "`stoker config docs` lists all keys";
  return "did you mean '" + nearest + "'?";
}

/// One layer's values on their way into a Config; notices keys given twice.
class Layer {
 public:
  /// `repeat_ok`: a later value replaces an earlier one (command line).
  Layer(Config& config, bool repeat_ok) : config_(config), repeat_ok_(repeat_ok) {}

  Status Set(const std::string& where, const std::string& name, std::vector<std::string> values,
             bool is_list) {
    if (const ConfigKey* key = FindConfigKey(name)) return Store(where, *key, std::move(values), is_list, "");
    if (const AlluxioKey* alias = FindAlluxioKey(name)) {
      if (alias->native.empty()) {
        return Invalid(where + ": " + name + " is Alluxio's and has no meaning here (" +
                       std::string(alias->why) + "): remove it");
      }
      if (is_list) return Invalid(where + ": " + name + ": a list is not a value for it: write one value");
      Result<std::string> translated = TranslateAlluxioValue(*alias, values.front());
      if (!translated.ok()) return At(where + ": " + name, translated.status());
      return Store(where, *FindConfigKey(alias->native), {*translated}, false, name);
    }
    if (const ReservedKey* key = FindReservedKey(name)) {
      if (!key->only_value.empty() && values.size() == 1 && values.front() == key->only_value)
        return Status::Ok();
      if (key->only_value == "[]" && is_list && values.empty()) return Status::Ok();
      return Invalid(where + ": " + name + " is not supported by this version (" + std::string(key->why) +
                     "): remove it" +
                     (key->only_value.empty() ? "" : " or set it to " + std::string(key->only_value)));
    }
    if (LooksLikeAlluxio(name)) {
      return Invalid(where + ": unknown Alluxio key '" + name + "', it has no meaning here: remove it, or " +
                     Suggestion(name));
    }
    const std::string section = name + ".";
    for (const ConfigKey& key : ConfigKeys()) {
      if (key.name.substr(0, section.size()) != section) continue;
      return Invalid(where + ": '" + name +
                     "' is a section and has no value: write its keys below it, e.g. " +
                     std::string(key.name));
    }
    return Invalid(where + ": unknown key '" + name + "': " + Suggestion(name));
  }

  Status SetRules(const std::string& where, const ConfigKey& key, std::vector<PathRule> rules) {
    RETURN_IF_ERROR(Store(where, key, {"[]"}, false, ""));
    config_.settings.*std::get<std::vector<PathRule> Settings::*>(key.field) = std::move(rules);
    return Status::Ok();
  }

 private:
  Status Store(const std::string& where, const ConfigKey& key, std::vector<std::string> values, bool is_list,
               const std::string& alias) {
    const std::string written = alias.empty() ? std::string(key.name) : alias;
    const auto [seen, is_new] = seen_.try_emplace(std::string(key.name), where);
    if (!is_new && !repeat_ok_) {
      return Invalid(where + ": " + written + ": " + std::string(key.name) + " was set before at " +
                     seen->second + ": keep one of the two");
    }
    const Status status = is_list ? SetList(key, std::move(values), config_.settings)
                                  : SetValue(key, values.front(), config_.settings);
    if (!status.ok()) return At(where + ": " + written, status);
    config_.origins[std::string(key.name)] = {where, alias};
    return Status::Ok();
  }

  Config& config_;
  const bool repeat_ok_;
  std::map<std::string, std::string> seen_;
};

std::string LineOf(const std::string& path, const YAML::Mark& mark) {
  return path + ":" + std::to_string(mark.line + 1);
}

/// Nested maps become dotted names, so that "a: {b: 1}" and "a.b: 1" say the same.
Status WalkYaml(const std::string& path, const YAML::Node& node, const std::string& prefix, int depth,
                Layer& layer) {
  if (depth > 8) return Invalid(LineOf(path, node.Mark()) + ": nested too deeply");
  for (const auto& item : node) {
    const std::string where = LineOf(path, item.first.Mark());
    if (!item.first.IsScalar()) return Invalid(where + ": a key must be a plain word");
    const std::string name = prefix.empty() ? item.first.Scalar() : prefix + "." + item.first.Scalar();
    const YAML::Node& value = item.second;
    if (value.IsMap()) {
      if (FindConfigKey(name) != nullptr)
        return Invalid(where + ": " + name + " takes a value, not a section");
      RETURN_IF_ERROR(WalkYaml(path, value, name, depth + 1, layer));
    } else if (const ConfigKey* key = FindConfigKey(name);
               value.IsSequence() && key != nullptr && key->type == ConfigType::kRules) {
      ASSIGN_OR_RETURN(std::vector<PathRule> rules, ParseRules(path, name, value));
      RETURN_IF_ERROR(layer.SetRules(where, *key, std::move(rules)));
    } else if (value.IsSequence()) {
      std::vector<std::string> items;
      for (const auto& entry : value) {
        if (!entry.IsScalar())
          return Invalid(where + ": " + name + ": every item of the list must be one plain value");
        items.push_back(entry.Scalar());
      }
      RETURN_IF_ERROR(layer.Set(where, name, std::move(items), true));
    } else if (value.IsScalar()) {
      RETURN_IF_ERROR(layer.Set(where, name, {value.Scalar()}, false));
    } else {
      bool is_section = false;
      for (const ConfigKey& each : ConfigKeys())
        is_section |= each.name.substr(0, name.size() + 1) == name + ".";
      if (is_section) continue;  // an empty section sets nothing
      if (key == nullptr) RETURN_IF_ERROR(layer.Set(where, name, {""}, false));
      return Invalid(where + ": " + name + " has no value: write one or remove the line");
    }
  }
  return Status::Ok();
}

Status ApplyYaml(const std::string& path, Config& config) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, "configuration"));
  YAML::Node root;
  Layer layer(config, false);
  try {
    root = YAML::Load(text);
    if (root.IsNull()) return Status::Ok();
    if (!root.IsMap())
      return Invalid(path + ":1: a configuration is a list of 'section:' and 'key: value' lines");
    return WalkYaml(path, root, "", 0, layer);
  } catch (const YAML::Exception& error) {
    return Invalid(LineOf(path, error.mark) + ": not valid YAML: " + error.msg);
  } catch (const std::exception& error) {
    return Invalid(path + ": not valid YAML: " + error.what());
  }
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\f' || c == '\r';
}

/// Splits one logical line of a Java properties file. Escapes: \t \n \r \f \uXXXX is left alone, any other
/// escaped character stands for itself.
std::pair<std::string, std::string> SplitProperty(std::string_view line) {
  std::string key;
  size_t i = 0;
  const auto take = [&](std::string& to) {
    if (line[i] != '\\' || i + 1 >= line.size()) {
      to += line[i++];
      return;
    }
    const char c = line[i + 1];
    to += c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'f' ? '\f' : c;
    i += 2;
  };
  while (i < line.size() && line[i] != '=' && line[i] != ':' && !IsBlank(line[i])) take(key);
  while (i < line.size() && IsBlank(line[i])) ++i;
  if (i < line.size() && (line[i] == '=' || line[i] == ':')) ++i;
  while (i < line.size() && IsBlank(line[i])) ++i;
  std::string value;
  while (i < line.size()) take(value);
  while (!value.empty() && IsBlank(value.back())) value.pop_back();
  return {key, value};
}

Status ApplyProperties(const std::string& path, Config& config) {
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, "properties file"));
  Layer layer(config, false);
  std::vector<std::string> refused;  // every one that has no meaning here, so that one run names them all
  size_t refused_total = 0;
  std::string logical;
  size_t first_line = 0;
  size_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++line_number;
    while (!line.empty() && IsBlank(line.front())) line.remove_prefix(1);
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (logical.empty()) {
      if (line.empty() || line.front() == '#' || line.front() == '!') continue;
      first_line = line_number;
    }
    const size_t last_other = line.find_last_not_of('\\');
    const size_t slashes = line.size() - (last_other == std::string_view::npos ? 0 : last_other + 1);
    const bool continues = slashes % 2 == 1 && begin < text.size();
    logical += continues ? line.substr(0, line.size() - 1) : line;
    if (continues) continue;
    const auto [key, value] = SplitProperty(logical);
    logical.clear();
    const std::string where = path + ":" + std::to_string(first_line);
    const AlluxioKey* known = FindAlluxioKey(key);
    if (known != nullptr && !known->native.empty()) {
      RETURN_IF_ERROR(layer.Set(where, key, {value}, false));
      continue;
    }
    if (!LooksLikeAlluxio(key)) {
      return Invalid(where + ": '" + key +
                     "' is not an Alluxio key: this file takes Alluxio's names, --config and -o " +
                     "take Stoker's");
    }
    if (++refused_total <= kMaxListedKeys) {
      const std::string why = known != nullptr ? std::string(known->why) : "unknown";
      refused.push_back("line " + std::to_string(first_line) + " " + key + " (" + why + ")");
    }
  }
  if (refused_total == 0) return Status::Ok();
  std::string message = path + ": these keys have no meaning here, remove them: ";
  for (size_t i = 0; i < refused.size(); ++i) message += (i == 0 ? "" : "; ") + refused[i];
  if (refused_total > refused.size())
    message += "; and " + std::to_string(refused_total - refused.size()) + " more";
  return Invalid(message);
}

Status CheckPath(const Config& config, std::string_view key, const std::string& value) {
  if (value.empty() || value.front() == '/') return Status::Ok();
  return Invalid(config.Origin(key).where + ": " + std::string(key) + ": '" + value +
                 "' is not an absolute path: begin it with /");
}

Status CheckAcrossKeys(const Config& config) {
  const Settings& s = config.settings;
  const std::string part = FormatBytesExact(s.prefetch_part_length);
  if (s.prefetch_budget < s.prefetch_part_length) {
    return Invalid(
        config.Origin("prefetch.budget").where + ": prefetch.budget: " + FormatBytesExact(s.prefetch_budget) +
        " is smaller than one part (prefetch.part_length is " + part + "): raise it to at least " + part);
  }
  if (s.cache_size.percent < 0 && s.cache_size.bytes < s.prefetch_part_length) {
    return Invalid(
        config.Origin("cache.size").where + ": cache.size: " + FormatBytesExact(s.cache_size.bytes) +
        " is smaller than one part (prefetch.part_length is " + part + "): raise it to at least " + part);
  }
  if (s.cache_size.percent == 0) {
    return Invalid(config.Origin("cache.size").where +
                   ": cache.size: 0% leaves no room for one part: raise it");
  }
  RETURN_IF_ERROR(CheckPath(config, "control.socket", s.control_socket));
  RETURN_IF_ERROR(CheckPath(config, "log.file", s.log_file));
  constexpr size_t kMaxSocketPath = 107;  // sun_path, less its NUL
  if (s.control_socket.size() > kMaxSocketPath) {
    return Invalid(config.Origin("control.socket").where + ": control.socket: the path has " +
                   std::to_string(s.control_socket.size()) + " bytes, a unix socket takes at most " +
                   std::to_string(kMaxSocketPath) + ": choose a shorter one");
  }
  if (!s.control_http.empty()) {
    Result<HttpAddress> address = ParseLoopbackAddress(s.control_http);
    if (!address.ok()) return At(config.Origin("control.http").where + ": control.http", address.status());
  }
  return Status::Ok();
}

PassthroughMode ToPassthroughMode(const std::string& text) {
  if (text == "on") return PassthroughMode::kOn;
  return text == "off" ? PassthroughMode::kOff : PassthroughMode::kAuto;
}

IoMode ToIoMode(const std::string& text) {
  if (text == "io_uring") return IoMode::kIoUring;
  return text == "pread" ? IoMode::kPread : IoMode::kAuto;
}

}  // namespace

const ConfigOrigin& Config::Origin(std::string_view key) const {
  static const ConfigOrigin kDefault;
  const auto found = origins.find(key);
  return found == origins.end() ? kDefault : found->second;
}

Result<Config> LoadConfig(const ConfigRequest& request) {
  Config config;
  config.settings = DefaultSettings();
  for (const ConfigKey& key : ConfigKeys()) config.origins[std::string(key.name)] = {};
  if (!request.system_file.empty() && ::access(request.system_file.c_str(), F_OK) == 0) {
    RETURN_IF_ERROR(ApplyYaml(request.system_file, config));
  }
  if (!request.file.empty()) RETURN_IF_ERROR(ApplyYaml(request.file, config));
  if (!request.alluxio_properties.empty())
    RETURN_IF_ERROR(ApplyProperties(request.alluxio_properties, config));
  Layer layer(config, true);
  for (const ConfigOverride& item : request.overrides) {
    RETURN_IF_ERROR(layer.Set(item.where, item.key, {item.value}, false));
  }
  RETURN_IF_ERROR(CheckAcrossKeys(config));
  return config;
}

Result<std::vector<ConfigOverride>> ParseMountOptions(const std::string& text) {
  std::vector<ConfigOverride> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    if (item.empty() || item == "ro") continue;  // the mount is read-only anyway
    if (item == "allow_other") {
      out.push_back({"option -o", "fuse.allow_other", "true"});
      continue;
    }
    if (item == "rw") return Invalid("option -o: rw: the mount is read-only in this version: leave it out");
    const size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Invalid("option -o: '" + item + "' is not KEY=VALUE, e.g. -o prefetch.threads=256");
    }
    out.push_back({"option -o", item.substr(0, equals), item.substr(equals + 1)});
  }
  return out;
}

std::string RenderConfigYaml(const Config& config) {
  std::string out;
  std::string_view section;
  for (const ConfigKey& key : ConfigKeys()) {
    const size_t dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      section = key.name.substr(0, dot);
      out += std::string(section) + ":\n";
    }
    std::string line = "  " + std::string(key.name.substr(dot + 1)) + ": " + GetValue(key, config.settings);
    line.append(line.size() < 38 ? 38 - line.size() : 1, ' ');
    const ConfigOrigin& origin = config.Origin(key.name);
    out += line + "# " + origin.where + (origin.alias.empty() ? "" : ", as " + origin.alias) + "\n";
  }
  return out;
}

std::string RenderConfigJson(const Config& config) {
  nlohmann::ordered_json out;
  for (const ConfigKey& key : ConfigKeys()) {
    const ConfigOrigin& origin = config.Origin(key.name);
    nlohmann::ordered_json item;
    if (key.type == ConfigType::kText) {
      item["value"] = config.settings.*std::get<std::string Settings::*>(key.field);
    } else if (key.type == ConfigType::kPaths) {
      item["value"] = config.settings.*std::get<std::vector<std::string> Settings::*>(key.field);
    } else if (key.type == ConfigType::kRules) {
      item["value"] = nlohmann::ordered_json::array();
      for (const PathRule& rule : config.settings.*std::get<std::vector<PathRule> Settings::*>(key.field)) {
        nlohmann::ordered_json each = {{"path", rule.glob}, {"class", PathClassName(rule.path_class)}};
        if (rule.ttl) each["ttl"] = FormatDuration(*rule.ttl);
        item["value"].push_back(std::move(each));
      }
    } else if (key.type == ConfigType::kBool) {
      item["value"] = config.settings.*std::get<bool Settings::*>(key.field);
    } else if (key.type == ConfigType::kCount) {
      item["value"] = config.settings.*std::get<uint64_t Settings::*>(key.field);
    } else {
      item["value"] = GetValue(key, config.settings);
    }
    item["default"] = key.default_text;
    item["unit"] = key.unit;
    item["source"] = origin.where;
    if (!origin.alias.empty()) item["alias"] = origin.alias;
    out[std::string(key.name)] = std::move(item);
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<HttpAddress> ParseLoopbackAddress(std::string_view text) {
  const std::string quoted = "'" + std::string(text) + "'";
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return Invalid(quoted + " is not ADDRESS:PORT, e.g. 127.0.0.1:9105");
  }
  std::string host(text.substr(0, colon));
  const std::string_view port_text = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [stop, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || stop != port_text.data() + port_text.size() || port == 0) {
    return Invalid(quoted + ": the port must be a number from 1 to 65535");
  }
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    if ((ntohl(v4.s_addr) >> 24) == 127) return HttpAddress{false, host, port};
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    if (IN6_IS_ADDR_LOOPBACK(&v6)) return HttpAddress{true, host, port};
  } else {
    return Invalid(quoted + ": '" + host + "' is not a numeric address: use 127.0.0.1 or [::1]");
  }
  return Invalid(
      quoted +
      " is not a loopback address, and this port knows no permissions: use 127.0.0.1 or [::1], and "
      "a proxy in front of it to reach it from elsewhere");
}

Result<ObjectStoreOptions> MakeStoreOptions(const Settings& settings, uint64_t disk_bytes) {
  ObjectStoreOptions options;
  options.dir = settings.cache_dirs.front();
  options.limit_bytes = settings.cache_size.Of(disk_bytes);
  options.min_free_bytes = settings.cache_min_free.Of(disk_bytes);
  options.part_length = settings.prefetch_part_length;
  options.policy = ParsePolicy(settings.cache_policy).value_or(CachePolicy::kAuto);  // one of its choices
  if (options.limit_bytes < options.part_length) {
    return Invalid("cache.size: of this disk (" + FormatBytes(disk_bytes) + ") it comes to " +
                   FormatBytes(options.limit_bytes) + ", smaller than one part (prefetch.part_length is " +
                   FormatBytesExact(options.part_length) + "): raise it");
  }
  return options;
}

FetchEngineOptions MakeFetchEngineOptions(const Settings& settings) {
  FetchEngineOptions options;
  options.threads = settings.prefetch_threads;
  options.budget_bytes = settings.prefetch_budget;
  options.deadline = settings.prefetch_deadline;
  options.io = ToIoMode(settings.prefetch_io);
  return options;
}

FilesystemOptions MakeFilesystemOptions(const Settings& settings) {
  FilesystemOptions options;
  options.metadata_ttl = settings.metadata_ttl;
  options.negative_ttl = settings.metadata_negative_ttl;
  options.metadata_threads = settings.metadata_threads;
  options.rules = settings.metadata_rules;
  options.open_fetch_bytes = settings.fuse_open_fetch;
  options.read_ahead.enabled = settings.prefetch_enable;
  options.read_ahead.max_parts = static_cast<uint32_t>(settings.prefetch_max_parts);
  return options;
}

SessionOptions MakeSessionOptions(const Settings& settings) {
  SessionOptions options;
  options.passthrough = ToPassthroughMode(settings.fuse_passthrough);
  options.allow_other = settings.fuse_allow_other;
  options.max_background = static_cast<uint32_t>(settings.fuse_max_background);
  options.read_ahead_bytes = settings.fuse_read_ahead;
  options.max_threads = static_cast<uint32_t>(settings.fuse_threads);
  options.stop_grace = settings.fuse_stop_grace;
  options.probe_dir = settings.cache_dirs.front();
  return options;
}

}  // namespace stoker
