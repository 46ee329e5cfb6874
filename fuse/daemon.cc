#include "fuse/daemon.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "cache/base/clock.h"
#include "cache/base/log.h"
#include "cache/base/metrics.h"
#include "cache/base/units.h"
#include "cache/store/object_store.h"
#include "cache/store/store_set.h"
#include "cache/ufs/ufs_factory.h"
#include "fuse/cache_jobs.h"
#include "fuse/config.h"
#include "fuse/control_path.h"
#include "fuse/control_server.h"
#include "fuse/directory_report.h"
#include "fuse/filesystem.h"
#include "fuse/mount_check.h"
#include "fuse/session.h"
#include "fuse/stop_control.h"
#include "prefetch/fetch_engine.h"
#include "prefetch/warmer.h"

namespace stoker {
namespace {

constexpr auto kReadyTimeout =
    std::chrono::seconds(30);  // a root stat through the UFS, which may be slow to wake
constexpr auto kEngineStop = std::chrono::seconds(5);
constexpr auto kWarmerStop = std::chrono::seconds(1);
constexpr auto kFlushTimeout = std::chrono::seconds(5);
constexpr auto kTidyTime = std::chrono::seconds(5);  // destructors, RocksDB's close among them

/// More than files in passthrough, the kept object files and the UFS's files need together is never wrong to
/// have.
void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) LogWarn("daemon", "cannot raise the limit of open files");
}

/// With control.socket the socket is elsewhere; this is how commands find it from the mount point.
class SocketAlias {
 public:
  SocketAlias(std::string alias, std::string target) : alias_(std::move(alias)), target_(std::move(target)) {
    struct stat st;
    if (::lstat(alias_.c_str(), &st) == 0 && (S_ISLNK(st.st_mode) || S_ISSOCK(st.st_mode)))
      ::unlink(alias_.c_str());
    made_ = ::symlink(target_.c_str(), alias_.c_str()) == 0;
    if (!made_) {
      LogWarn("control", Status::FromErrno(errno, alias_).message() + ": commands will not find the socket " +
                             target_ + " from the mount point");
    }
  }
  ~SocketAlias() {
    char text[4096];
    const ssize_t length = made_ ? ::readlink(alias_.c_str(), text, sizeof text) : -1;
    if (length >= 0 && std::string(text, static_cast<size_t>(length)) == target_) ::unlink(alias_.c_str());
  }
  SocketAlias(const SocketAlias&) = delete;
  SocketAlias& operator=(const SocketAlias&) = delete;

 private:
  const std::string alias_;
  const std::string target_;
  bool made_ = false;
};

/// One mount with all its rooms. Members stand in the order they are started; Stop() goes back through them.
class Daemon final : public ControlBackend {
 public:
  Daemon(const DaemonRequest& request, StopControl& stop) : request_(request), stop_(stop) {}

  /// Everything up to the mount.
  Status Start();
  /// Serves until the mount is gone. `ready` is told once the mount and the control socket answer.
  Status Serve(const ReadyCallback& ready);
  /// Ends what was started. `exit_status` is for the case that threads hang in dead storage: what they use
  /// cannot be taken from under them, so the process ends here.
  void Stop(int exit_status);

  DaemonStatus Describe() override;
  std::string MetricsText() override {
    return RenderPrometheus(Snapshot(metrics_)) + RenderDirectoryMetrics(store_->Directories());
  }
  Result<WarmJobId> StartWarm(std::vector<std::string> paths) override {
    return warmer_->Start(std::move(paths));
  }
  Result<WarmProgress> Progress(WarmJobId id) override { return warmer_->Progress(id); }
  Status Cancel(WarmJobId id) override { return warmer_->Cancel(id); }
  std::vector<WarmProgress> Jobs() override { return warmer_->List(); }
  Result<CacheJobId> StartCacheJob(CacheJobRequest request) override {
    return cache_jobs_->Start(std::move(request));
  }
  Result<CacheJobProgress> CacheProgress(CacheJobId id) override { return cache_jobs_->Progress(id); }
  Status CancelCacheJob(CacheJobId id) override { return cache_jobs_->Cancel(id); }
  void RequestStop() override { stop_.RequestStop("asked over the control socket"); }

 private:
  /// A stop that came before the mount ends the start at the next step.
  Status StillWanted() const {
    if (!stop_.requested()) return Status::Ok();
    return {Code::kCancelled, "stopped by a signal before the mount was ready"};
  }
  Status OpenStore(Clock& clock);
  Status OpenControl();

  const DaemonRequest& request_;
  StopControl& stop_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  Metrics metrics_;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<Ufs> ufs_;
  std::unique_ptr<FetchEngine> engine_;
  std::unique_ptr<Filesystem> filesystem_;
  std::unique_ptr<Warmer> warmer_;
  std::unique_ptr<CacheJobs> cache_jobs_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<ControlServer> control_;
  std::optional<SocketAlias> alias_;
};

Status Daemon::OpenStore(Clock& clock) {
  const Settings& settings = request_.settings;
  std::vector<ObjectStoreOptions> stores;
  std::vector<DirectoryReport> down;
  for (const std::string& dir : settings.cache_dirs) {
    const Result<uint64_t> disk_bytes = DiskBytes(dir);
    if (!disk_bytes.ok()) {
      if (settings.cache_dirs.size() == 1) return disk_bytes.status();
      down.push_back({dir, false, disk_bytes.status().message(), {}});
      continue;
    }
    ASSIGN_OR_RETURN(ObjectStoreOptions options, MakeStoreOptions(settings, *disk_bytes));
    options.dir = dir;
    stores.push_back(std::move(options));
  }
  ASSIGN_OR_RETURN(store_, StoreSet::OpenAll(stores, down, metrics_, clock));
  return Status::Ok();
}

Status Daemon::Start() {
  const Settings& settings = request_.settings;
  Clock& clock = Clock::Real();
  RETURN_IF_ERROR(StillWanted());
  RETURN_IF_ERROR(OpenStore(clock));
  RETURN_IF_ERROR(StillWanted());
  ASSIGN_OR_RETURN(ufs_, MakeUfs(request_.ufs, metrics_));
  ASSIGN_OR_RETURN(engine_, FetchEngine::Start(MakeFetchEngineOptions(settings), *store_, metrics_, clock));
  filesystem_ = std::make_unique<Filesystem>(MakeFilesystemOptions(settings), *ufs_, *store_, *engine_,
                                             metrics_, clock);
  warmer_ = std::make_unique<Warmer>(*ufs_, *store_, *engine_, metrics_, clock,
                                     [rules = settings.metadata_rules](const std::string& path) {
                                       const PathRule* const rule = FindRule(rules, path);
                                       return rule != nullptr && rule->path_class == PathClass::kSkip;
                                     });
  cache_jobs_ = std::make_unique<CacheJobs>(*store_);
  RETURN_IF_ERROR(StillWanted());
  SessionOptions session_options = MakeSessionOptions(settings);
  session_options.mountpoint = request_.mountpoint;
  session_options.fsname = ufs_->uri();
  session_options.probe_dir = store_->Directories().front().dir;  // one that is up
  ASSIGN_OR_RETURN(session_, Session::Mount(session_options, *filesystem_));
  return Status::Ok();
}

Status Daemon::OpenControl() {
  const Settings& settings = request_.settings;
  const std::string found = ControlSocketPath(request_.mountpoint);
  ControlServerOptions options;
  options.socket_path = settings.control_socket.empty() ? found : settings.control_socket;
  if (!settings.control_http.empty()) {
    ASSIGN_OR_RETURN(options.http, ParseLoopbackAddress(settings.control_http));
  }
  RETURN_IF_ERROR(MakeOwnDirectory(ControlDirectory(), ::geteuid() == 0 ? 0755 : 0700));
  ASSIGN_OR_RETURN(control_, ControlServer::Start(options, *this));
  if (options.socket_path != found) alias_.emplace(found, options.socket_path);
  return Status::Ok();
}

Status Daemon::Serve(const ReadyCallback& ready) {
  Status not_ready;
  std::thread announcer([&] {
    ::pthread_setname_np(::pthread_self(), "stoker-ready");
    not_ready = session_->WaitReady(kReadyTimeout);
    if (not_ready.ok()) not_ready = OpenControl();
    if (not_ready.ok()) {
      const PassthroughState passthrough = session_->passthrough();
      LogInfo("daemon", "mounted " + ufs_->uri() + " at " + request_.mountpoint + ", cache " +
                            CacheDirsText(request_.settings.cache_dirs) + ", passthrough " +
                            passthrough.reason);
    } else {
      stop_.RequestStop(not_ready.message());
    }
    ready(not_ready);
  });
  stop_.Attach(*session_);
  Status served = session_->Run();
  // From here on the end is bounded, whoever wished for it.
  stop_.RequestStop("the mount was taken away from outside");
  announcer.join();
  return not_ready.ok() ? served : not_ready;
}

void Daemon::Stop(int exit_status) {
  if (control_) control_->RefuseCommands();
  if (warmer_) {
    for (const WarmProgress& job : warmer_->List()) {
      // A job that ended meanwhile needs no cancelling.
      if (job.state == WarmProgress::State::kRunning) IgnoreStatus(warmer_->Cancel(job.id));
    }
  }
  if (engine_) engine_->Stop(kEngineStop);
  if (cache_jobs_) cache_jobs_->Stop();
  alias_.reset();
  control_.reset();
  stop_.Detach();
  session_.reset();
  if (filesystem_) filesystem_->Shutdown();
  bool hanging = (engine_ && engine_->State().stuck_threads > 0) || (filesystem_ && filesystem_->stuck());
  // A walk hangs in the same storage, and uses it as long as it does.
  if (warmer_ && !warmer_->Stop(kWarmerStop)) hanging = true;
  if (!hanging) {
    warmer_.reset();
    filesystem_.reset();
    engine_.reset();
    ufs_.reset();
  }
  if (store_) {
    if (const Status flushed = store_->Flush(kFlushTimeout); !flushed.ok()) {
      LogWarn("daemon", "not all of the cache is durable: " + flushed.message());
    }
  }
  if (hanging) {
    LogInfo("daemon", "ended, with threads that hang in the storage");
    ::_exit(exit_status);
  }
  store_.reset();
}

DaemonStatus Daemon::Describe() {
  DaemonStatus status;
  status.pid = ::getpid();
  status.version = STOKER_VERSION;
  status.ufs = ufs_->uri();
  status.mountpoint = request_.mountpoint;
  status.cache_dir = CacheDirsText(request_.settings.cache_dirs);
  status.log_file = request_.settings.log_file;
  status.uptime_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  status.stopping = stop_.requested();
  status.passthrough = session_->passthrough();
  status.cache = store_->Usage();
  status.dirs = store_->Directories();
  status.policy = store_->Policy();
  status.fetch = engine_->State();
  for (const WarmProgress& job : warmer_->List()) {
    if (job.state == WarmProgress::State::kRunning) ++status.warm_jobs_running;
  }
  for (const MetricSample& sample : Snapshot(metrics_))
    status.metrics[std::string(sample.field)] = sample.value;
  return status;
}

int Report(const Status& status, const ReadyCallback& ready) {
  LogError("daemon", status.message());
  ready(status);
  return 1;
}

}  // namespace

int RunDaemon(const DaemonRequest& request, const ReadyCallback& ready) {
  if (const Status log = ConfigureLog(request.settings.log_level, request.settings.log_file); !log.ok()) {
    return Report(log, ready);
  }
  LogInfo("daemon", std::string("stoker ") + STOKER_VERSION + ", pid " + std::to_string(::getpid()));
  for (const std::string& note : request.notes) LogWarn("daemon", note);
  RaiseFileLimit();
  Result<std::unique_ptr<StopControl>> stop =
      StopControl::Create(request.mountpoint, 2 * request.settings.fuse_stop_grace + kEngineStop +
                                                  kWarmerStop + kFlushTimeout + kTidyTime);
  if (!stop.ok()) return Report(stop.status(), ready);

  Daemon daemon(request, **stop);
  if (const Status started = daemon.Start(); !started.ok()) {
    (*stop)->RequestStop(started.message());
    const int exit_status = Report(started, ready);
    daemon.Stop(exit_status);
    return exit_status;
  }
  const Status served = daemon.Serve(ready);
  if (!served.ok()) LogError("daemon", served.message());
  const int exit_status = served.ok() ? 0 : 1;
  daemon.Stop(exit_status);
  LogInfo("daemon", "ended");
  return exit_status;
}

}  // namespace stoker
