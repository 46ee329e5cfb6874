#include "workload/base/progress.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "cache/base/units.h"
#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

constexpr Nanos kTerminalPeriod = std::chrono::milliseconds(100);
constexpr Nanos kPipePeriod = std::chrono::seconds(5);
constexpr int kBarWidth = 24;

std::string Clock(double seconds) {
  const auto whole = static_cast<uint64_t>(seconds + 0.5);
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%llu:%02llu:%02llu", static_cast<unsigned long long>(whole / 3600),
                  static_cast<unsigned long long>(whole / 60 % 60),
                  static_cast<unsigned long long>(whole % 60));
  } else {
    std::snprintf(text, sizeof text, "%llu:%02llu", static_cast<unsigned long long>(whole / 60),
                  static_cast<unsigned long long>(whole % 60));
  }
  return text;
}

double Share(uint64_t bytes, uint64_t total) {
  return total == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(total);
}

}  // namespace

Progress::Progress(std::FILE* out, std::string what, uint64_t total_files, uint64_t total_bytes)
    : out_(out),
      what_(std::move(what)),
      total_files_(total_files),
      total_bytes_(total_bytes),
      terminal_(::isatty(::fileno(out)) == 1),
      start_(SteadyNow()),
      next_(start_ + (terminal_ ? kTerminalPeriod : kPipePeriod)) {}

std::string Progress::Describe(const std::string& what, uint64_t files, uint64_t total_files, uint64_t bytes,
                               uint64_t total_bytes, double seconds) {
  const double share = Share(bytes, total_bytes);
  char percent[16];
  std::snprintf(percent, sizeof percent, "%.0f %%", share * 100);
  std::string out = what + ": " + percent + ", " + std::to_string(files) + "/" + std::to_string(total_files) +
                    " files, " + FormatBytes(bytes) + " of " + FormatBytes(total_bytes);
  if (seconds > 0 && bytes > 0) {
    const double rate = static_cast<double>(bytes) / seconds;
    out += ", " + FormatBytes(static_cast<uint64_t>(rate)) + "/s";
    if (bytes < total_bytes) {
      out += ", " + Clock(static_cast<double>(total_bytes - bytes) / rate) + " left";
    } else {
      out += ", took " + Clock(seconds);
    }
  }
  return out;
}

void Progress::Draw(uint64_t files, uint64_t bytes) {
  const double seconds = std::chrono::duration<double>(SteadyNow() - start_).count();
  const std::string text = Describe(what_, files, total_files_, bytes, total_bytes_, seconds);
  if (terminal_) {
    const int full = static_cast<int>(Share(bytes, total_bytes_) * kBarWidth);
    const std::string bar =
        std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(kBarWidth - full), '.');
    std::fprintf(out_, "\r\x1b[K[%s] %s", bar.c_str(), text.c_str());
  } else {
    std::fprintf(out_, "%s\n", text.c_str());
  }
  std::fflush(out_);
}

void Progress::Update(uint64_t files, uint64_t bytes) {
  const Nanos now = SteadyNow();
  if (now < next_) return;
  next_ = now + (terminal_ ? kTerminalPeriod : kPipePeriod);
  Draw(files, bytes);
}

void Progress::Finish(uint64_t files, uint64_t bytes) {
  Draw(files, bytes);
  if (terminal_) std::fputc('\n', out_);
  std::fflush(out_);
}

}  // namespace stoker::bench
