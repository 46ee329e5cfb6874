#include "fuse/directory_report.h"

#include <cstdint>

namespace stoker {
namespace {

/// As a Prometheus label value: backslash, quote and newline are written with a backslash.
std::string LabelValue(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

template <typename Value>
std::string Family(const std::string& name, const std::string& meaning,
                   const std::vector<DirectoryReport>& dirs, Value value) {
  std::string out = "# HELP " + name + " " + meaning + "\n# TYPE " + name + " gauge\n";
  for (const DirectoryReport& one : dirs) {
    out += name + "{dir=\"" + LabelValue(one.dir) + "\"} " + std::to_string(value(one)) + "\n";
  }
  return out;
}

}  // namespace

std::string CacheDirsText(const std::vector<std::string>& dirs) {
  std::string out;
  for (const std::string& dir : dirs) out += (out.empty() ? "" : ", ") + dir;
  return out;
}

std::string RenderDirectoryMetrics(const std::vector<DirectoryReport>& dirs) {
  using Report = DirectoryReport;
  return Family("stoker_cache_dir_up", "1: this cache directory is used; 0: it is down", dirs,
                [](const Report& one) { return uint64_t{one.up ? 1U : 0U}; }) +
         Family("stoker_cache_dir_used_bytes", "allocated blocks of this directory's objects", dirs,
                [](const Report& one) { return one.usage.used_bytes; }) +
         Family("stoker_cache_dir_limit_bytes", "cache.size of this directory; 0 when it is down", dirs,
                [](const Report& one) { return one.usage.limit_bytes; }) +
         Family("stoker_cache_dir_objects", "objects in this directory's index", dirs,
                [](const Report& one) { return one.usage.objects; });
}

}  // namespace stoker
