#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "cache/base/fd.h"
#include "cache/base/mutex.h"
#include "cache/base/result.h"
#include "fuse/session.h"

namespace stoker {

/// Everything that can end a daemon comes together here: SIGTERM, SIGINT and SIGHUP, a command, an unmount
/// from outside. It also bounds the end: when the process has not ended `limit` after the first wish (or at
/// once on a second signal), the mount is taken away and the process leaves without tidying up, which the
/// cache is made for.
class StopControl {
 public:
  /// Blocks the signals for this thread and those started later, so create it before any. `mountpoint` is
  /// taken away on a forced end.
  static Result<std::unique_ptr<StopControl>> Create(std::string mountpoint, std::chrono::nanoseconds limit);
  /// Ends its thread; the signals stay blocked.
  ~StopControl();

  /// From now on a stop ends this session; at once when it was asked for already. Detach before the session
  /// dies.
  void Attach(Session& session) EXCLUDES(mu_);
  void Detach() EXCLUDES(mu_);
  /// Any thread. `why` goes to the log; later wishes are ignored.
  void RequestStop(const std::string& why) EXCLUDES(mu_);
  bool requested() const EXCLUDES(mu_);

 private:
  StopControl(std::string mountpoint, std::chrono::nanoseconds limit, Fd signals, Fd wake, Fd end);
  void Watch();
  [[noreturn]] void ForceEnd(const std::string& why);

  const std::string mountpoint_;
  const std::chrono::nanoseconds limit_;
  const Fd signals_;  // signalfd
  const Fd wake_;     // eventfd: a stop was requested
  const Fd end_;      // eventfd: we are being destroyed
  mutable Mutex mu_;
  bool requested_ GUARDED_BY(mu_) = false;
  Session* session_ GUARDED_BY(mu_) = nullptr;
  std::thread thread_;
};

}  // namespace stoker
