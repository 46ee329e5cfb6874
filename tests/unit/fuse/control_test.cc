#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cache/base/fd.h"
#include "cache/base/mutex.h"
#include "fuse/control_client.h"
#include "fuse/control_path.h"
#include "fuse/control_server.h"
#include "fuse/daemonize.h"
#include "fuse/mount_table.h"
#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TempDir;

class FakeBackend final : public ControlBackend {
 public:
  DaemonStatus Describe() override {
    DaemonStatus s;
    s.pid = 42;
    s.version = "1.2.3";
    s.ufs = "/data/\xff";  // not UTF-8
    s.mountpoint = "/mnt/x";
    s.cache_dir = "/cache";
    s.uptime_seconds = 1.5;
    s.passthrough = {true, "probed"};
    s.dirs = {{"/cache", true, "", {}}, {"/other", false, "no disk", {}}};
    s.dirs[0].usage.objects = 3;
    s.cache.used_bytes = 7;
    s.cache.limit_bytes = 100;
    s.cache.complete_objects = 3;
    s.policy = {CachePolicy::kAuto, CachePolicy::kS3Fifo, "it did better", 2};
    s.fetch.io = "io_uring";
    s.metrics = {{"read_hits", 11}, {"opens_passthrough", 5}};
    return s;
  }
  std::string MetricsText() override { return "# HELP x y\nx 1\n"; }
  Result<WarmJobId> StartWarm(std::vector<std::string> paths) override {
    MutexLock lock(mu_);
    warmed_ = std::move(paths);
    if (!warmed_.empty() && warmed_[0] == "busy") return Status(Code::kBusy, "too many jobs");
    return WarmJobId{9};
  }
  Result<WarmProgress> Progress(WarmJobId id) override {
    if (id != 9) return Status(Code::kNotFound, "there is no job " + std::to_string(id));
    WarmProgress p;
    p.id = 9;
    p.state = WarmProgress::State::kFailed;
    p.files_total = 3;
    p.bytes_total = 1000;
    p.eta_seconds = -1;
    p.failures = {{"a", "no"}, {"b", "never"}, {"c\xff", "nope"}};
    return p;
  }
  Status Cancel(WarmJobId id) override {
    cancelled = id;
    return Status::Ok();
  }
  std::vector<WarmProgress> Jobs() override { return {*Progress(9)}; }
  Result<CacheJobId> StartCacheJob(CacheJobRequest request) override {
    MutexLock lock(mu_);
    wished_ = std::move(request);
    return CacheJobId{3};
  }
  Result<CacheJobProgress> CacheProgress(CacheJobId id) override {
    if (id != 3) return Status(Code::kNotFound, "no cache job " + std::to_string(id));
    CacheJobProgress progress;
    progress.id = id;
    progress.state = CacheJobProgress::State::kDone;
    progress.objects = 2;
    progress.bytes = 8192;
    progress.notes.emplace_back("a\xff", "is open or being fetched");
    return progress;
  }
  Status CancelCacheJob(CacheJobId id) override { return CacheProgress(id).status(); }
  void RequestStop() override {
    MutexLock lock(mu_);
    ++stops;
    // Bounded: a server that stops before it answers must fail the test, not hang it.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (hold_stop_ && std::chrono::steady_clock::now() < deadline) {
      changed_.WaitFor(mu_, std::chrono::milliseconds(50));
    }
    stopped_while_held_ = hold_stop_;
    changed_.NotifyAll();
  }
  void HoldStop(bool hold) {
    MutexLock lock(mu_);
    hold_stop_ = hold;
    changed_.NotifyAll();
  }
  /// Waits (bounded) for the request to stop; true when it came and was let go before its time ran out.
  bool AwaitStop() {
    MutexLock lock(mu_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!stopped_while_held_ && std::chrono::steady_clock::now() < deadline) {
      changed_.WaitFor(mu_, std::chrono::milliseconds(50));
    }
    return stopped_while_held_ == false;
  }

  CacheJobRequest wished() {
    MutexLock lock(mu_);
    return wished_;
  }
  std::vector<std::string> warmed() {
    MutexLock lock(mu_);
    return warmed_;
  }
  std::atomic<uint64_t> cancelled{0};
  std::atomic<int> stops{0};

 private:
  Mutex mu_;
  CondVar changed_;
  CacheJobRequest wished_ GUARDED_BY(mu_);
  std::vector<std::string> warmed_ GUARDED_BY(mu_);
  bool hold_stop_ GUARDED_BY(mu_) = false;
  std::optional<bool> stopped_while_held_ GUARDED_BY(mu_);
};

class ControlTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void Start(std::optional<HttpAddress> http) {
    server_.reset();
    ControlServerOptions options;
    options.socket_path = dir_ / "s.sock";
    options.http = http;
    options.max_body_bytes = 4096;
    Result<std::unique_ptr<ControlServer>> server = ControlServer::Start(options, backend_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
  }
  /// Sends raw text and returns all that comes back.
  std::string Raw(const std::string& text) {
    const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (dir_ / "s.sock").c_str());
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      return "(no connection)";
    return Exchange(fd, text);
  }
  static std::string Exchange(const Fd& fd, const std::string& text) {
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t wrote = ::send(fd.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (wrote <= 0) break;
      sent += static_cast<size_t>(wrote);
    }
    std::string answer;
    char buffer[4096];
    ssize_t got;
    while ((got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0)
      answer.append(buffer, static_cast<size_t>(got));
    return answer;
  }

  TempDir dir_;
  FakeBackend backend_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(ControlTest, StatusComesBackWhole) {
  ControlClient client(dir_ / "s.sock");
  const Result<DaemonStatus> status = client.Describe();
  ASSERT_TRUE(status.ok()) << status.status().ToString();
  EXPECT_EQ(status->pid, 42);
  EXPECT_EQ(status->version, "1.2.3");
  EXPECT_EQ(status->ufs, "/data/\xef\xbf\xbd") << "not UTF-8: shown with the replacement character";
  EXPECT_TRUE(status->passthrough.active);
  EXPECT_EQ(status->cache.complete_objects, 3u);
  EXPECT_EQ(status->policy.configured, CachePolicy::kAuto);
  EXPECT_EQ(status->policy.deciding, CachePolicy::kS3Fifo);
  EXPECT_EQ(status->policy.reason, "it did better");
  EXPECT_EQ(status->policy.switches, 2u);
  EXPECT_EQ(status->metrics.at("read_hits"), 11);
  const auto json = nlohmann::json::parse(*client.DescribeJson());
  for (const char* field : {"pid", "version", "ufs", "mountpoint", "uptime_seconds", "passthrough", "cache",
                            "reads", "passthrough_opens", "prefetch", "errors", "metrics"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_EQ(json["reads"]["hits"], 11);
  EXPECT_EQ(json["passthrough_opens"], 5);
  for (const char* field : {"hits", "misses", "bytes_cache", "bytes_ufs", "bytes_delivered"}) {
    EXPECT_TRUE(json["reads"].contains(field)) << field;
  }
  for (const char* field : {"useful_bytes", "wasted_bytes", "in_flight_bytes", "queued", "io", "io_reason"}) {
    EXPECT_TRUE(json["prefetch"].contains(field)) << field;
  }
}

TEST_F(ControlTest, MetricsAreText) {
  ControlClient client(dir_ / "s.sock");
  EXPECT_EQ(*client.Call("GET", "/metrics"), "# HELP x y\nx 1\n");
  EXPECT_THAT(Raw("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              HasSubstr("Content-Type: text/plain; version=0.0.4"));
}

TEST_F(ControlTest, WarmCarriesNamesOfAnyBytes) {
  ControlClient client(dir_ / "s.sock");
  const std::vector<std::string> paths{"a b", "", "caf\xc3\xa9", "\xff\xfe/x\"\\"};
  const Result<WarmJobId> job = client.StartWarm(paths);
  ASSERT_TRUE(job.ok()) << job.status().ToString();
  EXPECT_EQ(*job, 9u);
  EXPECT_EQ(backend_.warmed(), paths);
  EXPECT_EQ(client.StartWarm({"busy"}).status().code(), Code::kBusy);
}

TEST_F(ControlTest, JobsAreListedFollowedAndCancelled) {
  ControlClient client(dir_ / "s.sock");
  const Result<WarmProgress> all = client.Progress(9, 0);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->state, WarmProgress::State::kFailed);
  EXPECT_EQ(all->bytes_total, 1000u);
  EXPECT_EQ(all->failures.size(), 3u);
  EXPECT_EQ(client.Progress(9, 2)->failures.size(), 1u);
  EXPECT_EQ(client.Progress(9, 99)->failures.size(), 0u);
  EXPECT_EQ(client.Jobs()->size(), 1u);
  EXPECT_EQ(client.Progress(8, 0).status().code(), Code::kNotFound);
  EXPECT_EQ(client.Progress(8, 0).status().message(), "there is no job 8");
  EXPECT_TRUE(client.Cancel(9).ok());
  EXPECT_EQ(backend_.cancelled, 9u);
}

TEST_F(ControlTest, EvictAndVerifyCarryNamesOfAnyBytes) {
  ControlClient client(dir_ / "s.sock");
  CacheJobRequest request;
  request.paths = {"a/b", std::string("f\xff\n\x01"), ""};
  ASSERT_EQ(*client.StartCacheJob(request), 3u);
  EXPECT_EQ(backend_.wished().kind, CacheJobRequest::Kind::kEvict);
  EXPECT_EQ(backend_.wished().paths, request.paths);
  request.kind = CacheJobRequest::Kind::kVerify;
  request.bytes_per_second = 5000000;
  ASSERT_EQ(*client.StartCacheJob(request), 3u);
  EXPECT_EQ(backend_.wished().kind, CacheJobRequest::Kind::kVerify);
  EXPECT_EQ(backend_.wished().bytes_per_second, 5000000u);

  const Result<CacheJobProgress> progress = client.CacheProgress(3);
  ASSERT_TRUE(progress.ok()) << progress.status().ToString();
  EXPECT_EQ(progress->state, CacheJobProgress::State::kDone);
  EXPECT_EQ(progress->objects, 2u);
  EXPECT_EQ(progress->notes.at(0).first, "a\uFFFD");
  EXPECT_TRUE(client.CancelCacheJob(3).ok());
  EXPECT_EQ(client.CacheProgress(4).status().code(), Code::kNotFound);
  EXPECT_EQ(client.Call("GET", "/cache-jobs/x").status().message(), "'x' is not a job number");
  EXPECT_EQ(client.Call("POST", "/evict", R"({"paths": []})").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(client.Call("POST", "/evict", R"({"paths": [""], "bytes_per_second": 1})").status().code(),
            Code::kInvalidArgument);
  for (const char* rate : {"0", "-1", "1.5", "\"1\""}) {
    const std::string body = std::string(R"({"paths": [""], "bytes_per_second": )") + rate + "}";
    EXPECT_EQ(client.Call("POST", "/verify", body).status().code(), Code::kInvalidArgument) << rate;
  }
  ASSERT_TRUE(client.Stop().ok());
  EXPECT_EQ(client.StartCacheJob(request).status().code(), Code::kUnavailable);
}

TEST_F(ControlTest, StopRefusesWhatComesAfter) {
  ControlClient client(dir_ / "s.sock");
  EXPECT_TRUE(client.Stop().ok());
  EXPECT_TRUE(backend_.AwaitStop());
  EXPECT_EQ(backend_.stops, 1);
  EXPECT_EQ(client.StartWarm({"x"}).status().code(), Code::kUnavailable);
  EXPECT_EQ(client.StartWarm({"x"}).status().message(), "the daemon is stopping");
  EXPECT_TRUE(client.Describe().ok()) << "questions are still answered";
}

TEST_F(ControlTest, StopIsAnsweredBeforeItBegins) {
  backend_.HoldStop(true);
  ControlClient client(dir_ / "s.sock");
  EXPECT_TRUE(client.Stop().ok()) << "the answer does not wait for the stop";
  backend_.HoldStop(false);
  EXPECT_TRUE(backend_.AwaitStop()) << "the stop began while its answer was still owed";
}

TEST_F(ControlTest, BadRequestsGetJsonErrors) {
  ControlClient client(dir_ / "s.sock");
  const auto message = [&](const std::string& method, const std::string& target,
                           const std::string& body = "") {
    const Result<std::string> answer = client.Call(method, target, body);
    return answer.ok() ? "(accepted)" : answer.status().message();
  };
  EXPECT_THAT(message("GET", "/nothing"), StartsWith("unknown path '/nothing': there are GET /status"));
  EXPECT_EQ(message("POST", "/status", "{}"), "POST is not possible on /status: use GET");
  EXPECT_EQ(message("GET", "/warm"), "GET is not possible on /warm: use POST");
  EXPECT_EQ(message("POST", "/warm", "{"), "the text is not valid JSON");
  EXPECT_THAT(message("POST", "/warm", "[]"), StartsWith("the body must be {\"paths\":"));
  EXPECT_THAT(message("POST", "/warm", "{\"paths\": [3]}"), StartsWith("the body must be {\"paths\":"));
  EXPECT_EQ(message("POST", "/warm", "{\"paths\": []}"),
            "'paths' is empty: name at least one, \"\" is the whole UFS");
  EXPECT_EQ(message("POST", "/warm", "{\"paths\": [\"/x\"]}"),
            "'/x': a path is relative to the mount point: leave the first / out");
  EXPECT_EQ(message("POST", "/warm", "{\"paths\": [{\"hex\": \"0\"}]}"),
            "a hex path has an odd number of digits");
  EXPECT_EQ(message("POST", "/warm", "{\"paths\": [\"a\\u0000b\"]}"), "a path cannot hold a NUL byte");
  EXPECT_EQ(message("GET", "/jobs/x"), "'x' is not a job number");
  EXPECT_EQ(message("PUT", "/jobs/9"), "PUT is not possible on /jobs/9: use GET, DELETE");
  EXPECT_TRUE(backend_.warmed().empty());
  EXPECT_EQ(message("POST", "/warm", std::string(30'000, ' ')),
            "the body is larger than 4096 bytes: name directories instead of their files");

  EXPECT_FALSE(client.Call("POST", "/warm", std::string(100'000, ' ')).ok()) << "not even read to its end";

  const std::string not_found = Raw("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(not_found, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(not_found, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(Raw("POST /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
              HasSubstr("Allow: GET"));
}

TEST_F(ControlTest, ABodyWithoutALengthIsBoundedToo) {
  std::string request =
      "POST /warm HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string chunk = "400\r\n" + std::string(1024, ' ') + "\r\n";
  for (int i = 0; i < 8; ++i) request += chunk;
  EXPECT_THAT(Raw(request + "0\r\n\r\n"), StartsWith("HTTP/1.1 413"));
  for (int i = 0; i < 100; ++i) request += chunk;
  EXPECT_EQ(Raw(request), "") << "far beyond the limit the connection is closed";
  EXPECT_TRUE(ControlClient(dir_ / "s.sock").Describe().ok());
}

TEST_F(ControlTest, GarbageDoesNotStopTheServer) {
  Raw("\x16\x03\x01\x02\r\n\r\n");
  Raw("GET\r\n\r\n");
  Raw(std::string(100'000, 'a') + "\r\n\r\n");
  EXPECT_TRUE(ControlClient(dir_ / "s.sock").Describe().ok());
}

TEST_F(ControlTest, ManyClientsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      ControlClient client(dir_ / "s.sock");
      for (int i = 0; i < 20; ++i) good += client.Describe().ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 160);
}

TEST_F(ControlTest, OtherUsersAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  const std::string path = dir_ / "s.sock";
  struct stat st;
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  // Whatever somebody did to the file's mode, the daemon asks the kernel who calls.
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::string answer = "(setuid failed)";
    if (::setgid(65534) == 0 && ::setuid(65534) == 0) {
      answer = Raw("GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    }
    const ssize_t wrote = ::write(ends[1], answer.data(), answer.size());
    ::_exit(wrote < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string answer;
  char buffer[1024];
  ssize_t got;
  while ((got = ::read(ends[0], buffer, sizeof buffer)) > 0) answer.append(buffer, static_cast<size_t>(got));
  ::close(ends[0]);
  int status;
  ::waitpid(child, &status, 0);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(answer, HasSubstr("user 65534 may not control this daemon: use root or user 0"));
}

TEST_F(ControlTest, TcpTellsButDoesNotObey) {
  const Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  {
    // The port is taken (bound, and listened on): a clear error, and the unix socket is gone again.
    ASSERT_EQ(::listen(probe.get(), 1), 0);
    ControlServerOptions options;
    options.socket_path = dir_ / "other.sock";
    options.http = HttpAddress{false, "127.0.0.1", ntohs(address.sin_port)};
    const auto taken = ControlServer::Start(options, backend_);
    ASSERT_FALSE(taken.ok());
    EXPECT_THAT(taken.status().message(), HasSubstr("Address already in use: choose another port"));
    EXPECT_NE(::access((dir_ / "other.sock").c_str(), F_OK), 0);
  }
  const_cast<Fd&>(probe).Reset();
  Start(HttpAddress{false, "127.0.0.1", ntohs(address.sin_port)});
  const auto ask = [&](const std::string& line, const std::string& body = "") {
    const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      return std::string("?");
    return Exchange(fd, line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  EXPECT_THAT(ask("GET /status"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("GET /metrics"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask("POST /stop"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask("POST /warm", "{\"paths\":[\"\"]}"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask("GET /jobs"), StartsWith("HTTP/1.1 404"));
  EXPECT_EQ(backend_.stops, 0);
}

TEST_F(ControlTest, SocketFilesOfTheDeadAreReplacedOthersAreNot) {
  ControlServerOptions options;
  options.socket_path = dir_ / "s.sock";
  const auto second = ControlServer::Start(options, backend_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kBusy);
  EXPECT_TRUE(ControlClient(dir_ / "s.sock").Describe().ok()) << "the first one still listens";

  server_.reset();
  EXPECT_NE(::access((dir_ / "s.sock").c_str(), F_OK), 0) << "removed at the end";
  ControlClient client(dir_ / "s.sock");
  EXPECT_EQ(client.Describe().status().code(), Code::kUnavailable);
  EXPECT_EQ(client.Describe().status().message(), "no daemon listens on '" + (dir_ / "s.sock") + "'");

  // Left over by a daemon that died.
  {
    const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (dir_ / "s.sock").c_str());
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_EQ(client.Describe().status().message(),
            "no daemon listens on '" + (dir_ / "s.sock") + "': it was left over by one that died");
  Start({});
  EXPECT_TRUE(client.Describe().ok());

  options.socket_path = dir_ / "file";
  std::ofstream(dir_ / "file") << "precious";
  const auto file = ControlServer::Start(options, backend_);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("a file of that name exists"));
  EXPECT_EQ(::access((dir_ / "file").c_str(), F_OK), 0);
}

TEST(ControlPathTest, NamesAreReadableAndDistinct) {
  EXPECT_EQ(MountName("/mnt/cache"), "mnt-cache");
  EXPECT_EQ(MountName("/mnt-cache"), "mnt\\x2dcache");
  EXPECT_EQ(MountName("/a b/.x"), "a\\x20b-.x");
  EXPECT_EQ(MountName("/.x"), "\\x2ex");
  EXPECT_EQ(MountName("/"), "-");
  const std::string base = "/" + std::string(100, 'a');
  EXPECT_LE(MountName(base + "/x").size(), 61u);
  EXPECT_NE(MountName(base + "/x"), MountName(base + "/y"));
  if (::geteuid() == 0) {
    EXPECT_EQ(ControlSocketPath("/mnt/x"), "/run/stoker/mnt-x.sock");
  }
}

TEST(MountTableTest, LinesAreUnderstood) {
  const auto mounts = ParseMountInfo(
      "22 1 254:1 / / rw,relatime - ext4 /dev/vda rw\n"
      "30 22 0:45 / /mnt/a\\040b ro,nosuid shared:7 master:1 - fuse.stoker /data/s\\134et ro,user_id=0\n"
      "nonsense\n"
      "31 22 0:46 / /mnt rw - tmpfs tmpfs rw\n"
      "32 22 0:47 / /mnt rw - fuse.stoker /other ro\n");
  ASSERT_EQ(mounts.size(), 4u);
  EXPECT_EQ(mounts[1].mountpoint, "/mnt/a b");
  EXPECT_EQ(mounts[1].source, "/data/s\\et");
  EXPECT_EQ(mounts[1].dev_minor, 45u);
  EXPECT_EQ(mounts[1].user_id, std::optional<uid_t>(0));
  EXPECT_EQ(mounts[3].user_id, std::nullopt);
  EXPECT_TRUE(mounts[1].is_ours());
  EXPECT_FALSE(mounts[0].is_ours());
  EXPECT_EQ(MountAt(mounts, "/mnt")->source, "/other") << "the uppermost";
  EXPECT_FALSE(MountAt(mounts, "/mnt/a"));
  EXPECT_EQ(MountOf(mounts, "/mnt/a b/c")->mountpoint, "/mnt/a b");
  EXPECT_EQ(MountOf(mounts, "/mnt/a bc")->source, "/other");
  EXPECT_EQ(MountOf(mounts, "/x")->mountpoint, "/");
}

TEST(MountTableTest, MountpointsAreResolvedWithoutAskingThem) {
  const TempDir dir;
  ASSERT_EQ(::mkdir((dir / "d").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("d", (dir / "l").c_str()), 0);
  ASSERT_EQ(::symlink("loop", (dir / "loop").c_str()), 0);
  EXPECT_EQ(*ResolveMountpoint(dir / "d///"), dir / "d");
  EXPECT_EQ(*ResolveMountpoint(dir / "l"), dir / "d");
  EXPECT_EQ(*ResolveMountpoint(dir / "d/../d"), dir / "d");
  EXPECT_EQ(*ResolveMountpoint(dir / "none"), dir / "none");
  EXPECT_EQ(*ResolveMountpoint("/"), "/");
  EXPECT_FALSE(ResolveMountpoint(dir / "none/x").ok());
  EXPECT_FALSE(ResolveMountpoint(dir / "loop").ok());
  EXPECT_FALSE(ResolveMountpoint("").ok());
}

TEST(MountTableTest, ProbeTellsWhatStatTells) {
  const TempDir dir;
  EXPECT_TRUE(ProbePath(dir.path(), std::chrono::seconds(10)).ok());
  EXPECT_EQ(ProbePath(dir / "none", std::chrono::seconds(10)).code(), Code::kNotFound);
}

class DaemonizeTest : public ::testing::Test {
 protected:
  std::string Log() {
    std::stringstream text;
    text << std::ifstream(dir_ / "log").rdbuf();
    return text.str();
  }
  TempDir dir_;
};

TEST_F(DaemonizeTest, ReturnsWhenTheChildIsReadyAndNotBefore) {
  const std::string marker = dir_ / "marker";
  int hold[2];  // the child ends when we let go
  ASSERT_EQ(::pipe2(hold, O_CLOEXEC), 0);
  const Result<int> child = RunInBackground(dir_ / "log", [&](const ReadyCallback& ready) {
    ::close(hold[1]);
    std::ofstream(marker) << ::getsid(0) << " " << ::getpid();
    std::fprintf(stderr, "a word for the log\n");
    ready(Status::Ok());
    ready(Status(Code::kIo, "too late to matter"));
    char byte;
    return ::read(hold[0], &byte, 1) == 0 ? 7 : 8;
  });
  ASSERT_TRUE(child.ok()) << child.status().ToString();
  std::ifstream in(marker);
  pid_t sid = 0;
  pid_t pid = 0;
  in >> sid >> pid;
  EXPECT_EQ(pid, *child);
  EXPECT_EQ(sid, *child) << "a session of its own";
  EXPECT_EQ(::kill(*child, 0), 0);
  ::close(hold[0]);
  ::close(hold[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(*child, &status, 0), *child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(Log(), "a word for the log\n");
}

TEST_F(DaemonizeTest, ReturnsTheChildsReason) {
  const Result<int> child = RunInBackground(dir_ / "log", [](const ReadyCallback& ready) {
    ready(Status(Code::kBusy, "the cache is in use by pid 1"));
    return 1;
  });
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.status().code(), Code::kBusy);
  EXPECT_EQ(child.status().message(), "the cache is in use by pid 1");
}

TEST_F(DaemonizeTest, TellsHowAChildEndedThatSaidNothing) {
  const Result<int> ended = RunInBackground(dir_ / "log", [](const ReadyCallback&) { return 3; });
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.status().message(),
            "the daemon ended with status 3 before it was ready: see its log " + (dir_ / "log"));
  const Result<int> killed = RunInBackground(dir_ / "log", [](const ReadyCallback&) {
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  ASSERT_FALSE(killed.ok());
  EXPECT_THAT(killed.status().message(),
              StartsWith("the daemon was ended by signal 9 (Killed) before it was ready"));
}

TEST_F(DaemonizeTest, NamesALogFileThatCannotBe) {
  const Result<int> child = RunInBackground(dir_ / "none/log", [](const ReadyCallback&) { return 0; });
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.status().message(), "cannot open the log file '" + (dir_ / "none/log") +
                                          "' (set log.file to another place): No such file or directory");
}

}  // namespace
}  // namespace stoker
