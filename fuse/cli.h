#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "fuse/daemon.h"

namespace stoker {

// Exit statuses of every command.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;    // it was tried and did not succeed
inline constexpr int kExitBadInput = 2;  // arguments or configuration are wrong; nothing was touched
inline constexpr int kExitInterrupted = 130;

/// How commands reach what main() wires together.
struct CliHooks {
  std::function<int(const DaemonRequest&, const ReadyCallback&)> run_daemon;
};

/// Parses and runs one command line; returns the exit status. Answers go to stdout, errors ("stoker: …") to
/// stderr.
int RunCli(int argc, const char* const* argv, const CliHooks& hooks);

/// "stoker: message" on stderr; the exit status that fits the code.
int Fail(const Status& status);

// The verbs. Each takes what the command line said.

struct ConfigFlags {
  std::string file;
  std::string alluxio_properties;
  std::vector<std::string> mount_options;                  // each -o
  std::vector<std::pair<std::string, std::string>> flags;  // schema flag, value
};

struct MountArguments {
  std::string ufs;
  std::string mountpoint;
  ConfigFlags config;
  bool foreground = false;
};
int RunMount(const MountArguments& arguments, const CliHooks& hooks);

struct ConfigShowArguments {
  ConfigFlags config;
  bool json = false;
};
int RunConfigShow(const ConfigShowArguments& arguments);

struct StatusArguments {
  std::string mountpoint;  // "" = all
  bool json = false;
};
int RunStatus(const StatusArguments& arguments);

struct WarmArguments {
  std::vector<std::string> paths;
  std::string mount;  // relative paths begin here instead of at the working directory
  bool json = false;
  bool detach = false;
};
int RunWarm(const WarmArguments& arguments);

struct JobsArguments {
  std::string mountpoint;
  std::string cancel;  // a job number
  bool json = false;
};
int RunJobs(const JobsArguments& arguments);

struct CacheArguments {
  std::vector<std::string> paths;
  bool all = false;  // evict: everything, then `paths` is the mount point alone
  std::string rate;  // verify: "" = unlimited
  bool json = false;
};
int RunEvict(const CacheArguments& arguments);
/// 0: all is as it was written; 1: damage was found, and dropped; 2: it was not done to the end.
int RunVerify(const CacheArguments& arguments);

struct UmountArguments {
  std::string mountpoint;
  std::string timeout = "30s";
};
int RunUmount(const UmountArguments& arguments);

}  // namespace stoker
