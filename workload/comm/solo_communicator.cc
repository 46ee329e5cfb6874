#include <unistd.h>

#include <atomic>
#include <utility>

#include "workload/comm/communicator.h"

namespace stoker::bench {
namespace {

class SoloCommunicator final : public Communicator {
 public:
  uint64_t rank() const override { return 0; }
  uint64_t size() const override { return 1; }
  void SetNames(std::vector<std::string> names) override { names_ = std::move(names); }
  std::string NameOf(uint64_t process) const override {
    return process < names_.size() ? names_[process] : "process " + std::to_string(process);
  }
  std::string Library() const override { return ""; }
  Status Barrier(Nanos) override {
    return stopped_.load() ? Status(Code::kCancelled, "the run was stopped") : Status::Ok();
  }
  void Stop(const Status&) override { stopped_.store(true); }
  Status News() override { return Status::Ok(); }
  Result<std::vector<std::optional<std::string>>> Gather(std::string bytes, Nanos) override {
    return std::vector<std::optional<std::string>>{std::move(bytes)};
  }
  Result<std::string> Broadcast(std::string bytes, Nanos) override { return bytes; }
  Result<std::vector<Clocks>> MeasureClocks(Nanos) override { return std::vector<Clocks>(1); }
  Result<std::unique_ptr<Communicator>> Split(uint64_t) override { return MakeSoloCommunicator(); }
  Status Finish(Nanos) override { return Status::Ok(); }
  [[noreturn]] void Abort(int exit_status) override { ::_exit(exit_status); }

 private:
  std::vector<std::string> names_;
  std::atomic<bool> stopped_{false};
};

}  // namespace

std::unique_ptr<Communicator> MakeSoloCommunicator() {
  return std::make_unique<SoloCommunicator>();
}

}  // namespace stoker::bench
