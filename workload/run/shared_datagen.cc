#include "workload/run/shared_datagen.h"

#include <pthread.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "workload/data/dataset.h"

namespace stoker::bench {
namespace {

using Json = nlohmann::json;

constexpr Nanos kListenEvery = std::chrono::milliseconds(100);
/// One process may have much more to write than another (files that were there already).
constexpr Nanos kLongest = std::chrono::hours(7 * 24);

/// Carries interruptions to and from the other processes while this one writes.
class Listener {
 public:
  Listener(Communicator& all, CancelToken cancel, CancelToken stop)
      : all_(all), cancel_(std::move(cancel)), stop_(std::move(stop)), thread_([this] {
          ::pthread_setname_np(::pthread_self(), "bench-listen");
          while (!ended_.load()) {
            if (cancel_.cancelled()) {
              all_.Stop(Status(Code::kCancelled, "interrupted"));
              stop_.Cancel();
            }
            if (!all_.News().ok()) stop_.Cancel();
            std::this_thread::sleep_for(kListenEvery);
          }
        }) {}
  ~Listener() {
    ended_.store(true);
    thread_.join();
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  Communicator& all_;
  const CancelToken cancel_;
  CancelToken stop_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

std::string Encode(const DatagenOutcome& outcome, const Status& status) {
  return Json{{"written", outcome.files_written}, {"kept", outcome.files_kept},
              {"bytes", outcome.bytes_written},   {"code", static_cast<int>(status.code())},
              {"errno", status.os_errno()},       {"message", status.message()}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Adds one process's part to the sum; its error.
Status Add(const std::optional<std::string>& text, DatagenOutcome& sum) {
  const Json json = text ? Json::parse(*text, nullptr, false) : Json(Json::value_t::discarded);
  if (!json.is_object()) return Status(Code::kUnavailable, "did not say what it has done");
  sum.files_written += json.value("written", uint64_t{0});
  sum.files_kept += json.value("kept", uint64_t{0});
  sum.bytes_written += json.value("bytes", uint64_t{0});
  const auto code = static_cast<Code>(json.value("code", 0));
  return code == Code::kOk ? Status::Ok() : Status(code, json.value("message", ""), json.value("errno", 0));
}

/// Everybody's outcomes at process 0: the sum, or the first error that is not an echo of another's.
Result<DatagenOutcome> Sum(Communicator& all, const DatagenOutcome& mine, const Status& status) {
  ASSIGN_OR_RETURN(const auto parts, all.Gather(Encode(mine, status), kLongest));
  if (all.rank() != 0) {
    if (!status.ok()) return status;
    return mine;
  }
  DatagenOutcome sum;
  Status worst;
  for (uint64_t i = 0; i < parts.size(); ++i) {
    const Status one = Add(parts[i], sum);
    const bool telling = worst.ok() || (worst.code() == Code::kCancelled && one.code() != Code::kCancelled);
    if (one.ok() || !telling) continue;
    worst = one.code() == Code::kCancelled
                ? one
                : Status(one.code(), all.NameOf(i) + ": " + one.message(), one.os_errno());
  }
  if (!worst.ok()) return worst;
  return sum;
}

}  // namespace

Result<DatagenOutcome> GenerateTogether(DatagenOptions options, Communicator& all,
                                        const CancelToken& cancel) {
  options.part = all.rank();
  options.parts = all.size();
  Result<DatagenOutcome> mine = DatagenOutcome();
  {
    const CancelToken stop;
    const Listener listener(all, cancel, stop);
    mine = GenerateDataset(options, stop);
    if (!mine.ok()) all.Stop(mine.status());
  }
  Result<DatagenOutcome> sum = Sum(all, mine.ok() ? *mine : DatagenOutcome(), mine.status());
  // Process 0 knows whether all is well; then everybody looks.
  ASSIGN_OR_RETURN(const std::string written, all.Broadcast(sum.ok() ? "all" : "", kLongest));
  if (written.empty()) {
    if (!sum.ok()) return sum.status();
    return Status(Code::kCancelled, "stopped");
  }
  Status seen = FindDataset(options.dataset, "the same command, once the folder is shared");
  if (!seen.ok()) {
    seen = Status(Code::kInvalidArgument,
                  "does not see all that was written, so " + options.dataset.folder +
                      " is not shared with it (run datagen on each host by itself, or give "
                      "a shared --data-dir): " +
                      seen.message());
  }
  const Result<DatagenOutcome> checked = Sum(all, DatagenOutcome(), seen);
  if (!checked.ok()) return checked.status();
  return sum;
}

}  // namespace stoker::bench
