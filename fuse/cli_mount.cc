#include <limits.h>
#include <unistd.h>

#include <cstdio>

#include "cache/base/log.h"
#include "fuse/cli.h"
#include "fuse/config.h"
#include "fuse/control_path.h"
#include "fuse/daemonize.h"
#include "fuse/mount_check.h"

namespace stoker {
namespace {

/// Paths typed at a shell begin at the working directory; those in files may not.
std::string FromWorkingDirectory(const std::string& key, const std::string& value) {
  if (key != "cache.dirs" && key != "control.socket" && key != "log.file") return value;
  if (value.empty() || value.front() == '/') return value;
  char cwd[PATH_MAX];
  if (::getcwd(cwd, sizeof cwd) == nullptr) return value;
  return std::string(cwd) + "/" + value;
}

Result<Config> LoadFromFlags(const ConfigFlags& flags) {
  ConfigRequest request;
  request.file = flags.file;
  request.alluxio_properties = flags.alluxio_properties;
  for (const std::string& text : flags.mount_options) {
    ASSIGN_OR_RETURN(const std::vector<ConfigOverride> options, ParseMountOptions(text));
    request.overrides.insert(request.overrides.end(), options.begin(), options.end());
  }
  for (const auto& [flag, value] : flags.flags) {
    for (const ConfigKey& key : ConfigKeys()) {
      if (key.flag == flag) request.overrides.push_back({"option " + flag, std::string(key.name), value});
    }
  }
  for (ConfigOverride& item : request.overrides) item.value = FromWorkingDirectory(item.key, item.value);
  return LoadConfig(request);
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

}  // namespace

int RunMount(const MountArguments& arguments, const CliHooks& hooks) {
  Result<Config> config = LoadFromFlags(arguments.config);
  if (!config.ok()) return Fail(config.status());
  DaemonRequest request;
  request.settings = config->settings;

  Result<MountPlan> plan = CheckMount(arguments.ufs, arguments.mountpoint, request.settings);
  if (!plan.ok()) return Fail(plan.status());
  if (plan->clear_dead_mount) {
    if (const Status cleared = ClearDeadMount(plan->mountpoint); !cleared.ok()) return Fail(cleared);
    request.notes.push_back("cleared a dead mount at " + plan->mountpoint + ": its daemon had died");
    std::fprintf(stderr, "stoker: cleared a dead mount at %s\n", plan->mountpoint.c_str());
    plan = CheckMount(arguments.ufs, arguments.mountpoint, request.settings);
    if (!plan.ok()) return Fail(plan.status());
  }
  for (const std::string& dir : plan->cache_dirs) {
    const Result<uint64_t> disk = DiskBytes(dir);
    if (!disk.ok()) {
      if (plan->cache_dirs.size() == 1) return Fail(disk.status());
      continue;  // the daemon goes on without it, and says so
    }
    if (const Result<ObjectStoreOptions> store = MakeStoreOptions(request.settings, *disk); !store.ok()) {
      return Fail(store.status());
    }
  }
  request.ufs = plan->ufs;
  request.mountpoint = plan->mountpoint;
  request.settings.cache_dirs = plan->cache_dirs;

  if (arguments.foreground) {
    return hooks.run_daemon(request, [](const Status& status) {
      if (!status.ok()) Fail(status);
    });
  }
  std::string& log_file = request.settings.log_file;
  if (log_file.empty()) log_file = DefaultLogFile(request.mountpoint);
  if (const Status made = MakeOwnDirectory(ParentOf(log_file), 0755); !made.ok()) {
    return Fail({made.code(), made.message() + " for the log: set log.file to another place"});
  }
  const Result<int> daemon =
      RunInBackground(log_file, [&](const ReadyCallback& ready) { return hooks.run_daemon(request, ready); });
  if (!daemon.ok()) return Fail(daemon.status());
  std::printf("mounted %s at %s (pid %d, log %s)\n", request.ufs.c_str(), request.mountpoint.c_str(), *daemon,
              log_file.c_str());
  return kExitOk;
}

int RunConfigShow(const ConfigShowArguments& arguments) {
  const Result<Config> config = LoadFromFlags(arguments.config);
  if (!config.ok()) return Fail(config.status());
  const std::string text = arguments.json ? RenderConfigJson(*config) : RenderConfigYaml(*config);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace stoker
