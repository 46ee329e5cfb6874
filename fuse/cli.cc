#include "fuse/cli.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/base/spelling.h"
#include "fuse/config_schema.h"

namespace stoker {
namespace {

constexpr const char* kMountHelp =
    "Examples:\n"
    "  stoker mount /lustre/datasets /mnt/cache\n"
    "  stoker mount /nfs/imagenet /mnt/cache --cache-dir /nvme/stoker --cache-size 2TiB\n"
    "  stoker mount file:///data /mnt/cache --config my.yaml -o prefetch.threads=256,log.level=debug\n"
    "  stoker mount /data /mnt/cache --alluxio-properties alluxio-site.properties --foreground\n"
    "\n"
    "Returns once the mount answers, or says in one line why it cannot be. `stoker config docs` lists all "
    "keys for -o.\n"
    "A dead mount of stoker's at MOUNTPOINT is replaced.";
constexpr const char* kWarmHelp =
    "Examples:\n"
    "  stoker warm /mnt/cache/imagenet/train\n"
    "  stoker warm --mount /mnt/cache unet3d/train unet3d/valid\n"
    "  stoker warm --json /mnt/cache | jq -c 'select(.event == \"failure\")'\n"
    "\n"
    "A directory stands for all below it; symlinks in PATH itself are followed, those found below are not. A "
    "terminal gets\n"
    "a progress bar, a pipe a line every two seconds. Ctrl-C cancels the job, twice leaves at once. The exit "
    "status is 0\n"
    "only if everything is cached, 1 if something is not, 130 after Ctrl-C.";
constexpr const char* kStatusHelp =
    "Examples:\n"
    "  stoker status\n"
    "  stoker status /mnt/cache\n"
    "  stoker status /mnt/cache --json | jq .reads\n"
    "\n"
    "Without MOUNTPOINT: all mounts of this user; with --json then {\"mounts\": [...]}.";
constexpr const char* kUmountHelp =
    "Examples:\n"
    "  stoker umount /mnt/cache\n"
    "  stoker umount /mnt/cache --timeout 2m\n"
    "\n"
    "Waits until the daemon has ended. A busy mount is detached after fuse.stop_grace; a dead one is "
    "cleared; one whose\n"
    "daemon does not answer is taken away without it.";
constexpr const char* kEvictHelp =
    "Examples:\n"
    "  stoker evict /mnt/cache/imagenet/train\n"
    "  stoker evict --all /mnt/cache\n"
    "  stoker evict --json /mnt/cache/old | jq .bytes\n"
    "\n"
    "A directory stands for all below it. PATH may be gone from the UFS; '..' and symlinks lead where they "
    "lead. A "
    "file is\n"
    "known by the path that it was first read under. Files that are open, and those that a running warm job "
    "brings "
    "in, are\n"
    "kept and named. The exit status is 0 also when nothing was cached.";
constexpr const char* kVerifyHelp =
    "Examples:\n"
    "  stoker verify /mnt/cache\n"
    "  stoker verify /mnt/cache/train --rate 200MB/s\n"
    "\n"
    "Reads what is cached of PATH again and compares each part with its checksum. What differs is dropped "
    "and comes "
    "anew\n"
    "from the UFS at the next read. The exit status is 0 if all is good, 1 if damage was found (and healed), "
    "2 if it "
    "could\n"
    "not be done, 130 after Ctrl-C.";
constexpr const char* kJobsHelp =
    "Examples:\n"
    "  stoker jobs /mnt/cache\n"
    "  stoker jobs /mnt/cache --cancel 3";
constexpr const char* kShowHelp =
    "Examples:\n"
    "  stoker config show\n"
    "  stoker config show --config my.yaml -o prefetch.threads=256\n"
    "  stoker config show --alluxio-properties alluxio-site.properties --json\n"
    "\n"
    "What `stoker mount` would use with the same options; the YAML is a configuration file again.";
constexpr const char* kMainHelp =
    "Examples:\n"
    "  stoker mount /lustre/datasets /mnt/cache     show a dataset through the cache\n"
    "  stoker warm /mnt/cache/train                 bring it in before a run\n"
    "  stoker status                                what is cached, hits, misses, errors\n"
    "  stoker umount /mnt/cache\n"
    "\n"
    "`stoker VERB --help` tells more. Exit status: 0 done, 1 failed, 2 wrong arguments or configuration.";

/// The options that mount and `config show` share.
class ConfigOptions {
 public:
  explicit ConfigOptions(CLI::App& app) {
    app.add_option("--config", flags_.file, "Configuration file, on top of /etc/stoker.yaml")
        ->type_name("FILE");
    app.add_option("--alluxio-properties", flags_.alluxio_properties,
                   "Take prefetch settings from an alluxio-site.properties")
        ->type_name("FILE");
    app.add_option("-o", flags_.mount_options, "Any key: -o KEY=VALUE[,KEY=VALUE...], may be given again")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    for (const ConfigKey& key : ConfigKeys()) {
      if (key.flag.empty()) continue;
      app.add_option(std::string(key.flag), values_[std::string(key.flag)],
                     std::string(key.name) + " (default " + std::string(key.default_text) +
                         "): " + std::string(key.unit))
          ->type_name("VALUE");
    }
  }
  ConfigFlags Take(const CLI::App& app) {
    for (const auto& [flag, value] : values_) {
      if (app.count(flag) != 0) flags_.flags.emplace_back(flag, value);
    }
    return flags_;
  }

 private:
  ConfigFlags flags_;
  std::map<std::string, std::string> values_;  // node-based: addresses stay
};

/// What was not understood, with the nearest word of ours; else the parser's own text.
std::string WrongUsage(const CLI::App& app, const std::string& parsers_text) {
  const CLI::App* where = &app;
  std::string verb;
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = where->get_subcommands()) {
    where = chosen.front();
    verb += " " + where->get_name();
  }
  const std::string help = "see `stoker" + verb + " --help`";
  const std::vector<std::string> rest = app.remaining(true);
  if (rest.empty()) return parsers_text + ": " + help;
  const std::string word = rest.front().substr(0, rest.front().find('='));
  std::vector<std::string> known;
  const bool flag = word.rfind('-', 0) == 0;
  if (flag) {
    for (const CLI::Option* option : where->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else {
    for (const CLI::App* sub : where->get_subcommands([](const CLI::App*) { return true; })) {
      known.push_back(sub->get_name());
    }
    if (known.empty()) return "unexpected argument '" + word + "': " + help;
  }
  const std::string near = NearestSpelling(word, known);
  return (flag ? "unknown flag " : "unknown command ") + word + ": " +
         (near.empty() ? help : "did you mean " + near + "?");
}

int Run(int argc, const char* const* argv, const CliHooks& hooks) {
  CLI::App app(
      "Stoker keeps accelerators fed: a dataset on slow storage, read through a cache on this node's own "
      "disk.",
      "stoker");
  app.require_subcommand(1);
  app.footer(kMainHelp);
  app.set_version_flag("--version", std::string("stoker ") + STOKER_VERSION);

  CLI::App* mount = app.add_subcommand(
      "mount", "Show a UFS (a directory tree) at a mount point, read-only, through the cache");
  mount->footer(kMountHelp);
  MountArguments mount_arguments;
  mount->add_option("UFS", mount_arguments.ufs, "/path or file:///path")->required();
  mount->add_option("MOUNTPOINT", mount_arguments.mountpoint, "An empty directory")->required();
  mount->add_flag("-f,--foreground", mount_arguments.foreground, "Stay in the foreground and log to stderr");
  ConfigOptions mount_config(*mount);

  CLI::App* umount = app.add_subcommand("umount", "End a mount and its daemon");
  umount->footer(kUmountHelp);
  UmountArguments umount_arguments;
  umount->add_option("MOUNTPOINT", umount_arguments.mountpoint, "Where it is mounted")->required();
  umount
      ->add_option("--timeout", umount_arguments.timeout,
                   "How long to wait for the daemon's end (default 30s)")
      ->type_name("TIME");

  CLI::App* warm = app.add_subcommand("warm", "Bring files into the cache ahead of use");
  warm->footer(kWarmHelp);
  WarmArguments warm_arguments;
  warm->add_option("PATH", warm_arguments.paths, "Files or directories inside a mount")->required();
  warm->add_option("--mount", warm_arguments.mount, "Relative PATHs begin at this mount point")
      ->type_name("MOUNTPOINT");
  warm->add_flag("--json", warm_arguments.json, "One JSON event per line: start, progress, failure, done");
  warm->add_flag("--detach", warm_arguments.detach, "Start the job and leave it running");

  CLI::App* evict = app.add_subcommand("evict", "Take files out of the cache");
  evict->footer(kEvictHelp);
  CacheArguments evict_arguments;
  evict->add_option("PATH", evict_arguments.paths, "Files or directories inside a mount")->required();
  evict->add_flag("--all", evict_arguments.all, "All that is cached; PATH is the mount point");
  evict->add_flag("--json", evict_arguments.json, "The outcome as JSON");

  CLI::App* verify = app.add_subcommand("verify", "Compare what is cached with its checksums");
  verify->footer(kVerifyHelp);
  CacheArguments verify_arguments;
  verify->add_option("PATH", verify_arguments.paths, "Files or directories inside a mount")->required();
  verify->add_option("--rate", verify_arguments.rate, "Read no faster than this, such as 200MB/s")
      ->type_name("RATE");
  verify->add_flag("--json", verify_arguments.json, "The outcome as JSON");

  CLI::App* jobs = app.add_subcommand("jobs", "List or cancel warm jobs");
  jobs->footer(kJobsHelp);
  JobsArguments jobs_arguments;
  jobs->add_option("MOUNTPOINT", jobs_arguments.mountpoint, "May be left out when one mount is running");
  jobs->add_option("--cancel", jobs_arguments.cancel, "Cancel this job")->type_name("ID");
  jobs->add_flag("--json", jobs_arguments.json, "As JSON");

  CLI::App* status = app.add_subcommand("status", "What a mount holds and how it does");
  status->footer(kStatusHelp);
  StatusArguments status_arguments;
  status->add_option("MOUNTPOINT", status_arguments.mountpoint, "May be left out");
  status->add_flag("--json", status_arguments.json, "As JSON");

  CLI::App* config =
      app.add_subcommand("config", "Show settings, and the documentation of settings and metrics");
  config->require_subcommand(1);
  CLI::App* show = config->add_subcommand("show", "The values in force and where each came from");
  show->footer(kShowHelp);
  ConfigShowArguments show_arguments;
  show->add_flag("--json", show_arguments.json, "As JSON");
  ConfigOptions show_config(*show);
  CLI::App* defaults = config->add_subcommand("default", "A commented configuration file with every default");
  CLI::App* docs =
      config->add_subcommand("docs", "Every key with default, value, meaning and reason, as Markdown");

  CLI::App* metrics = config->add_subcommand("metrics", "Every metric with unit and meaning, as Markdown");

  CLI::App* version = app.add_subcommand("version", "Print the version");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version: printed on stdout
    std::fprintf(stderr, "stoker: %s\n", WrongUsage(app, error.what()).c_str());
    return kExitBadInput;
  }

  if (mount->parsed()) {
    mount_arguments.config = mount_config.Take(*mount);
    return RunMount(mount_arguments, hooks);
  }
  if (umount->parsed()) return RunUmount(umount_arguments);
  if (warm->parsed()) return RunWarm(warm_arguments);
  if (evict->parsed()) return RunEvict(evict_arguments);
  if (verify->parsed()) return RunVerify(verify_arguments);
  if (jobs->parsed()) return RunJobs(jobs_arguments);
  if (status->parsed()) return RunStatus(status_arguments);
  if (show->parsed()) {
    show_arguments.config = show_config.Take(*show);
    return RunConfigShow(show_arguments);
  }
  if (defaults->parsed()) std::fputs(RenderDefaultYaml().c_str(), stdout);
  if (docs->parsed()) std::fputs(RenderConfigMarkdown().c_str(), stdout);
  if (metrics->parsed()) std::fputs(RenderMetricsPage().c_str(), stdout);
  if (version->parsed()) std::printf("stoker %s\n", STOKER_VERSION);
  return kExitOk;
}

}  // namespace

int Fail(const Status& status) {
  std::fprintf(stderr, "stoker: %s\n", status.message().c_str());
  switch (status.code()) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kNotADirectory:
    case Code::kAlreadyExists:
      return kExitBadInput;
    default:
      return kExitFailed;
  }
}

int RunCli(int argc, const char* const* argv, const CliHooks& hooks) {
  try {
    return Run(argc, argv, hooks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stoker: %s\n", error.what());
    return kExitFailed;
  }
}

}  // namespace stoker
