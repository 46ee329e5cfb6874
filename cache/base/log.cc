#include "cache/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "cache/base/check.h"
#include "cache/base/mutex.h"

namespace stoker {
namespace {

// The only process-wide state here: lines from every room end in one place, and a logger passed by reference
// through every constructor would say nothing more.
Mutex g_mu;
std::shared_ptr<spdlog::logger>& Slot() {
  static auto* slot = new std::shared_ptr<spdlog::logger>();
  return *slot;
}

std::shared_ptr<spdlog::logger> MakeStderr() {
  return std::make_shared<spdlog::logger>("stoker", std::make_shared<spdlog::sinks::stderr_sink_mt>());
}

void Prepare(spdlog::logger& logger, spdlog::level::level_enum level) {
  logger.set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  logger.set_level(level);
  logger.flush_on(spdlog::level::info);
}

std::shared_ptr<spdlog::logger> Current() {
  MutexLock lock(g_mu);
  auto& slot = Slot();
  if (!slot) {
    slot = MakeStderr();
    Prepare(*slot, spdlog::level::info);
  }
  return slot;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

Status ConfigureLog(std::string_view level, const std::string& file) {
  spdlog::level::level_enum wanted;
  if (level == "debug") {
    wanted = spdlog::level::debug;
  } else if (level == "info") {
    wanted = spdlog::level::info;
  } else if (level == "warn") {
    wanted = spdlog::level::warn;
  } else if (level == "error") {
    wanted = spdlog::level::err;
  } else {
    return {Code::kInvalidArgument,
            "'" + std::string(level) + "' is not a log level: use debug, info, warn or error"};
  }
  std::shared_ptr<spdlog::logger> logger;
  try {
    logger = file.empty() ? MakeStderr()
                          : std::make_shared<spdlog::logger>(
                                "stoker", std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
  } catch (const std::exception& error) {
    return {Code::kIo, "cannot open the log file " + file + ": " + error.what()};
  }
  Prepare(*logger, wanted);
  MutexLock lock(g_mu);
  Slot() = std::move(logger);
  return Status::Ok();
}

void Log(LogLevel level, std::string_view room, std::string_view message) {
  try {
    Current()->log(ToSpdlog(level), "{}: {}", room, message);
  } catch (const std::exception&) {
    // A log line that cannot be written must not stop the work it tells about.
  }
}

bool LogDebugEnabled() {
  return Current()->should_log(spdlog::level::debug);
}

void LogLimiter::Log(LogLevel level, std::string_view room, std::string_view message) {
  uint64_t dropped = 0;
  {
    MutexLock lock(mu_);
    const Nanos now = clock_.Now();
    if (now - second_began_ >= std::chrono::seconds(1)) {
      second_began_ = now;
      written_ = 0;
    }
    if (written_ >= per_second_) {
      ++dropped_;
      return;
    }
    ++written_;
    dropped = std::exchange(dropped_, 0);
  }
  if (dropped == 0) return stoker::Log(level, room, message);
  stoker::Log(level, room,
              std::string(message) + " (lines like this one left out: " + std::to_string(dropped) + ")");
}

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "stoker: broken invariant at %s:%d: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace stoker
