#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "cache/base/metrics.h"
#include "cache/store/object_store.h"
#include "cache/ufs/ufs_factory.h"
#include "fuse/filesystem.h"
#include "fuse/session.h"
#include "prefetch/fetch_engine.h"
#include "tests/support/temp_dir.h"

namespace stoker::testing {

/// A whole daemon in this process: a directory as UFS, a cache directory, a mount. Ends it all when
/// destroyed.
class MountRig {
 public:
  struct Options {
    PassthroughMode passthrough = PassthroughMode::kAuto;
    FilesystemOptions filesystem;
    uint64_t part_length = 4 * kMiB;
    uint64_t limit_bytes = 4 * kGiB;
    std::chrono::nanoseconds stop_grace = std::chrono::seconds(5);
    Ufs* ufs = nullptr;  // another driver in place of the directory
  };

  static bool Possible() { return ::access("/dev/fuse", R_OK | W_OK) == 0 && ::geteuid() == 0; }

  void Start(const Options& options) {
    if (options.ufs == nullptr && own_ufs_ == nullptr) {
      Result<std::unique_ptr<Ufs>> made = MakeUfs(ufs_dir_.path(), metrics_);
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      own_ufs_ = std::move(made).value();
    }
    Ufs& ufs = options.ufs != nullptr ? *options.ufs : *own_ufs_;
    ObjectStoreOptions store_options;
    store_options.dir = cache_dir_.path();
    store_options.limit_bytes = options.limit_bytes;
    store_options.part_length = options.part_length;
    Result<std::unique_ptr<ObjectStore>> store = ObjectStore::Open(store_options, metrics_, Clock::Real());
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = std::move(store).value();
    FetchEngineOptions engine_options;
    engine_options.threads = 8;
    Result<std::unique_ptr<FetchEngine>> engine =
        FetchEngine::Start(engine_options, *store_, metrics_, Clock::Real());
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    engine_ = std::move(engine).value();
    filesystem_ =
        std::make_unique<Filesystem>(options.filesystem, ufs, *store_, *engine_, metrics_, Clock::Real());
    SessionOptions session_options;
    session_options.mountpoint = mnt_.path();
    session_options.fsname = "stoker-test";
    session_options.passthrough = options.passthrough;
    session_options.probe_dir = cache_dir_.path();
    session_options.stop_grace = options.stop_grace;
    Result<std::unique_ptr<Session>> session = Session::Mount(session_options, *filesystem_);
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    session_ = std::move(session).value();
    runner_ = std::thread([this] { run_status_ = session_->Run(); });
    const Status ready = session_->WaitReady(std::chrono::seconds(20));
    ASSERT_TRUE(ready.ok()) << ready.ToString();
  }

  /// How long the end took.
  std::chrono::nanoseconds Stop() {
    const auto begin = std::chrono::steady_clock::now();
    if (runner_.joinable()) {
      session_->RequestStop();
      runner_.join();
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    session_.reset();
    if (engine_ != nullptr) engine_->Stop(std::chrono::seconds(10));
    filesystem_.reset();
    engine_.reset();
    store_.reset();
    return took;
  }
  ~MountRig() { Stop(); }

  const std::string& ufs_path() const { return ufs_dir_.path(); }
  const std::string& mnt_path() const { return mnt_.path(); }
  const std::string& cache_path() const { return cache_dir_.path(); }
  Metrics& metrics() { return metrics_; }
  Session& session() { return *session_; }
  ObjectStore& store() { return *store_; }
  FetchEngine& engine() { return *engine_; }
  std::thread& runner() { return runner_; }
  const Status& run_status() const { return run_status_; }

 private:
  TempDir ufs_dir_;
  TempDir cache_dir_;
  TempDir mnt_;
  Metrics metrics_;
  std::unique_ptr<Ufs> own_ufs_;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<FetchEngine> engine_;
  std::unique_ptr<Filesystem> filesystem_;
  std::unique_ptr<Session> session_;
  std::thread runner_;
  Status run_status_;
};

}  // namespace stoker::testing
