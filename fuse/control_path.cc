#include "fuse/control_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>

#include "cache/base/checksum.h"

namespace stoker {
namespace {

constexpr size_t kMaxNameBytes = 60;  // a unix socket's path has 107 bytes

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

}  // namespace

std::string MountName(const std::string& mountpoint) {
  std::string out;
  for (size_t i = mountpoint.empty() || mountpoint.front() != '/' ? 0 : 1; i < mountpoint.size(); ++i) {
    const auto c = static_cast<unsigned char>(mountpoint[i]);
    if (c == '/') {
      out += '-';
    } else if (std::isalnum(c) != 0 || c == '_' || (c == '.' && !out.empty())) {
      out += static_cast<char>(c);
    } else {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(c));
      out += escape;
    }
  }
  if (out.empty()) return "-";
  if (out.size() <= kMaxNameBytes) return out;
  char hash[24];
  std::snprintf(hash, sizeof hash, "-%016llx",
                static_cast<unsigned long long>(Checksum64(std::as_bytes(std::span(mountpoint)))));
  // '~' does not occur in a name that was not cut.
  return out.substr(0, kMaxNameBytes - 18) + "~" + hash;
}

std::string ControlDirectory() {
  if (::geteuid() == 0) return "/run/stoker";
  const std::string runtime = FromEnvironment("XDG_RUNTIME_DIR");
  if (!runtime.empty()) return runtime + "/stoker";
  return "/tmp/stoker-" + std::to_string(::geteuid());
}

std::string ControlSocketPath(const std::string& mountpoint) {
  return ControlDirectory() + "/" + MountName(mountpoint) + ".sock";
}

std::vector<std::string> ListControlSockets() {
  std::vector<std::string> out;
  std::error_code error;
  for (std::filesystem::directory_iterator it(ControlDirectory(), error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".sock") out.push_back(it->path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string DefaultLogFile(const std::string& mountpoint) {
  const std::string name = "/" + MountName(mountpoint) + ".log";
  if (::geteuid() == 0) return "/var/log/stoker" + name;
  const std::string state = FromEnvironment("XDG_STATE_HOME");
  if (!state.empty()) return state + "/stoker" + name;
  const std::string home = FromEnvironment("HOME");
  return home.empty() ? ControlDirectory() + name : home + "/.local/state/stoker" + name;
}

Status MakeOwnDirectory(const std::string& path, unsigned mode) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (::mkdir(parent.c_str(), mode) != 0 && errno != EEXIST) {
      return Status::FromErrno(errno, "cannot make the directory '" + parent + "'");
    }
  }
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return Status::FromErrno(errno, "cannot make the directory '" + path + "'");
  }
  struct stat st;
  if (::stat(path.c_str(), &st) != 0)
    return Status::FromErrno(errno, "cannot use the directory '" + path + "'");
  if (!S_ISDIR(st.st_mode)) return {Code::kNotADirectory, "'" + path + "' is not a directory"};
  if (st.st_uid != ::geteuid() && st.st_uid != 0) {
    return {Code::kPermissionDenied, "'" + path + "' belongs to user " + std::to_string(st.st_uid) +
                                         ": remove it or choose another place"};
  }
  return Status::Ok();
}

}  // namespace stoker
