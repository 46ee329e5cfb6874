#include "fuse/daemonize.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "cache/base/fd.h"

namespace stoker {
namespace {

constexpr size_t kMaxMessageBytes = 4096;

/// One byte of Code, then the message, then the end of the pipe.
void SendStatus(Fd& pipe, const Status& status) {
  if (!pipe.valid()) return;
  std::string text(1, static_cast<char>(status.code()));
  text += status.message().substr(0, kMaxMessageBytes);
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t wrote = ::write(pipe.get(), text.data() + sent, text.size() - sent);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;  // the one who waited is gone; the daemon goes on
    sent += static_cast<size_t>(wrote);
  }
  pipe.Reset();
}

Status Detach(const std::string& log_file) {
  if (::setsid() < 0) return Status::FromErrno(errno, "cannot start a session");
  if (::chdir("/") != 0) return Status::FromErrno(errno, "cannot change to /");
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return Status::FromErrno(errno, "cannot open /dev/null");
  // O_NONBLOCK: a fifo that nobody reads is an error, not a wait.
  const Fd log(::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640));
  if (!log.valid()) {
    return Status::FromErrno(errno,
                             "cannot open the log file '" + log_file + "' (set log.file to another place)");
  }
  if (::dup2(null.get(), 0) < 0 || ::dup2(log.get(), 1) < 0 || ::dup2(log.get(), 2) < 0) {
    return Status::FromErrno(errno, "cannot redirect the standard streams");
  }
  return Status::Ok();
}

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return "was ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  }
  return "ended with status " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace

Result<int> RunInBackground(const std::string& log_file,
                            const std::function<int(const ReadyCallback&)>& run) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno(errno, "cannot make a pipe");
  Fd read_end(ends[0]);
  auto write_end = std::make_shared<Fd>(ends[1]);  // shared: std::function wants to be copied
  std::fflush(nullptr);                            // or both processes would print what is buffered
  const pid_t child = ::fork();
  if (child < 0) return Status::FromErrno(errno, "cannot fork");
  if (child == 0) {
    read_end.Reset();
    ::signal(SIGPIPE, SIG_IGN);
    const Status detached = Detach(log_file);
    if (!detached.ok()) {
      SendStatus(*write_end, detached);
      ::_exit(1);
    }
    const int exit_status = run([write_end](const Status& status) { SendStatus(*write_end, status); });
    std::fflush(nullptr);
    ::_exit(exit_status);
  }
  write_end->Reset();
  std::string text;
  char buffer[1024];
  while (text.size() <= kMaxMessageBytes) {
    const ssize_t got = ::read(read_end.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  if (!text.empty() && text[0] == static_cast<char>(Code::kOk)) return static_cast<int>(child);
  int wait_status = 0;
  while (::waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (text.empty()) {
    return Status(Code::kInternal,
                  "the daemon " + HowItEnded(wait_status) + " before it was ready: see its log " + log_file);
  }
  return Status(static_cast<Code>(text[0]), text.substr(1));
}

}  // namespace stoker
