#include "fuse/stop_control.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "cache/base/log.h"
#include "cache/base/units.h"

namespace stoker {
namespace {

void Notify(const Fd& event) {
  const uint64_t one = 1;
  const ssize_t wrote = ::write(event.get(), &one, sizeof one);
  static_cast<void>(wrote);  // fails only when the counter is full, and then the reader is woken anyway
}

}  // namespace

StopControl::StopControl(std::string mountpoint, std::chrono::nanoseconds limit, Fd signals, Fd wake, Fd end)
    : mountpoint_(std::move(mountpoint)),
      limit_(limit),
      signals_(std::move(signals)),
      wake_(std::move(wake)),
      end_(std::move(end)) {}

Result<std::unique_ptr<StopControl>> StopControl::Create(std::string mountpoint,
                                                         std::chrono::nanoseconds limit) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  struct sigaction hangup {};
  // Under nohup a hangup is to be ignored; a blocked signal would reach signalfd all the same.
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  if (const int error = ::pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0) {
    return Status::FromErrno(error, "cannot block signals");
  }
  ::signal(SIGPIPE, SIG_IGN);
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC));
  Fd wake(::eventfd(0, EFD_CLOEXEC));
  Fd end(::eventfd(0, EFD_CLOEXEC));
  if (!signals.valid() || !wake.valid() || !end.valid())
    return Status::FromErrno(errno, "cannot wait for signals");
  std::unique_ptr<StopControl> control(
      new StopControl(std::move(mountpoint), limit, std::move(signals), std::move(wake), std::move(end)));
  control->thread_ = std::thread([raw = control.get()] { raw->Watch(); });
  return control;
}

StopControl::~StopControl() {
  Notify(end_);
  thread_.join();
}

void StopControl::Attach(Session& session) {
  MutexLock lock(mu_);
  session_ = &session;
  if (requested_) session.RequestStop();
}

void StopControl::Detach() {
  MutexLock lock(mu_);
  session_ = nullptr;
}

void StopControl::RequestStop(const std::string& why) {
  {
    MutexLock lock(mu_);
    if (requested_) return;
    requested_ = true;
    if (session_ != nullptr) session_->RequestStop();  // async-signal-safe: takes no lock, does not wait
  }
  LogInfo("daemon", "stopping: " + why);
  Notify(wake_);
}

bool StopControl::requested() const {
  MutexLock lock(mu_);
  return requested_;
}

void StopControl::Watch() {
  ::pthread_setname_np(::pthread_self(), "stoker-signal");
  std::optional<std::chrono::steady_clock::time_point> deadline;
  while (true) {
    pollfd waits[] = {{end_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    int timeout_ms = -1;
    if (deadline) {
      const auto left = *deadline - std::chrono::steady_clock::now();
      const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
      timeout_ms = static_cast<int>(std::max<int64_t>(0, left_ms));
    }
    const int ready = ::poll(waits, 3, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (waits[0].revents != 0) return;
    if (ready == 0)
      ForceEnd("not at the end of its work " + FormatDuration(limit_) + " after the stop was asked for");
    if (waits[2].revents != 0) {
      uint64_t count;
      if (::read(wake_.get(), &count, sizeof count) < 0) continue;
      if (!deadline) deadline = std::chrono::steady_clock::now() + limit_;
    }
    if (waits[1].revents != 0) {
      signalfd_siginfo info{};
      if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
      const std::string name = ::strsignal(static_cast<int>(info.ssi_signo));
      if (requested()) ForceEnd("a second signal came (" + name + ")");
      RequestStop("signal " + std::to_string(info.ssi_signo) + " (" + name + ")");
    }
  }
}

void StopControl::ForceEnd(const std::string& why) {
  LogError("daemon", "leaving without tidying up: " + why);
  // Our own /dev/fuse is closed by the exit, and users get ENOTCONN; what is left to do is to clear the
  // place.
  bool mounted = false;
  {
    MutexLock lock(mu_);
    mounted = session_ != nullptr;
  }
  if (mounted) ::umount2(mountpoint_.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  ::_exit(1);
}

}  // namespace stoker
