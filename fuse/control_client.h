#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "fuse/cache_jobs.h"
#include "fuse/control_protocol.h"

namespace stoker {

/// Talks to one daemon over its control socket. One thread. Every call is bounded by `timeout`. Errors: the
/// daemon's own (its code and message); kUnavailable: nobody listens on the socket (the daemon is not
/// running, or died); kPermissionDenied: the socket is not ours; kDeadlineExceeded: the daemon does not
/// answer.
class ControlClient {
 public:
  explicit ControlClient(std::string socket_path,
                         std::chrono::milliseconds timeout = std::chrono::seconds(10));
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  const std::string& socket_path() const { return socket_path_; }

  Result<DaemonStatus> Describe();
  /// The body as the daemon sent it.
  Result<std::string> DescribeJson();
  Result<WarmJobId> StartWarm(const std::vector<std::string>& paths);
  /// `failures` of the answer begin at index `failures_from`.
  Result<WarmProgress> Progress(WarmJobId id, size_t failures_from);
  Result<std::vector<WarmProgress>> Jobs();
  Result<std::string> JobsJson();
  Status Cancel(WarmJobId id);
  Result<CacheJobId> StartCacheJob(const CacheJobRequest& request);
  Result<CacheJobProgress> CacheProgress(CacheJobId id);
  Status CancelCacheJob(CacheJobId id);
  Status Stop();

  /// The process that listens on the socket, as this process would name it (a container's own number may
  /// differ), asked of the kernel. 0: unknown, or before a call was answered.
  int peer_pid() const;

  /// Any request; the body of a 2xx answer.
  Result<std::string> Call(const std::string& method, const std::string& target,
                           const std::string& body = "");

 private:
  struct Impl;
  const std::string socket_path_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
