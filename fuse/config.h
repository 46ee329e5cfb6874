#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "cache/store/object_store.h"
#include "fuse/config_schema.h"
#include "fuse/filesystem.h"
#include "fuse/session.h"
#include "prefetch/fetch_engine.h"

namespace stoker {

/// Where a value came from, for people.
struct ConfigOrigin {
  std::string where = "default";  // "default", "/etc/stoker.yaml:12", "option -o", "option --cache-dir"
  std::string alias;              // the Alluxio name that was written, if one was
};

struct Config {
  Settings settings;
  std::map<std::string, ConfigOrigin, std::less<>> origins;  // of every key

  const ConfigOrigin& Origin(std::string_view key) const;
};

/// One value from the command line.
struct ConfigOverride {
  std::string where;  // "option -o" or the flag, "option --cache-dir"
  std::string key;
  std::string value;
};

struct ConfigRequest {
  std::string system_file = "/etc/stoker.yaml";  // read when it exists; "" for none
  std::string file = {};                         // --config; must exist when not empty
  std::string alluxio_properties = {};           // --alluxio-properties; must exist when not empty
  std::vector<ConfigOverride> overrides = {};    // in the order given
};

/// Defaults, then the system file, the file, the properties, the overrides; then checks across keys. Unknown
/// keys, values that cannot be, keys given twice in one place: kInvalidArgument, the message names the place
/// (file and line), the key, the value and the remedy. A file that cannot be read: its own code.
Result<Config> LoadConfig(const ConfigRequest& request);

/// Splits "a=b,c=d" as given to -o. `ro` and `allow_other` are understood as other mount programs mean them.
Result<std::vector<ConfigOverride>> ParseMountOptions(const std::string& text);

/// The effective values as a YAML file that can be used again, each with the place it came from.
std::string RenderConfigYaml(const Config& config);
/// {"key": {"value": …, "default": …, "unit": …, "source": …, "alias": …}, …}
std::string RenderConfigJson(const Config& config);

/// "ADDRESS:PORT" of control.http. Loopback addresses only.
struct HttpAddress {
  bool ipv6 = false;
  std::string address;  // numeric
  uint16_t port = 0;
};
Result<HttpAddress> ParseLoopbackAddress(std::string_view text);

/// The rooms' own options. `disk_bytes`: size of the file system that holds the cache directory.
/// kInvalidArgument: a share of this disk comes to less than one part.
Result<ObjectStoreOptions> MakeStoreOptions(const Settings& settings, uint64_t disk_bytes);
FetchEngineOptions MakeFetchEngineOptions(const Settings& settings);
FilesystemOptions MakeFilesystemOptions(const Settings& settings);
/// mountpoint and fsname are left to the caller.
SessionOptions MakeSessionOptions(const Settings& settings);

}  // namespace stoker
