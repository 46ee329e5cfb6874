#include "workload/base/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

#include "cache/base/fd.h"
#include "cache/base/units.h"
#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

constexpr size_t kMaxOutput = kMiB;
constexpr int64_t kListenMillis = 100;  // to an interrupt
constexpr Nanos kExitPoll = std::chrono::milliseconds(1);
constexpr Nanos kReapTime = std::chrono::milliseconds(200);  // for a killed child to go away

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno(errno, "pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

/// posix_spawn's two argument objects, destroyed in any case.
class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  Result<pid_t> Start(const std::vector<std::string>& argv, int out, int err) {
    // This program blocks SIGINT and SIGTERM everywhere; the child must not inherit that.
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, words[0], &actions_, &attributes_, words.data(), environ);
    if (error != 0) return Status::FromErrno(error, argv[0]);
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// True when the child has ended and been collected.
bool Collect(pid_t pid, int& wait_status) {
  return ::waitpid(pid, &wait_status, WNOHANG) == pid;
}

void KillAndCollect(pid_t pid) {
  ::kill(-pid, SIGKILL);
  int ignored = 0;
  // A child in an uninterruptible call stays; waiting for it would pass its hang on to us.
  for (const Nanos end = SteadyNow() + kReapTime; !Collect(pid, ignored) && SteadyNow() < end;) {
    std::this_thread::sleep_for(kExitPoll);
  }
}

/// Takes what has come; false at the end of the pipe.
bool Take(int fd, std::string& into) {
  std::array<char, 16 * kKiB> buffer;
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  into.append(buffer.data(), std::min(static_cast<size_t>(got), kMaxOutput - into.size()));
  return true;
}

}  // namespace

Result<ChildOutput> RunChild(const std::vector<std::string>& argv, Nanos timeout, const CancelToken& cancel) {
  const Nanos deadline = SteadyNow() + timeout;
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe err, MakePipe());
  SpawnPlan plan;
  ASSIGN_OR_RETURN(const pid_t pid, plan.Start(argv, out.write.get(), err.write.get()));
  out.write.Reset();
  err.write.Reset();

  const auto too_late = [&] {
    KillAndCollect(pid);
    if (cancel.cancelled()) return Status(Code::kCancelled, argv[0] + ": interrupted");
    return Status(Code::kDeadlineExceeded, argv[0] + " did not end within " + FormatDuration(timeout));
  };
  ChildOutput result;
  while (out.read.valid() || err.read.valid()) {
    const Nanos now = SteadyNow();
    if (now >= deadline || cancel.cancelled()) return too_late();
    // A closed end is a negative descriptor, which poll passes over.
    std::array<pollfd, 2> wait{pollfd{out.read.get(), POLLIN, 0}, pollfd{err.read.get(), POLLIN, 0}};
    const auto millis = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
    if (::poll(wait.data(), wait.size(), static_cast<int>(std::min<int64_t>(millis, kListenMillis))) < 0)
      continue;
    if (wait[0].revents != 0 && !Take(out.read.get(), result.out)) out.read.Reset();
    if (wait[1].revents != 0 && !Take(err.read.get(), result.err)) err.read.Reset();
  }
  int wait_status = 0;
  while (!Collect(pid, wait_status)) {
    if (SteadyNow() >= deadline || cancel.cancelled()) return too_late();
    std::this_thread::sleep_for(kExitPoll);
  }
  result.exit_status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
  return result;
}

}  // namespace stoker::bench
