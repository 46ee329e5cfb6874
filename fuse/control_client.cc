#include "fuse/control_client.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "cache/base/units.h"
#include "fuse/cache_protocol.h"

namespace stoker {
namespace {

constexpr size_t kMaxAnswerBytes =
    64 * kMiB;  // a daemon's answers are far smaller; a stranger's might not be
constexpr long kConnectTimeoutMs = 3000;

size_t Collect(char* data, size_t size, size_t count, void* closure) noexcept {
  auto& body = *static_cast<std::string*>(closure);
  const size_t bytes = size * count;
  if (body.size() + bytes > kMaxAnswerBytes) return 0;
  try {
    body.append(data, bytes);
  } catch (const std::exception&) {
    return 0;  // out of memory: curl gives the transfer up
  }
  return bytes;
}

}  // namespace

struct ControlClient::Impl {
  CURL* curl = nullptr;
  long timeout_ms = 0;
  int peer_pid = 0;
  ~Impl() {
    if (curl != nullptr) curl_easy_cleanup(curl);
  }
};

ControlClient::ControlClient(std::string socket_path, std::chrono::milliseconds timeout)
    : socket_path_(std::move(socket_path)), impl_(std::make_unique<Impl>()) {
  impl_->curl = curl_easy_init();
  impl_->timeout_ms = static_cast<long>(timeout.count());
}

ControlClient::~ControlClient() = default;

int ControlClient::peer_pid() const {
  return impl_->peer_pid;
}

Result<std::string> ControlClient::Call(const std::string& method, const std::string& target,
                                        const std::string& body) {
  CURL* curl = impl_->curl;
  if (curl == nullptr) return Status(Code::kInternal, "libcurl cannot be initialised");
  std::string answer;
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path_.c_str());
  curl_easy_setopt(curl, CURLOPT_URL, ("http://stoker" + target).c_str());
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // whatever the environment says, this stays on the machine
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, impl_->timeout_ms);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Collect);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  curl_slist* headers = nullptr;
  if (method == "POST") {
    headers = curl_slist_append(headers, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  } else if (method != "GET") {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method.c_str());
  }
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (code != CURLE_OK) {
    long os_error = 0;
    curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &os_error);
    if (code == CURLE_COULDNT_CONNECT) {
      if (os_error == EACCES || os_error == EPERM) {
        return Status(
            Code::kPermissionDenied,
            "not permitted to use the control socket '" + socket_path_ + "': use root or the daemon's user",
            static_cast<int>(os_error));
      }
      return Status(Code::kUnavailable,
                    os_error == ECONNREFUSED
                        ? "no daemon listens on '" + socket_path_ + "': it was left over by one that died"
                        : "no daemon listens on '" + socket_path_ + "'",
                    static_cast<int>(os_error));
    }
    if (code == CURLE_OPERATION_TIMEDOUT) {
      return Status(Code::kDeadlineExceeded, "the daemon on '" + socket_path_ + "' does not answer");
    }
    return Status(Code::kUnavailable,
                  "the daemon on '" + socket_path_ + "' went away: " + curl_easy_strerror(code));
  }
  curl_socket_t connection = CURL_SOCKET_BAD;
  ucred peer{};
  socklen_t peer_size = sizeof peer;
  if (curl_easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &connection) == CURLE_OK &&
      connection != CURL_SOCKET_BAD &&
      ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) == 0) {
    impl_->peer_pid = peer.pid;
  }
  long http_status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http_status);
  if (http_status / 100 != 2) return DecodeError(http_status, answer);
  return answer;
}

Result<std::string> ControlClient::DescribeJson() {
  return Call("GET", "/status");
}

Result<DaemonStatus> ControlClient::Describe() {
  ASSIGN_OR_RETURN(const std::string body, DescribeJson());
  return DecodeStatus(body);
}

Result<WarmJobId> ControlClient::StartWarm(const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(const std::string body, Call("POST", "/warm", EncodeWarmRequest(paths)));
  return DecodeJobId(body);
}

Result<WarmProgress> ControlClient::Progress(WarmJobId id, size_t failures_from) {
  ASSIGN_OR_RETURN(
      const std::string body,
      Call("GET", "/jobs/" + std::to_string(id) + "?failures_from=" + std::to_string(failures_from)));
  return DecodeProgress(body);
}

Result<std::string> ControlClient::JobsJson() {
  return Call("GET", "/jobs");
}

Result<std::vector<WarmProgress>> ControlClient::Jobs() {
  ASSIGN_OR_RETURN(const std::string body, JobsJson());
  return DecodeJobs(body);
}

Status ControlClient::Cancel(WarmJobId id) {
  return Call("DELETE", "/jobs/" + std::to_string(id)).status();
}

Result<CacheJobId> ControlClient::StartCacheJob(const CacheJobRequest& request) {
  const char* const target = request.kind == CacheJobRequest::Kind::kEvict ? "/evict" : "/verify";
  ASSIGN_OR_RETURN(const std::string body, Call("POST", target, EncodeCacheRequest(request)));
  return DecodeJobId(body);
}

Result<CacheJobProgress> ControlClient::CacheProgress(CacheJobId id) {
  ASSIGN_OR_RETURN(const std::string body, Call("GET", "/cache-jobs/" + std::to_string(id)));
  return DecodeCacheProgress(body);
}

Status ControlClient::CancelCacheJob(CacheJobId id) {
  return Call("DELETE", "/cache-jobs/" + std::to_string(id)).status();
}

Status ControlClient::Stop() {
  return Call("POST", "/stop").status();
}

}  // namespace stoker
