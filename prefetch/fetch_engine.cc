#include "prefetch/fetch_engine.h"

#include <utility>

#include "prefetch/fetch_core.h"

namespace stoker {
namespace {

class FetchEngineImpl final : public FetchEngine {
 public:
  explicit FetchEngineImpl(std::shared_ptr<fetch::Core> core) : core_(std::move(core)) {}
  ~FetchEngineImpl() override {
    core_->Stop(kStopTimeout);
    core_->ForgetMetrics();
  }
  uint64_t Read(const std::shared_ptr<FetchFile>& file, ByteRange range, ReadCallback done) override {
    return core_->Read(file, range, std::move(done));
  }
  void CancelRead(uint64_t ticket) override { core_->CancelRead(ticket); }
  Status Want(const std::shared_ptr<FetchFile>& file, PartIndex part, FetchPriority priority,
              DoneCallback done) override {
    return core_->Want(file, part, priority, std::move(done));
  }
  void Forget(const FetchFile& file, FetchPriority priority) override { core_->Forget(file, priority); }
  FetchEngineState State() const override { return core_->State(); }
  void Stop(std::chrono::nanoseconds timeout) override { core_->Stop(timeout); }

 private:
  /// For an owner who did not call Stop() himself.
  static constexpr std::chrono::seconds kStopTimeout{10};
  const std::shared_ptr<fetch::Core> core_;
};

}  // namespace

Result<std::unique_ptr<FetchEngine>> FetchEngine::Start(const FetchEngineOptions& options, ObjectStore& store,
                                                        Metrics& metrics, Clock& clock) {
  if (options.threads == 0) {
    return Status(Code::kInvalidArgument, "prefetch.threads is 0: it must be at least 1");
  }
  if (options.budget_bytes == 0) {
    return Status(Code::kInvalidArgument, "prefetch.budget is 0: it must hold at least one part");
  }
  auto core = std::make_shared<fetch::Core>(options, store, metrics, clock);
  const std::string refused = IoUringUnavailableReason();
  if (options.io == IoMode::kIoUring && !refused.empty()) {
    return Status(Code::kUnsupported, "prefetch.io is io_uring, but " + refused + "; use auto or pread");
  }
  core->io_mode = options.io;
  if (options.io == IoMode::kPread) {
    core->io_reason = "prefetch.io is pread";
  } else if (!refused.empty()) {
    core->io_mode = IoMode::kPread;
    core->io_reason = refused;
  }
  core->io = core->io_mode == IoMode::kPread ? "pread" : "io_uring";
  RETURN_IF_ERROR(core->StartThreads());
  return std::unique_ptr<FetchEngine>(std::make_unique<FetchEngineImpl>(std::move(core)));
}

}  // namespace stoker
