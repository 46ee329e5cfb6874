#include "fuse/interrupt_watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include "cache/base/fd.h"

namespace stoker {

namespace {

constexpr uint64_t Bit(int signal) {
  return uint64_t{1} << (signal - 1);
}

/// The mask behind e.g. "SigPnd:" (proc_pid_status(5): 16 hexadecimal digits after a tab).
std::optional<uint64_t> Mask(std::string_view status, std::string_view field) {
  const size_t at = status.find(field);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view digits = status.substr(at + field.size());
  const size_t begin = digits.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  digits.remove_prefix(begin);
  uint64_t mask = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), mask, 16);
  if (error != std::errc() || end == digits.data()) return std::nullopt;
  return mask;
}

bool ThreadWantsOut(pid_t thread) {
  if (thread == 0) return true;
  const Fd fd(::open(("/proc/" + std::to_string(thread) + "/status").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return errno == ENOENT || errno == ESRCH;
  std::array<char, 4096> text;  // about 1.5 KiB, the masks are within the first two thirds
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  return WantsOut({text.data(), size});
}

}  // namespace

bool WantsOut(std::string_view proc_status) {
  const std::optional<uint64_t> own = Mask(proc_status, "\nSigPnd:");
  const std::optional<uint64_t> shared = Mask(proc_status, "\nShdPnd:");
  const std::optional<uint64_t> blocked = Mask(proc_status, "\nSigBlk:");
  if (!own || !shared || !blocked) return true;  // nothing can be known: as if everything counted
  const uint64_t pending = *own | *shared;
  // A signal that ends the process is turned into SIGKILL for each of its threads.
  constexpr uint64_t kStops = Bit(SIGINT) | Bit(SIGTERM) | Bit(SIGHUP) | Bit(SIGQUIT);
  return (pending & Bit(SIGKILL)) != 0 || (pending & ~*blocked & kStops) != 0;
}

InterruptWatch::InterruptWatch(Filesystem& filesystem)
    : filesystem_(filesystem), thread_([this] { Run(); }) {}

InterruptWatch::~InterruptWatch() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void InterruptWatch::Told(WaitId id, pid_t thread) {
  MutexLock lock(mu_);
  watched_.push_back({id, thread});
  changed_.NotifyAll();
}

void InterruptWatch::Run() {
  pthread_setname_np(pthread_self(), "stoker-intr");
  std::vector<Watched> looking;
  while (true) {
    {
      MutexLock lock(mu_);
      if (looking.empty()) {
        while (watched_.empty() && !stopping_) changed_.Wait(mu_);
      } else if (watched_.empty() && !stopping_) {
        changed_.WaitFor(mu_, kLookAgain);
      }
      if (stopping_) return;
      looking.insert(looking.end(), watched_.begin(), watched_.end());
      watched_.clear();
    }
    std::erase_if(looking, [this](const Watched& watched) {
      if (!filesystem_.Waiting(watched.id)) return true;
      if (!ThreadWantsOut(watched.thread)) return false;
      filesystem_.Interrupt(watched.id);
      return true;
    });
  }
}

}  // namespace stoker
