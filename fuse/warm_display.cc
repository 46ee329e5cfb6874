#include "fuse/warm_display.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cache/base/units.h"

namespace stoker {
namespace {

std::string FilesText(const WarmProgress& p) {
  return std::to_string(p.files_done) + "/" + std::to_string(p.files_total) + (p.walk_finished ? "" : "+") +
         " files";
}

std::string BytesText(const WarmProgress& p) {
  return FormatBytes(p.bytes_done) + " of " + FormatBytes(p.bytes_total) + (p.walk_finished ? "" : "+");
}

std::string PercentText(const WarmProgress& p) {
  if (!p.walk_finished) return "looking";
  char text[16];
  std::snprintf(text, sizeof text, "%3d %%", static_cast<int>(std::floor(WarmFraction(p) * 100)));
  return text;
}

std::string Plural(uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

std::string FormatClock(double seconds) {
  if (!(seconds >= 0)) return "--:--";
  const auto total = static_cast<unsigned long long>(std::min(seconds, 359999.0) + 0.5);
  char text[32];
  if (total >= 3600) {
    std::snprintf(text, sizeof text, "%llu:%02llu:%02llu", total / 3600, total / 60 % 60, total % 60);
  } else {
    std::snprintf(text, sizeof text, "%llu:%02llu", total / 60, total % 60);
  }
  return text;
}

std::string FormatRate(double bytes_per_second) {
  return FormatBytes(static_cast<uint64_t>(std::max(0.0, bytes_per_second))) + "/s";
}

double WarmFraction(const WarmProgress& p) {
  if (p.state == WarmProgress::State::kDone) return 1;
  double fraction = 0;
  if (p.bytes_total != 0) {
    fraction = static_cast<double>(p.bytes_done) / static_cast<double>(p.bytes_total);
  } else if (p.files_total != 0) {
    fraction = static_cast<double>(p.files_done) / static_cast<double>(p.files_total);
  }
  return std::clamp(fraction, 0.0, 0.9999);
}

std::string WarmBar(const WarmProgress& p, size_t columns) {
  std::string right = PercentText(p) + "  " + FilesText(p) + "  " + BytesText(p) + "  " +
                      FormatRate(p.bytes_per_second) + "  ETA " + FormatClock(p.eta_seconds);
  if (p.files_failed != 0) right += "  " + std::to_string(p.files_failed) + " failed";
  constexpr size_t kMinBar = 10;
  constexpr size_t kMaxBar = 50;
  const size_t limit = columns > 1 ? columns - 1 : 1;  // the last column would wrap on some terminals
  if (right.size() + kMinBar + 3 > limit) return right.substr(0, limit);
  const size_t width = std::min(kMaxBar, limit - right.size() - 3);
  const auto filled = static_cast<size_t>(WarmFraction(p) * static_cast<double>(width));
  std::string bar(filled, '=');
  if (filled < width) bar += '>';
  bar.resize(width, ' ');
  return "[" + bar + "] " + right;
}

std::string WarmLine(const WarmProgress& p) {
  std::string out = "warm: " + PercentText(p) + ", " + FilesText(p) + ", " + BytesText(p) + ", " +
                    FormatRate(p.bytes_per_second) + ", ETA " + FormatClock(p.eta_seconds);
  if (p.files_failed != 0) out += ", " + std::to_string(p.files_failed) + " failed";
  return out;
}

std::string WarmSummary(const WarmProgress& p) {
  const double rate = p.seconds > 0 ? static_cast<double>(p.bytes_fetched) / p.seconds : 0;
  std::string out;
  if (p.state == WarmProgress::State::kDone) {
    out = "warm: all is cached: " + Plural(p.files_done, "file", "files") + ", " + FormatBytes(p.bytes_done);
  } else {
    out = p.state == WarmProgress::State::kCancelled ? "warm: cancelled: " : "warm: not all is cached: ";
    out += std::to_string(p.files_done) + " of " + Plural(p.files_total, "file", "files") + ", " +
           FormatBytes(p.bytes_done) + " of " + FormatBytes(p.bytes_total);
    if (p.files_failed != 0) out += ", " + std::to_string(p.files_failed) + " failed";
  }
  out += "; " + FormatBytes(p.bytes_fetched) + " fetched in " + FormatClock(p.seconds) + " (" +
         FormatRate(rate) + ")";
  if (p.files_skipped != 0) {
    out += "; " + Plural(p.files_skipped, "entry", "entries") + " skipped, not " +
           (p.files_skipped == 1 ? "a regular file" : "regular files") + " or of class skip";
  }
  return out;
}

}  // namespace stoker
