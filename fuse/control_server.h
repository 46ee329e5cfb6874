#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "fuse/cache_jobs.h"
#include "fuse/config.h"
#include "fuse/control_protocol.h"

namespace stoker {

/// What the control server tells about and acts on. Any thread; calls must be quick and must not throw.
class ControlBackend {
 public:
  virtual ~ControlBackend() = default;
  virtual DaemonStatus Describe() = 0;
  /// Prometheus text.
  virtual std::string MetricsText() = 0;
  virtual Result<WarmJobId> StartWarm(std::vector<std::string> paths) = 0;
  virtual Result<WarmProgress> Progress(WarmJobId id) = 0;
  virtual Status Cancel(WarmJobId id) = 0;
  virtual std::vector<WarmProgress> Jobs() = 0;
  virtual Result<CacheJobId> StartCacheJob(CacheJobRequest request) = 0;
  virtual Result<CacheJobProgress> CacheProgress(CacheJobId id) = 0;
  virtual Status CancelCacheJob(CacheJobId id) = 0;
  virtual void RequestStop() = 0;
};

struct ControlServerOptions {
  std::string socket_path;
  std::optional<HttpAddress> http;  // GET /metrics and GET /status on loopback TCP as well
  size_t max_body_bytes = 1 << 20;
  unsigned max_connections = 64;
  unsigned timeout_seconds = 10;  // of a connection on which nothing moves
};

/// HTTP and JSON on a unix socket (docs/control.md). Only root and the daemon's own user are answered,
/// whatever the socket file's mode says. One thread of its own serves all requests, one after the other.
class ControlServer {
 public:
  /// kBusy: a daemon listens there already. A socket file that nobody listens on is replaced.
  static Result<std::unique_ptr<ControlServer>> Start(const ControlServerOptions& options,
                                                      ControlBackend& backend);
  /// Ends running requests and removes the socket file if it is still ours.
  ~ControlServer();
  /// From now on commands are answered with kUnavailable; questions are still answered. Any thread.
  void RefuseCommands();

 private:
  struct Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
