#include "fuse/control_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "cache/base/fd.h"
#include "cache/base/log.h"
#include "fuse/cache_protocol.h"

namespace stoker {
namespace {

/// A body longer than the limit is read to its end, to be answered politely, but not beyond this many times
/// the limit.
constexpr size_t kDiscardFactor = 8;
constexpr std::string_view kRoutes =
    "there are GET /status, GET /metrics, GET /jobs, GET /jobs/ID, DELETE /jobs/ID, POST /warm, POST /evict, "
    "POST /verify, GET /cache-jobs/ID, DELETE /cache-jobs/ID, POST /stop";

struct Reply {
  unsigned http_status = MHD_HTTP_OK;
  std::string body;
  const char* content_type = "application/json";
  const char* allow = nullptr;  // of a 405
};

unsigned HttpStatusOf(Code code) {
  switch (code) {
    case Code::kOk:
      return MHD_HTTP_OK;
    case Code::kInvalidArgument:
      return MHD_HTTP_BAD_REQUEST;
    case Code::kNotFound:
      return MHD_HTTP_NOT_FOUND;
    case Code::kPermissionDenied:
      return MHD_HTTP_FORBIDDEN;
    case Code::kBusy:
    case Code::kUnavailable:
    case Code::kCancelled:
      return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
      return MHD_HTTP_INTERNAL_SERVER_ERROR;
  }
}

Reply ErrorReply(unsigned http_status, const Status& status) {
  Reply reply;
  reply.http_status = http_status;
  reply.body = EncodeError(status);
  return reply;
}

Reply ErrorReply(const Status& status) {
  return ErrorReply(HttpStatusOf(status.code()), status);
}

Reply Json(std::string body, unsigned http_status = MHD_HTTP_OK) {
  Reply reply;
  reply.http_status = http_status;
  reply.body = std::move(body);
  return reply;
}

/// One request while its body comes in.
struct Request {
  std::string body;
  size_t received = 0;
  bool stops = false;  // the daemon, once it is answered
};

/// What follows the prefix of a job's path.
Result<uint64_t> ParseJobNumber(std::string_view text) {
  uint64_t id = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || stop != text.data() + text.size()) {
    return Status(Code::kInvalidArgument, "'" + std::string(text) + "' is not a job number");
  }
  return id;
}

Result<Fd> ListenUnix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Status(Code::kInvalidArgument,
                  "the control socket's path is too long: set control.socket to a shorter one");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::FromErrno(errno, "cannot make the control socket");
  struct stat st;
  if (::lstat(path.c_str(), &st) == 0) {
    if (S_ISSOCK(st.st_mode)) {
      const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (::connect(probe.get(), generic, sizeof address) == 0 || errno == EAGAIN) {
        return Status(Code::kBusy, "another daemon listens on the control socket '" + path +
                                       "': stop it, or set control.socket to another path");
      }
    } else if (!S_ISLNK(st.st_mode)) {
      return Status(Code::kAlreadyExists,
                    "the control socket '" + path +
                        "' cannot be made, a file of that name exists: remove it, or set "
                        "control.socket to another path");
    }
    if (::unlink(path.c_str()) != 0) {
      return Status::FromErrno(errno, "cannot replace the control socket '" + path + "'");
    }
  }
  // The mode that the file will have: set on the socket, as a umask would hold for all threads.
  if (::fchmod(fd.get(), 0600) != 0) return Status::FromErrno(errno, "cannot set the control socket's mode");
  if (::bind(fd.get(), generic, sizeof address) != 0) {
    return Status::FromErrno(errno, "cannot make the control socket '" + path + "'");
  }
  if (::listen(fd.get(), 64) != 0) return Status::FromErrno(errno, "cannot listen on '" + path + "'");
  return fd;
}

Result<Fd> ListenTcp(const HttpAddress& http) {
  const std::string shown = "control.http " + http.address + " port " + std::to_string(http.port);
  Fd fd(::socket(http.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::FromErrno(errno, shown);
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    return Status::FromErrno(errno, shown);
  int bound;
  if (http.ipv6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(http.port);
    ::inet_pton(AF_INET6, http.address.c_str(), &address.sin6_addr);
    bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(http.port);
    ::inet_pton(AF_INET, http.address.c_str(), &address.sin_addr);
    bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  if (bound != 0 || ::listen(fd.get(), 64) != 0) {
    Status status = Status::FromErrno(errno, shown);
    if (errno == EADDRINUSE) status = {Code::kBusy, status.message() + ": choose another port", EADDRINUSE};
    return status;
  }
  return fd;
}

}  // namespace

struct ControlServer::Impl {
  /// Where a request came in.
  struct Listener {
    Impl* impl = nullptr;
    bool is_tcp = false;
    MHD_Daemon* daemon = nullptr;
  };

  Impl(const ControlServerOptions& opts, ControlBackend& control_backend)
      : options(opts), backend(control_backend) {}

  ~Impl() {
    for (Listener* listener : {&tcp, &local}) {
      if (listener->daemon != nullptr) MHD_stop_daemon(listener->daemon);
    }
    struct stat st;
    if (socket_inode != 0 && ::lstat(options.socket_path.c_str(), &st) == 0 && st.st_ino == socket_inode) {
      ::unlink(options.socket_path.c_str());
    }
  }

  Status Listen(Listener& listener, Fd fd) {
    listener.impl = this;
    listener.daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | MHD_USE_ERROR_LOG, 0, nullptr,
                         nullptr, &Impl::OnRequest, &listener, MHD_OPTION_EXTERNAL_LOGGER, &Impl::OnLog,
                         nullptr, MHD_OPTION_LISTEN_SOCKET, fd.get(), MHD_OPTION_CONNECTION_LIMIT,
                         options.max_connections, MHD_OPTION_CONNECTION_TIMEOUT, options.timeout_seconds,
                         MHD_OPTION_NOTIFY_COMPLETED, &Impl::OnCompleted, this, MHD_OPTION_END);
    if (listener.daemon == nullptr) return {Code::kInternal, "cannot start the control server"};
    fd.Release();  // closed by MHD_stop_daemon
    return Status::Ok();
  }

  static void OnLog(void*, const char* format, va_list arguments) noexcept {
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    if (char* newline = std::strchr(line, '\n')) *newline = '\0';
    LogDebug("control", line);
  }

  static void OnCompleted(void* closure, MHD_Connection*, void** slot, MHD_RequestTerminationCode) noexcept {
    const std::unique_ptr<Request> request(static_cast<Request*>(std::exchange(*slot, nullptr)));
    // Now that the answer is out: a stop soon takes this server down, and whoever asked for it should hear
    // that it began.
    if (request != nullptr && request->stops) static_cast<Impl*>(closure)->backend.RequestStop();
  }

  static MHD_Result OnRequest(void* closure, MHD_Connection* connection, const char* url, const char* method,
                              const char*, const char* data, size_t* data_bytes, void** slot) noexcept {
    auto& listener = *static_cast<Listener*>(closure);
    Impl& impl = *listener.impl;
    try {
      if (*slot == nullptr) {
        *slot = new Request;
        const Status allowed = listener.is_tcp ? Status::Ok() : impl.CheckPeer(connection);
        if (!allowed.ok()) return Send(connection, ErrorReply(allowed));
        const char* length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
        if (length != nullptr &&
            std::strtoull(length, nullptr, 10) > impl.options.max_body_bytes * kDiscardFactor) {
          return Send(connection, impl.TooLarge());
        }
        return MHD_YES;
      }
      auto& request = *static_cast<Request*>(*slot);
      if (*data_bytes != 0) {
        request.received += *data_bytes;
        if (request.received > impl.options.max_body_bytes * kDiscardFactor) return MHD_NO;
        if (request.received <= impl.options.max_body_bytes) {
          request.body.append(data, *data_bytes);
        } else {
          request.body.clear();
        }
        *data_bytes = 0;
        return MHD_YES;
      }
      if (request.received > impl.options.max_body_bytes) return Send(connection, impl.TooLarge());
      return Send(connection, impl.Route(listener, connection, method, url, request));
    } catch (const std::exception& error) {
      LogError("control", std::string("a request failed: ") + error.what());
      return MHD_NO;
    }
  }

  static MHD_Result Send(MHD_Connection* connection, const Reply& reply) {
    MHD_Response* response = MHD_create_response_from_buffer(
        reply.body.size(), const_cast<char*>(reply.body.data()), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", reply.content_type);
    if (reply.allow != nullptr) MHD_add_response_header(response, "Allow", reply.allow);
    const MHD_Result queued = MHD_queue_response(connection, reply.http_status, response);
    MHD_destroy_response(response);
    return queued;
  }

  Reply TooLarge() const {
    return ErrorReply(
        MHD_HTTP_CONTENT_TOO_LARGE,
        {Code::kInvalidArgument, "the body is larger than " + std::to_string(options.max_body_bytes) +
                                     " bytes: name directories instead of their files"});
  }

  Status CheckPeer(MHD_Connection* connection) const {
    const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    ucred peer{};
    socklen_t size = sizeof peer;
    if (info == nullptr || ::getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
      return {Code::kPermissionDenied, "cannot tell who is asking"};
    }
    if (peer.uid == 0 || peer.uid == ::geteuid()) return Status::Ok();
    return {Code::kPermissionDenied, "user " + std::to_string(peer.uid) +
                                         " may not control this daemon: use root or user " +
                                         std::to_string(::geteuid())};
  }

  Reply Route(const Listener& listener, MHD_Connection* connection, const std::string& method,
              const std::string& url, Request& request) {
    const auto only = [&](const char* allowed) {
      Reply reply =
          ErrorReply(MHD_HTTP_METHOD_NOT_ALLOWED,
                     {Code::kInvalidArgument, method + " is not possible on " + url + ": use " + allowed});
      reply.allow = allowed;
      return reply;
    };
    if (url == "/status") return method == "GET" ? Json(EncodeStatus(backend.Describe())) : only("GET");
    if (url == "/metrics") {
      if (method != "GET") return only("GET");
      Reply reply = Json(backend.MetricsText());
      reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
      return reply;
    }
    if (listener.is_tcp) {
      return ErrorReply(
          MHD_HTTP_NOT_FOUND,
          {Code::kNotFound, "unknown path '" + url + "': over TCP there are GET /status and GET /metrics"});
    }
    if (url == "/warm") return method == "POST" ? Warm(request.body) : only("POST");
    if (url == "/evict")
      return method == "POST" ? Cache(CacheJobRequest::Kind::kEvict, request.body) : only("POST");
    if (url == "/verify")
      return method == "POST" ? Cache(CacheJobRequest::Kind::kVerify, request.body) : only("POST");
    constexpr std::string_view kCacheJobPrefix = "/cache-jobs/";
    if (url.compare(0, kCacheJobPrefix.size(), kCacheJobPrefix) == 0) {
      if (method != "GET" && method != "DELETE") return only("GET, DELETE");
      const Result<uint64_t> id = ParseJobNumber(std::string_view(url).substr(kCacheJobPrefix.size()));
      if (!id.ok()) return ErrorReply(id.status());
      if (method == "DELETE") {
        const Status status = backend.CancelCacheJob(*id);
        return status.ok() ? Json(EncodeJobId(*id)) : ErrorReply(status);
      }
      const Result<CacheJobProgress> progress = backend.CacheProgress(*id);
      return progress.ok() ? Json(EncodeCacheProgress(*progress)) : ErrorReply(progress.status());
    }
    if (url == "/stop") return method == "POST" ? Stop(request) : only("POST");
    if (url == "/jobs") return method == "GET" ? Json(EncodeJobs(backend.Jobs())) : only("GET");
    constexpr std::string_view kJobPrefix = "/jobs/";
    if (url.compare(0, kJobPrefix.size(), kJobPrefix) == 0) {
      if (method != "GET" && method != "DELETE") return only("GET, DELETE");
      const Result<uint64_t> id = ParseJobNumber(std::string_view(url).substr(kJobPrefix.size()));
      if (!id.ok()) return ErrorReply(id.status());
      if (method == "DELETE") {
        if (refusing.load(std::memory_order_acquire)) return Stopping();
        const Status status = backend.Cancel(*id);
        return status.ok() ? Json(EncodeJobId(*id)) : ErrorReply(status);
      }
      const char* from = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "failures_from");
      Result<WarmProgress> progress = backend.Progress(*id);
      if (!progress.ok()) return ErrorReply(progress.status());
      return Json(EncodeProgress(*progress, from == nullptr ? 0 : std::strtoull(from, nullptr, 10)));
    }
    return ErrorReply(MHD_HTTP_NOT_FOUND,
                      {Code::kNotFound, "unknown path '" + url + "': " + std::string(kRoutes)});
  }

  Reply Warm(const std::string& body) {
    if (refusing.load(std::memory_order_acquire)) return Stopping();
    Result<std::vector<std::string>> paths = DecodeWarmRequest(body);
    if (!paths.ok()) return ErrorReply(paths.status());
    Result<WarmJobId> job = backend.StartWarm(std::move(paths).value());
    if (!job.ok()) return ErrorReply(job.status());
    return Json(EncodeJobId(*job), MHD_HTTP_ACCEPTED);
  }

  Reply Cache(CacheJobRequest::Kind kind, const std::string& body) {
    if (refusing.load(std::memory_order_acquire)) return Stopping();
    Result<CacheJobRequest> wish = DecodeCacheRequest(kind, body);
    if (!wish.ok()) return ErrorReply(wish.status());
    const Result<CacheJobId> job = backend.StartCacheJob(std::move(wish).value());
    return job.ok() ? Json(EncodeJobId(*job), MHD_HTTP_ACCEPTED) : ErrorReply(job.status());
  }

  Reply Stop(Request& request) {
    RefuseAll();
    request.stops = true;
    return Json("{\"stopping\":true,\"pid\":" + std::to_string(::getpid()) + "}\n", MHD_HTTP_ACCEPTED);
  }

  static Reply Stopping() { return ErrorReply({Code::kUnavailable, "the daemon is stopping"}); }
  void RefuseAll() { refusing.store(true, std::memory_order_release); }

  const ControlServerOptions options;
  ControlBackend& backend;
  std::atomic<bool> refusing{false};
  Listener local;
  Listener tcp;
  ino_t socket_inode = 0;
};

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() = default;

void ControlServer::RefuseCommands() {
  impl_->RefuseAll();
}

Result<std::unique_ptr<ControlServer>> ControlServer::Start(const ControlServerOptions& options,
                                                            ControlBackend& backend) {
  auto impl = std::make_unique<Impl>(options, backend);
  ASSIGN_OR_RETURN(Fd local, ListenUnix(options.socket_path));
  struct stat st;
  if (::lstat(options.socket_path.c_str(), &st) == 0) impl->socket_inode = st.st_ino;
  RETURN_IF_ERROR(impl->Listen(impl->local, std::move(local)));
  if (options.http) {
    ASSIGN_OR_RETURN(Fd tcp, ListenTcp(*options.http));
    impl->tcp.is_tcp = true;
    RETURN_IF_ERROR(impl->Listen(impl->tcp, std::move(tcp)));
  }
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
}

}  // namespace stoker
