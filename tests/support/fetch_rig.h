#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "cache/base/clock.h"
#include "cache/base/metrics.h"
#include "cache/store/object_store.h"
#include "prefetch/fetch_engine.h"
#include "tests/support/fault_ufs.h"
#include "tests/support/mem_ufs.h"
#include "tests/support/temp_dir.h"

namespace stoker::testing {

/// A memory UFS behind a faulty one, a real store in a private directory, and an engine between them. Parts
/// of 256 KiB keep tests small. Torn down in the order that the program does it.
class FetchRig {
 public:
  static constexpr uint64_t kPart = 256 * kKiB;

  explicit FetchRig(FetchEngineOptions options = DefaultOptions(), uint64_t limit_bytes = 256 * kMiB,
                    uint64_t part_length = kPart, CachePolicy policy = CachePolicy::kAuto) {
    ObjectStoreOptions store_options;
    store_options.dir = dir_ / "cache";
    store_options.limit_bytes = limit_bytes;
    store_options.part_length = part_length;
    store_options.policy = policy;
    Result<std::unique_ptr<ObjectStore>> opened = ObjectStore::Open(store_options, metrics, Clock::Real());
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    store = std::move(opened).value();
    Result<std::unique_ptr<FetchEngine>> started = FetchEngine::Start(options, *store, metrics, clock);
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    engine = std::move(started).value();
  }
  ~FetchRig() {
    engine->Stop(std::chrono::seconds(10));
    faults.Release();
    engine.reset();
  }

  static FetchEngineOptions DefaultOptions() {
    FetchEngineOptions options;
    options.threads = 4;
    options.budget_bytes = 16 * kMiB;
    return options;
  }

  std::shared_ptr<FetchFile> Open(const std::string& path) { return Open(faults, path); }
  std::shared_ptr<FetchFile> Open(Ufs& ufs, const std::string& path) {
    const Result<UfsAttr> attr = ufs.Stat(path);
    EXPECT_TRUE(attr.ok()) << attr.status().ToString();
    Result<ObjectRef> object = store->Acquire(attr->version, path);
    EXPECT_TRUE(object.ok()) << object.status().ToString();
    return std::make_shared<FetchFile>(ufs, path, attr->version, std::move(object).value());
  }

  /// Bytes that a Read delivered, from memory or from the object file as it says.
  static Result<std::string> Bytes(const FetchFile& file, ByteRange range, const Result<FetchedBytes>& got) {
    if (!got.ok()) return got.status();
    range.end = std::min(range.end, file.object().size());
    std::string bytes;
    if (got->resident) {
      EXPECT_TRUE(file.object().IsResident(range));
      const Result<std::shared_ptr<const Fd>> fd = file.object().File();
      EXPECT_TRUE(fd.ok());
      bytes.resize(range.size());
      EXPECT_EQ(::pread((*fd)->get(), bytes.data(), bytes.size(), static_cast<off_t>(range.begin)),
                static_cast<ssize_t>(bytes.size()));
      return bytes;
    }
    for (const std::span<const std::byte> piece : got->pieces) {
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    return bytes;
  }

  std::future<Result<std::string>> ReadLater(const std::shared_ptr<FetchFile>& file, ByteRange range,
                                             uint64_t* ticket = nullptr) {
    auto promise = std::make_shared<std::promise<Result<std::string>>>();
    const uint64_t made = engine->Read(file, range, [promise, file, range](Result<FetchedBytes> got) {
      promise->set_value(Bytes(*file, range, got));
    });
    if (ticket != nullptr) *ticket = made;
    return promise->get_future();
  }
  Result<std::string> Read(const std::shared_ptr<FetchFile>& file, ByteRange range) {
    return ReadLater(file, range).get();
  }
  std::future<Status> WantLater(const std::shared_ptr<FetchFile>& file, uint32_t part,
                                FetchPriority priority = FetchPriority::kWarm) {
    auto promise = std::make_shared<std::promise<Status>>();
    const Status taken = engine->Want(file, PartIndex{part}, priority, [promise](Status status, FetchedFor) {
      promise->set_value(std::move(status));
    });
    if (!taken.ok()) promise->set_value(taken);
    return promise->get_future();
  }
  Status Want(const std::shared_ptr<FetchFile>& file, uint32_t part,
              FetchPriority priority = FetchPriority::kWarm) {
    return WantLater(file, part, priority).get();
  }

  /// True once nothing is queued or in memory any more; waits at most ten seconds.
  /// `pass_time`: the clock goes on meanwhile, so that what merely lingers goes too.
  bool Idle(bool pass_time = false) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      const FetchEngineState state = engine->State();
      if (state.in_flight_bytes == 0 && state.queued == 0 && metrics.fetch_in_flight_bytes.value() == 0 &&
          metrics.fetch_queued.value() == 0) {
        return true;
      }
      if (pass_time) clock.Advance(std::chrono::seconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  TempDir dir_;
  Metrics metrics;
  ManualClock clock;
  MemUfs mem;
  FaultUfs faults{mem};
  std::unique_ptr<ObjectStore> store;
  std::unique_ptr<FetchEngine> engine;
};

}  // namespace stoker::testing
