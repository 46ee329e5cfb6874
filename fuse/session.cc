#include "fuse/session.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/log.h"
#include "cache/base/mutex.h"
#include "fuse/fuse_ops.h"
#include "fuse/passthrough.h"

namespace stoker {

namespace {

constexpr auto kInitTimeout = std::chrono::seconds(10);  // the kernel sends INIT with the mount itself
// Handlers never wait on the UFS, only on the cache disk: as many threads as its reads may usefully overlap.
// libfuse's own loop has the same limit.
constexpr uint32_t kDefaultThreads = 10;
constexpr auto kWakeEvery = std::chrono::milliseconds(5);

/// Wakes a thread that waits in read(2) on /dev/fuse; does nothing else.
int WakeSignal() {
  return SIGRTMIN + 4;
}
void OnWake(int) {}

Status InstallWakeSignal() {
  struct sigaction action {};
  action.sa_handler = OnWake;  // no SA_RESTART: the read must return
  sigemptyset(&action.sa_mask);
  if (::sigaction(WakeSignal(), &action, nullptr) != 0) return Status::FromErrno(errno, "sigaction");
  return Status::Ok();
}

/// The device number of what is at `path`, without asking the daemon.
Result<dev_t> DeviceOf(const std::string& path) {
  struct statx st {};
  if (::statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW, STATX_TYPE,
              &st) != 0) {
    return Status::FromErrno(errno, path);
  }
  return makedev(st.stx_dev_major, st.stx_dev_minor);
}

/// INIT cannot raise read-ahead above the kernel's 128 KiB; the mount's backing device can.
void SetReadAhead(dev_t device, uint64_t bytes) {
  const std::string path = "/sys/class/bdi/" + std::to_string(major(device)) + ":" +
                           std::to_string(minor(device)) + "/read_ahead_kb";
  const std::string value = std::to_string(bytes / kKiB);
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), value.data(), value.size()) < 0) {
    LogInfo("fuse", Status::FromErrno(errno, path).message() +
                        ": read-ahead of daemon-served files stays at the kernel's default");
  }
}

Status MountError(int err, const SessionOptions& options) {
  const std::string what = "mounting on " + options.mountpoint;
  if (err == EPERM) {
    return {Code::kPermissionDenied, what + ": mounting needs root (CAP_SYS_ADMIN)", err};
  }
  if (err == ENODEV) {
    return {Code::kUnavailable, what + ": the kernel has no FUSE; load it with 'modprobe fuse'", err};
  }
  return Status::FromErrno(err, what);
}

class SessionImpl final : public Session, private KernelSide {
 public:
  SessionImpl(const SessionOptions& options, Filesystem& filesystem)
      : options_(options),
        filesystem_(filesystem),
        context_(std::make_unique<FuseContext>(filesystem, options.max_background,
                                               options.passthrough != PassthroughMode::kOff)) {}

  ~SessionImpl() override {
    if (session_ != nullptr) {  // Run() was never called, or it left something behind
      Detach();
      filesystem_.Shutdown();
      Close();
    }
  }

  Status Start();
  Status Run() override;
  void RequestStop() override {
    const uint64_t one = 1;
    // Async-signal-safe. Cannot fail in a way that matters: a full counter means that a stop is under way.
    const ssize_t written = ::write(stop_event_.get(), &one, sizeof one);
    static_cast<void>(written);
  }
  Status WaitReady(std::chrono::nanoseconds timeout) override;
  PassthroughState passthrough() const override { return passthrough_; }

 private:
  struct Worker {
    std::thread thread;
    bool done = false;
  };

  void InvalidateEntry(const NodeName& name) override {
    // ENOENT: the kernel does not know the name, which is as good. Other errors: the mount is ending.
    const int result =
        fuse_lowlevel_notify_inval_entry(session_, name.parent, name.name.c_str(), name.name.size());
    if (result != 0 && result != -ENOENT) {
      LogDebug("fuse", Status::FromErrno(-result, "inval_entry").message());
    }
  }

  Status MountNow();
  Status Negotiate();
  Status SetUpPassthrough();
  void Serve(size_t index);
  /// Waits for a stop, then ends the mount whatever is using it.
  void WatchForStop();
  /// Takes the mount out of the tree if what is there is ours.
  void Detach();
  void WakeWorkers() EXCLUDES(mu_);
  bool WaitForWorkers(std::chrono::nanoseconds timeout) EXCLUDES(mu_);
  /// Ends the connection. REQUIRES that no request is being answered.
  void Close();

  const SessionOptions options_;
  Filesystem& filesystem_;
  std::unique_ptr<FuseContext> context_;
  Fd stop_event_;
  fuse_session* session_ = nullptr;
  std::shared_ptr<FuseBackingDevice> device_;
  PassthroughState passthrough_;
  dev_t st_dev_ = 0;
  bool mounted_ = false;
  std::atomic<bool> ended_{false};

  Mutex mu_;
  CondVar changed_;
  std::vector<Worker> workers_ GUARDED_BY(mu_);
  size_t running_ GUARDED_BY(mu_) = 0;
};

Status SessionImpl::Start() {
  stop_event_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_event_.valid()) return Status::FromErrno(errno, "eventfd");
  RETURN_IF_ERROR(InstallWakeSignal());
  RETURN_IF_ERROR(MountNow());
  RETURN_IF_ERROR(Negotiate());
  RETURN_IF_ERROR(SetUpPassthrough());
  SetReadAhead(st_dev_, options_.read_ahead_bytes);
  filesystem_.AttachKernel(this, passthrough_.active ? device_ : nullptr);
  return Status::Ok();
}

Status SessionImpl::MountNow() {
  Fd fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!fuse.valid()) {
    const int err = errno;
    if (err == ENOENT || err == ENODEV || err == ENXIO) {
      return {
          Code::kUnavailable,
          "there is no /dev/fuse: load the kernel module with 'modprobe fuse', or start the container with "
          "--device /dev/fuse",
          err};
    }
    return Status::FromErrno(err, "opening /dev/fuse");
  }
  std::string name = "stoker";
  char* argv[] = {name.data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(1, argv);
  session_ = fuse_session_new(&args, &FuseOps(), sizeof(fuse_lowlevel_ops), context_.get());
  fuse_opt_free_args(&args);
  if (session_ == nullptr) return {Code::kInternal, "libfuse refused to make a session"};
  std::string data = "fd=" + std::to_string(fuse.get()) +
                     ",rootmode=40000,user_id=" + std::to_string(::geteuid()) +
                     ",group_id=" + std::to_string(::getegid()) + ",default_permissions";
  if (options_.allow_other) data += ",allow_other";
  // Read-only also spares a GETATTR per stat: on a read-write mount each passthrough read makes the times
  // stale.
  if (::mount(options_.fsname.c_str(), options_.mountpoint.c_str(), "fuse.stoker",
              MS_RDONLY | MS_NOSUID | MS_NODEV, data.c_str()) != 0) {
    const Status error = MountError(errno, options_);
    fuse_session_destroy(std::exchange(session_, nullptr));
    return error;
  }
  mounted_ = true;
  ASSIGN_OR_RETURN(st_dev_, DeviceOf(options_.mountpoint));
  if (fuse_session_custom_io(session_, &FuseIo(), fuse.get()) != 0) {
    return {Code::kInternal, "libfuse refused the way to /dev/fuse"};
  }
  fuse.Release();  // the session closes it
  return Status::Ok();
}

Status SessionImpl::Negotiate() {
  pollfd waiting{fuse_session_fd(session_), POLLIN, 0};
  const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(kInitTimeout).count();
  int ready = 0;
  do {
    ready = ::poll(&waiting, 1, static_cast<int>(timeout));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0)
    return {Code::kDeadlineExceeded, "the kernel did not begin the FUSE protocol on the new mount"};
  fuse_buf request{};
  const int got = fuse_session_receive_buf(session_, &request);
  if (got > 0) fuse_session_process_buf(session_, &request);
  std::free(request.mem);
  if (got <= 0) return Status::FromErrno(got < 0 ? -got : EIO, "reading the first request of the new mount");
  if (!context_->init().done.load(std::memory_order_acquire)) {
    return {Code::kInternal, "the FUSE protocol did not start with INIT"};
  }
  return Status::Ok();
}

Status SessionImpl::SetUpPassthrough() {
  device_ = std::make_shared<FuseBackingDevice>(fuse_session_fd(session_));
  if (options_.passthrough == PassthroughMode::kOff) {
    passthrough_.reason = "off: --passthrough=off";
    return Status::Ok();
  }
  if (!context_->init().passthrough_offered) {
    passthrough_.reason = "off: this kernel offers no FUSE passthrough (Linux 6.9 and later do)";
  } else if (const Status probed = ProbePassthrough(*device_, options_.probe_dir); !probed.ok()) {
    passthrough_.reason = "off: " + probed.message();
  } else {
    passthrough_ = {true, "on: the kernel reads whole cached files itself"};
    return Status::Ok();
  }
  if (options_.passthrough == PassthroughMode::kOn) {
    return {Code::kUnsupported, "--passthrough=on, but passthrough is " + passthrough_.reason};
  }
  return Status::Ok();
}

Status SessionImpl::Run() {
  const size_t threads = options_.max_threads > 0 ? options_.max_threads : kDefaultThreads;
  {
    MutexLock lock(mu_);
    running_ = threads;
    workers_.resize(threads);
    for (size_t i = 0; i < threads; ++i) workers_[i].thread = std::thread([this, i] { Serve(i); });
  }
  std::thread watcher([this] { WatchForStop(); });
  {
    MutexLock lock(mu_);
    while (running_ == threads)
      changed_.Wait(mu_);  // the first one that ends means: unmounted, or told to stop
  }
  fuse_session_exit(session_);
  WakeWorkers();
  const bool all_back = WaitForWorkers(options_.stop_grace);
  ended_.store(true);
  RequestStop();  // ends the watcher when nobody asked for a stop
  watcher.join();
  filesystem_.Shutdown();
  if (!all_back || !context_->Drain(options_.stop_grace)) {
    filesystem_.MarkStuck();
    // A thread hangs in the cache disk. The kernel frees the mount's users when the process ends.
    MutexLock lock(mu_);
    for (Worker& worker : workers_) {
      if (worker.done) {
        worker.thread.join();
      } else {
        worker.thread.detach();
      }
    }
    session_ = nullptr;
    static_cast<void>(context_.release());
    return {Code::kDeadlineExceeded, "a request hangs in the cache disk; leaving it behind"};
  }
  std::vector<Worker> workers;
  {
    MutexLock lock(mu_);
    workers.swap(workers_);
  }
  for (Worker& worker : workers) worker.thread.join();
  Close();
  return Status::Ok();
}

void SessionImpl::Serve(size_t index) {
  pthread_setname_np(pthread_self(), "stoker-fuse");
  BeServingThread();
  sigset_t wake;
  sigemptyset(&wake);
  sigaddset(&wake, WakeSignal());
  pthread_sigmask(SIG_UNBLOCK, &wake, nullptr);
  fuse_buf request{};
  while (fuse_session_exited(session_) == 0) {
    const int got = fuse_session_receive_buf(session_, &request);
    if (got == -EINTR || got == -EAGAIN) continue;
    if (got <= 0) break;  // 0: unmounted
    fuse_session_process_buf(session_, &request);
  }
  std::free(request.mem);
  MutexLock lock(mu_);
  workers_[index].done = true;
  --running_;
  changed_.NotifyAll();
}

void SessionImpl::WatchForStop() {
  pthread_setname_np(pthread_self(), "stoker-stop");
  pollfd waiting{stop_event_.get(), POLLIN, 0};
  while (::poll(&waiting, 1, -1) < 0 && errno == EINTR) {
  }
  if (ended_.load()) return;
  // Everything that waits is answered while requests are still being served, so that nobody in the kernel
  // waits for us while we wait for the kernel.
  filesystem_.Shutdown();
  Detach();
  fuse_session_exit(session_);
  WakeWorkers();
}

void SessionImpl::Detach() {
  if (!mounted_) return;
  mounted_ = false;
  const Result<dev_t> there = DeviceOf(options_.mountpoint);
  if (!there.ok() || *there != st_dev_) return;  // unmounted already, or hidden by another mount
  if (::umount2(options_.mountpoint.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
    LogWarn("fuse", Status::FromErrno(errno, "unmounting " + options_.mountpoint).message());
  }
}

void SessionImpl::WakeWorkers() {
  // A signal that comes just before read(2) is lost, so it is sent until all are back; bounded by the grace.
  const auto deadline = std::chrono::steady_clock::now() + options_.stop_grace;
  MutexLock lock(mu_);
  while (running_ > 0 && std::chrono::steady_clock::now() < deadline) {
    for (Worker& worker : workers_) {
      if (!worker.done) pthread_kill(worker.thread.native_handle(), WakeSignal());
    }
    changed_.WaitFor(mu_, kWakeEvery);
  }
}

bool SessionImpl::WaitForWorkers(std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(mu_);
  while (running_ > 0) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    changed_.WaitFor(mu_, deadline - now);
  }
  return true;
}

void SessionImpl::Close() {
  device_->Disconnect();
  // Closes /dev/fuse: with the last descriptor the connection ends, and whoever still waits on the mount is
  // told so.
  fuse_session_destroy(std::exchange(session_, nullptr));
}

Status SessionImpl::WaitReady(std::chrono::nanoseconds timeout) {
  struct Answer {
    Mutex mu;
    CondVar come;
    bool done GUARDED_BY(mu) = false;
    Status status GUARDED_BY(mu);
  };
  auto answer = std::make_shared<Answer>();
  // A stat that is never answered must not keep the caller: it has a thread of its own, which ends with the
  // mount.
  std::thread([answer, path = options_.mountpoint, expected = st_dev_] {
    struct stat st {};
    Status status;
    if (::stat(path.c_str(), &st) != 0) {
      status = Status::FromErrno(errno, "stat of the new mount " + path);
    } else if (st.st_dev != expected) {
      status = Status(Code::kUnavailable, path + " is not our mount: something else was mounted over it");
    }
    MutexLock lock(answer->mu);
    answer->status = std::move(status);
    answer->done = true;
    answer->come.NotifyAll();
  }).detach();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(answer->mu);
  while (!answer->done) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline)
      return {Code::kDeadlineExceeded, "the mount did not answer within " + FormatDuration(timeout)};
    answer->come.WaitFor(answer->mu, deadline - now);
  }
  return answer->status;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Mount(const SessionOptions& options, Filesystem& filesystem) {
  auto session = std::make_unique<SessionImpl>(options, filesystem);
  RETURN_IF_ERROR(session->Start());
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace stoker
