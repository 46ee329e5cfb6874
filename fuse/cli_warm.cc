#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "fuse/cli.h"
#include "fuse/cli_find.h"
#include "fuse/cli_follow.h"
#include "fuse/control_client.h"
#include "fuse/control_path.h"
#include "fuse/warm_display.h"

namespace stoker {
namespace {

constexpr auto kShowInterval = std::chrono::milliseconds(200);  // bars and events
constexpr auto kLineInterval = std::chrono::seconds(2);         // for pipes
constexpr size_t kMaxFailuresShown = 20;
constexpr int kMaxSilence = 3;  // answers in a row that may time out before we give up

size_t TerminalColumns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) return size.ws_col;
  return 80;
}

/// Shows a job while it runs, in one of three ways.
class Display {
 public:
  explicit Display(bool json) : json_(json), tty_(!json && ::isatty(STDOUT_FILENO) == 1) {}

  void Progress(const WarmProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const bool due = now >= next_ || (json_ && progress.state != WarmProgress::State::kRunning);
    if (due) next_ = now + (json_ || tty_ ? std::chrono::nanoseconds(kShowInterval) : kLineInterval);
    if (json_) {
      if (due) std::fputs(WarmProgressEvent(progress).c_str(), stdout);
      for (const auto& [path, reason] : progress.failures) {
        std::fputs(WarmFailureEvent(progress.id, path, reason).c_str(), stdout);
      }
    } else if (due && tty_) {
      std::printf("\r\x1b[K%s", WarmBar(progress, TerminalColumns()).c_str());
    } else if (due) {
      std::printf("%s\n", WarmLine(progress).c_str());
    }
    std::fflush(stdout);
  }
  void End() {
    if (tty_) std::printf("\r\x1b[K");
    std::fflush(stdout);
  }
  void Done(const WarmProgress& progress) {
    if (json_) {
      std::fputs(WarmDoneEvent(progress).c_str(), stdout);
    } else {
      std::printf("%s\n", WarmSummary(progress).c_str());
    }
    std::fflush(stdout);
  }

 private:
  const bool json_;
  const bool tty_;
  std::chrono::steady_clock::time_point next_{};
};

void PrintFailures(const std::vector<std::pair<std::string, std::string>>& failures, uint64_t failed) {
  const size_t shown = std::min(failures.size(), kMaxFailuresShown);
  for (size_t i = 0; i < shown; ++i) {
    std::fprintf(stderr, "stoker: not cached: %s: %s\n",
                 failures[i].first.empty() ? "." : failures[i].first.c_str(), failures[i].second.c_str());
  }
  const uint64_t total = std::max<uint64_t>(failed, failures.size());
  if (total > shown) {
    std::fprintf(stderr, "stoker: and %llu more\n", static_cast<unsigned long long>(total - shown));
  }
}

struct Target {
  MountEntry mount;
  std::vector<std::string> ufs_paths;
};

Result<Target> FindTarget(const WarmArguments& arguments) {
  Target target;
  std::string base;
  if (!arguments.mount.empty()) {
    ASSIGN_OR_RETURN(const MountEntry mount, FindOurMount(arguments.mount));
    base = mount.mountpoint + "/";
  }
  bool first = true;
  for (const std::string& path : arguments.paths) {
    ASSIGN_OR_RETURN(PathInMount found,
                     FindInMount(path.empty() || path.front() == '/' ? path : base + path));
    if (!first && found.mount.mountpoint != target.mount.mountpoint) {
      return Status(Code::kInvalidArgument, "the paths lie in two mounts, " + target.mount.mountpoint +
                                                " and " + found.mount.mountpoint +
                                                ": warm one mount at a time");
    }
    first = false;
    target.mount = std::move(found.mount);
    target.ufs_paths.push_back(std::move(found.ufs_path));
  }
  if (!base.empty() && target.mount.mountpoint + "/" != base) {
    return Status(Code::kInvalidArgument,
                  "the paths lie in " + target.mount.mountpoint + ", not in the mount of --mount");
  }
  return target;
}

/// Follows the job to its end. Returns the exit status.
int Follow(ControlClient& client, WarmJobId job, bool json) {
  Follower follower;
  Display display(json);
  std::vector<std::pair<std::string, std::string>> failures;
  bool cancelled_by_us = false;
  int silent = 0;
  while (true) {
    if (follower.interrupted() && !cancelled_by_us) {
      cancelled_by_us = true;
      display.End();
      std::fprintf(stderr, "stoker: cancelling (interrupt again to leave at once)\n");
      if (const Status cancel = client.Cancel(job); !cancel.ok()) return Fail(cancel);
    }
    Result<WarmProgress> progress = client.Progress(job, failures.size());
    if (!progress.ok()) {
      if (progress.status().code() == Code::kDeadlineExceeded && ++silent < kMaxSilence) continue;
      display.End();
      return Fail(
          {progress.status().code(), "warming was not followed to its end: " + progress.status().message()});
    }
    silent = 0;
    failures.insert(failures.end(), progress->failures.begin(), progress->failures.end());
    display.Progress(*progress);
    if (progress->state != WarmProgress::State::kRunning) {
      display.End();
      display.Done(*progress);
      if (!json) PrintFailures(failures, progress->files_failed);
      if (progress->state == WarmProgress::State::kDone) return kExitOk;  // it was quicker than the interrupt
      return cancelled_by_us ? kExitInterrupted : kExitFailed;
    }
    follower.Pause();
  }
}

}  // namespace

int RunWarm(const WarmArguments& arguments) {
  const Result<Target> target = FindTarget(arguments);
  if (!target.ok()) return Fail(target.status());
  ControlClient client(ControlSocketPath(target->mount.mountpoint));
  const Result<WarmJobId> job = client.StartWarm(target->ufs_paths);
  if (!job.ok()) return Fail(ExplainNoDaemon(target->mount, job.status()));
  if (arguments.json) {
    std::fputs(WarmStartEvent(*job, target->mount.mountpoint, target->ufs_paths).c_str(), stdout);
    std::fflush(stdout);
  }
  if (arguments.detach) {
    if (!arguments.json) {
      std::printf("job %llu is running: `stoker jobs %s` follows it\n", static_cast<unsigned long long>(*job),
                  target->mount.mountpoint.c_str());
    }
    return kExitOk;
  }
  return Follow(client, *job, arguments.json);
}

}  // namespace stoker
