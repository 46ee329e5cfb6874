#include "fuse/mount_table.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

#include "cache/base/fd.h"

extern char** environ;

namespace stoker {
namespace {

/// The kernel writes space, tab, newline and backslash as \ooo.
std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> out;
  while (!line.empty()) {
    const size_t space = line.find(' ');
    out.push_back(line.substr(0, space));
    line = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
  }
  return out;
}

Result<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> resolved(::realpath(path.c_str(), nullptr), &::free);
  if (resolved == nullptr) return Status::FromErrno(errno, "'" + path + "'");
  return std::string(resolved.get());
}

}  // namespace

namespace {
/// "rw,user_id=0,group_id=0,…" → 0.
std::optional<uid_t> UserId(std::string_view options) {
  constexpr std::string_view kName = "user_id=";
  while (!options.empty()) {
    const std::string_view option = options.substr(0, options.find(','));
    options.remove_prefix(std::min(options.size(), option.size() + 1));
    uid_t uid = 0;
    if (!option.starts_with(kName)) continue;
    const auto [end, error] =
        std::from_chars(option.data() + kName.size(), option.data() + option.size(), uid);
    if (error == std::errc() && end == option.data() + option.size()) return uid;
  }
  return std::nullopt;
}
}  // namespace

std::vector<MountEntry> ParseMountInfo(std::string_view text) {
  std::vector<MountEntry> out;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const std::vector<std::string_view> fields = Fields(text.substr(0, newline));
    text = newline == std::string_view::npos ? std::string_view() : text.substr(newline + 1);
    // id parent major:minor root mountpoint options [optional…] - type source super-options
    size_t dash = 6;
    while (dash < fields.size() && fields[dash] != "-") ++dash;
    if (dash + 2 >= fields.size()) continue;
    MountEntry entry;
    const std::string_view dev = fields[2];
    const size_t colon = dev.find(':');
    if (colon == std::string_view::npos) continue;
    std::from_chars(dev.data(), dev.data() + colon, entry.dev_major);
    std::from_chars(dev.data() + colon + 1, dev.data() + dev.size(), entry.dev_minor);
    entry.mountpoint = Unescape(fields[4]);
    entry.type = Unescape(fields[dash + 1]);
    entry.source = Unescape(fields[dash + 2]);
    if (dash + 3 < fields.size()) entry.user_id = UserId(fields[dash + 3]);
    out.push_back(std::move(entry));
  }
  return out;
}

Result<std::vector<MountEntry>> ReadMounts() {
  const Fd fd(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return Status::FromErrno(errno, "cannot read /proc/self/mountinfo");
  std::string text;
  char buffer[16384];
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(errno, "cannot read /proc/self/mountinfo");
    if (got == 0) return ParseMountInfo(text);
    text.append(buffer, static_cast<size_t>(got));
  }
}

std::optional<MountEntry> MountAt(const std::vector<MountEntry>& mounts, const std::string& path) {
  for (auto it = mounts.rbegin(); it != mounts.rend(); ++it) {
    if (it->mountpoint == path) return *it;
  }
  return std::nullopt;
}

bool IsAtOrBelow(const std::string& path, const std::string& dir) {
  if (dir == "/") return true;
  return path.compare(0, dir.size(), dir) == 0 && (path.size() == dir.size() || path[dir.size()] == '/');
}

std::optional<MountEntry> MountOf(const std::vector<MountEntry>& mounts, const std::string& path) {
  const MountEntry* best = nullptr;
  for (const MountEntry& mount : mounts) {
    if (!IsAtOrBelow(path, mount.mountpoint)) continue;
    if (best == nullptr || mount.mountpoint.size() >= best->mountpoint.size()) best = &mount;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

Result<std::string> ResolveMountpoint(const std::string& path) {
  if (path.empty()) return Status(Code::kInvalidArgument, "the path is empty");
  if (path.find('\0') != std::string::npos)
    return Status(Code::kInvalidArgument, "a path cannot hold a NUL byte");
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const size_t slash = trimmed.rfind('/');
  const std::string name = slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
  if (trimmed == "/" || name == "." || name == "..") return RealPath(trimmed);
  std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : trimmed.substr(0, slash);
  ASSIGN_OR_RETURN(parent, RealPath(parent));
  const std::string joined = (parent == "/" ? "" : parent) + "/" + name;
  // What is mounted there must not be asked: it may be dead, or hang.
  Result<std::vector<MountEntry>> mounts = ReadMounts();
  if (mounts.ok() && MountAt(*mounts, joined)) return joined;
  struct stat st;
  if (::lstat(joined.c_str(), &st) == 0 && S_ISLNK(st.st_mode)) {
    // The symlink's own target is a path like any other; links in a row end at the kernel's limit.
    char target[PATH_MAX];
    const ssize_t length = ::readlink(joined.c_str(), target, sizeof target - 1);
    if (length < 0) return Status::FromErrno(errno, "'" + joined + "'");
    const std::string text(target, static_cast<size_t>(length));
    const std::string next = text.front() == '/' ? text : (parent == "/" ? "" : parent) + "/" + text;
    if (next == joined) return Status(Code::kInvalidArgument, "'" + joined + "' is a symlink to itself");
    struct stat target_stat;
    if (::stat(joined.c_str(), &target_stat) != 0 && errno == ELOOP)
      return Status::FromErrno(ELOOP, "'" + joined + "'");
    return ResolveMountpoint(next);
  }
  return joined;
}

Status ProbePath(const std::string& path, std::chrono::milliseconds timeout) {
  const pid_t child = ::fork();
  if (child < 0) return Status::FromErrno(errno, "cannot fork");
  if (child == 0) {
    // Asked for again: the kernel would answer for a dead daemon from the attributes it still believes.
    struct statx st;
    ::_exit(::statx(AT_FDCWD, path.c_str(), AT_STATX_FORCE_SYNC, STATX_TYPE, &st) == 0 ? 0 : errno);
  }
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd wait{pidfd.get(), POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&wait, 1, static_cast<int>(timeout.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    ::kill(child, SIGKILL);
    // Waiting for FUSE ends at a fatal signal, so this returns; other storage may keep it, then init reaps
    // it.
    int ignored;
    ::waitpid(child, &ignored, WNOHANG);
    return {Code::kDeadlineExceeded, "'" + path + "' does not answer"};
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status)) return {Code::kInternal, "the probe of '" + path + "' ended abnormally"};
  if (WEXITSTATUS(status) == 0) return Status::Ok();
  return Status::FromErrno(WEXITSTATUS(status), "'" + path + "'");
}

Status Unmount(const std::string& mountpoint, bool detach) {
  if (::umount2(mountpoint.c_str(), UMOUNT_NOFOLLOW | (detach ? MNT_DETACH : 0)) == 0) return Status::Ok();
  if (errno != EPERM) return Status::FromErrno(errno, "cannot unmount '" + mountpoint + "'");
  std::string program = "fusermount3";
  std::string flags = detach ? "-uqz" : "-uq";
  std::string separator = "--";
  std::string path = mountpoint;
  char* const arguments[] = {program.data(), flags.data(), separator.data(), path.data(), nullptr};
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, program.c_str(), nullptr, nullptr, arguments, environ);
  if (error != 0) return Status::FromErrno(error, "cannot unmount '" + mountpoint + "' with fusermount3");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::Ok();
  return {Code::kPermissionDenied,
          "not permitted to unmount '" + mountpoint + "': use the user who mounted it, or root"};
}

Status AbortConnection(const MountEntry& mount) {
  const std::string file = "/sys/fs/fuse/connections/" + std::to_string(mount.dev_minor) + "/abort";
  const Fd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return Status::FromErrno(errno, file);
  if (::write(fd.get(), "1", 1) != 1) return Status::FromErrno(errno, file);
  return Status::Ok();
}

}  // namespace stoker
