#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "cache/base/fd.h"
#include "cache/base/units.h"
#include "fuse/cli.h"
#include "fuse/control_client.h"
#include "fuse/control_path.h"
#include "fuse/mount_table.h"

namespace stoker {
namespace {

using Deadline = std::chrono::steady_clock::time_point;
constexpr auto kAnswerTimeout = std::chrono::seconds(5);
constexpr auto kPoll = std::chrono::milliseconds(20);

std::chrono::milliseconds Left(Deadline deadline) {
  return std::max(std::chrono::milliseconds(0), std::chrono::duration_cast<std::chrono::milliseconds>(
                                                    deadline - std::chrono::steady_clock::now()));
}

/// False when the time ran out.
bool WaitForEnd(const Fd& pidfd, Deadline deadline) {
  while (true) {
    pollfd wait{pidfd.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(Left(deadline).count()));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return false;
  }
}

bool StillMounted(const MountEntry& mount) {
  const Result<std::vector<MountEntry>> mounts = ReadMounts();
  if (!mounts.ok()) return true;
  return std::any_of(mounts->begin(), mounts->end(), [&](const MountEntry& other) {
    return other.mountpoint == mount.mountpoint && other.dev_minor == mount.dev_minor &&
           other.dev_major == mount.dev_major;
  });
}

bool WaitForUnmount(const MountEntry& mount, Deadline deadline) {
  while (StillMounted(mount)) {
    if (Left(deadline).count() == 0) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

/// Removes a socket file that nobody listens on any more.
void RemoveLeftoverSocket(const std::string& mountpoint) {
  const std::string path = ControlSocketPath(mountpoint);
  if (ControlClient(path, kAnswerTimeout).Describe().status().code() == Code::kUnavailable)
    ::unlink(path.c_str());
}

/// Without its daemon's help.
int TakeAway(const MountEntry& mount, const std::string& why, Deadline deadline) {
  Status status = Unmount(mount.mountpoint, false);
  if (!status.ok() && status.code() == Code::kBusy) {
    status = Unmount(mount.mountpoint, true);
    std::fprintf(stderr, "stoker: %s was busy: detached, it ends when its last user does\n",
                 mount.mountpoint.c_str());
  }
  if (!status.ok()) return Fail(status);
  if (!WaitForUnmount(mount, deadline)) {
    return Fail({Code::kDeadlineExceeded, "'" + mount.mountpoint + "' is still mounted"});
  }
  RemoveLeftoverSocket(mount.mountpoint);
  std::fprintf(stderr, "stoker: %s: %s\n", mount.mountpoint.c_str(), why.c_str());
  return kExitOk;
}

}  // namespace

int RunUmount(const UmountArguments& arguments) {
  const Result<std::chrono::nanoseconds> timeout = ParseDuration(arguments.timeout);
  if (!timeout.ok()) return Fail({Code::kInvalidArgument, "option --timeout: " + timeout.status().message()});
  const Deadline deadline = std::chrono::steady_clock::now() + *timeout;

  const Result<std::string> mountpoint = ResolveMountpoint(arguments.mountpoint);
  if (!mountpoint.ok()) return Fail(mountpoint.status());
  const Result<std::vector<MountEntry>> mounts = ReadMounts();
  if (!mounts.ok()) return Fail(mounts.status());
  const std::optional<MountEntry> mount = MountAt(*mounts, *mountpoint);
  if (!mount) return Fail({Code::kInvalidArgument, "'" + *mountpoint + "' is not a mount point"});
  if (!mount->is_ours()) {
    return Fail({Code::kInvalidArgument, "'" + *mountpoint + "' is a mount of type " + mount->type +
                                             ", not one of stoker's: use `umount " + *mountpoint + "`"});
  }

  ControlClient client(ControlSocketPath(*mountpoint), kAnswerTimeout);
  const Result<DaemonStatus> daemon = client.Describe();
  if (!daemon.ok()) {
    if (daemon.status().code() == Code::kPermissionDenied) return Fail(daemon.status());
    const Status probe = ProbePath(*mountpoint, kAnswerTimeout);
    if (probe.os_errno() == ENOTCONN)
      return TakeAway(*mount, "cleared a dead mount, its daemon had died", deadline);
    if (probe.ok()) {
      return TakeAway(*mount, "unmounted without its daemon's help (" + daemon.status().message() + ")",
                      deadline);
    }
    // It neither answers commands nor serves: those who wait for it get errors, or they would wait for ever.
    if (const Status aborted = AbortConnection(*mount); !aborted.ok()) {
      std::fprintf(stderr, "stoker: cannot release those who wait: %s\n", aborted.message().c_str());
    }
    return TakeAway(*mount, "its daemon does not answer: aborted, requests that waited got errors", deadline);
  }
  const int pid = client.peer_pid();
  const Fd pidfd(pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1);
  // One that goes away while it is asked to has been asked by somebody else too.
  if (const Status stop = client.Stop();
      !stop.ok() && !(stop.code() == Code::kUnavailable && pidfd.valid())) {
    return Fail(stop);
  }
  if ((pidfd.valid() && !WaitForEnd(pidfd, deadline)) || !WaitForUnmount(*mount, deadline)) {
    return Fail({Code::kDeadlineExceeded, "stoker pid " + std::to_string(pid) + " has not ended within " +
                                              arguments.timeout + ": its log " + daemon->log_file +
                                              " tells what it waits for"});
  }
  return kExitOk;
}

}  // namespace stoker
