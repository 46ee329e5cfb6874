#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include "cache/base/mutex.h"
#include "fuse/filesystem.h"

namespace stoker {

/// Whether the thread described by the text of /proc/TID/status wants to leave what it is waiting for: it is
/// being killed, or asked to stop by a signal that it does not block (SIGINT, SIGTERM, SIGHUP, SIGQUIT).
/// Timers, profilers, children, runtimes that preempt by signals and io_uring's own wake-ups are no reason:
/// open() and stat() of a local file are never interrupted by those, and programs do not expect it.
bool WantsOut(std::string_view proc_status);

/// Gives waiting requests up for processes that want out. The kernel tells of a signal once, at the first
/// one, whichever it is, and never of a SIGKILL that comes later; so a request that was told of is looked at
/// again until it is answered. Any thread.
class InterruptWatch {
 public:
  explicit InterruptWatch(Filesystem& filesystem);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// The kernel said that a signal came to the thread that asks. `thread` is 0 when it lives in a pid
  /// namespace that this process cannot see: then every signal counts. Never calls back.
  void Told(WaitId id, pid_t thread) EXCLUDES(mu_);

 private:
  struct Watched {
    WaitId id;
    pid_t thread;
  };
  static constexpr auto kLookAgain = std::chrono::milliseconds(100);
  void Run() EXCLUDES(mu_);

  Filesystem& filesystem_;
  Mutex mu_;
  CondVar changed_;
  std::vector<Watched> watched_ GUARDED_BY(mu_);  // at most the requests that wait
  bool stopping_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stoker
