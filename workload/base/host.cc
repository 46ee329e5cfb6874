#include "workload/base/host.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "cache/base/fd.h"
#include "cache/base/units.h"

namespace stoker::bench {
namespace {

std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// "key : value" lines up to the first empty one.
std::map<std::string, std::string> ReadTable(const char* path) {
  std::map<std::string, std::string> out;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line) && !line.empty()) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    out[Trimmed(line.substr(0, colon))] = Trimmed(line.substr(colon + 1));
  }
  return out;
}

/// mountinfo writes blank, tab, newline and backslash as three octal digits.
std::string Unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out.push_back(static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8)));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

bool Covers(const std::string& mountpoint, const std::string& path) {
  if (mountpoint == "/") return true;
  return path.compare(0, mountpoint.size(), mountpoint) == 0 &&
         (path.size() == mountpoint.size() || path[mountpoint.size()] == '/');
}

}  // namespace

HostInfo ReadHostInfo() {
  HostInfo out;
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) == 0) out.hostname = name;
  if (const char* const given = std::getenv("STOKER_HOSTNAME"); given != nullptr && *given != '\0') {
    out.hostname = given;
  }
  out.cpus = static_cast<uint64_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  out.meminfo = ReadTable("/proc/meminfo");
  out.cpuinfo = ReadTable("/proc/cpuinfo");
  if (const auto model = out.cpuinfo.find("model name"); model != out.cpuinfo.end())
    out.processor = model->second;
  if (const auto total = out.meminfo.find("MemTotal"); total != out.meminfo.end()) {
    out.memory_bytes = std::strtoull(total->second.c_str(), nullptr, 10) * kKiB;
  }
  return out;
}

std::optional<MountInfo> FindMount(const std::string& mountinfo, const std::string& path) {
  // id parent major:minor root mountpoint options [optional fields] - fstype source options
  std::optional<MountInfo> best;
  std::istringstream lines(mountinfo);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::vector<std::string> words;
    std::string word;
    while (fields >> word) words.push_back(word);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 7 || words.end() - dash < 3) continue;
    MountInfo mount{Unescaped(words[4]), dash[1], Unescaped(dash[2])};
    // A later entry over the same place hides the earlier.
    if (Covers(mount.mountpoint, path) && (!best || mount.mountpoint.size() >= best->mountpoint.size())) {
      best = std::move(mount);
    }
  }
  return best;
}

std::optional<MountInfo> MountOf(const std::string& path) {
  std::error_code error;
  const std::string resolved = std::filesystem::weakly_canonical(path, error).string();
  if (error) return std::nullopt;
  std::ifstream in("/proc/self/mountinfo");
  std::ostringstream text;
  text << in.rdbuf();
  return FindMount(text.str(), resolved);
}

std::optional<double> PageCacheShare(const std::vector<std::string>& paths) {
  uint64_t pages = 0;
  uint64_t resident = 0;
  for (const std::string& path : paths) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info;
    if (!fd.valid() || ::fstat(fd.get(), &info) != 0 || info.st_size <= 0) continue;
    const auto bytes = static_cast<size_t>(info.st_size);
    void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (map == MAP_FAILED) continue;
    std::vector<unsigned char> present(CeilDiv(bytes, kPageBytes));
    if (::mincore(map, bytes, present.data()) == 0) {
      pages += present.size();
      resident += static_cast<uint64_t>(
          std::count_if(present.begin(), present.end(), [](unsigned char flag) { return (flag & 1) != 0; }));
    }
    ::munmap(map, bytes);
  }
  if (pages == 0) return std::nullopt;
  return static_cast<double>(resident) / static_cast<double>(pages);
}

}  // namespace stoker::bench
