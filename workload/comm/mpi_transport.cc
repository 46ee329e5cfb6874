#include "workload/comm/mpi_transport.h"

#include <dlfcn.h>
#include <unistd.h>

#include <list>
#include <utility>

#include "workload/comm/mpi_module.h"

namespace stoker::bench {
namespace {

class MpiTransport final : public Transport {
 public:
  MpiTransport(const StokerMpi& mpi, void* group, bool whole)
      : mpi_(mpi), group_(group), whole_(whole), rank_(mpi.rank(group)), size_(mpi.size(group)) {}

  uint64_t rank() const override { return rank_; }
  uint64_t size() const override { return size_; }
  std::string Library() const override { return mpi_.library(); }

  Status Send(uint64_t to, std::string bytes) override {
    sends_.push_back({std::move(bytes), nullptr});
    sends_.back().request = mpi_.send(group_, to, sends_.back().bytes.data(), sends_.back().bytes.size());
    if (sends_.back().request != nullptr) return Status::Ok();
    sends_.pop_back();
    return Broken();
  }

  Result<size_t> Unsent() override {
    for (auto send = sends_.begin(); send != sends_.end();) {
      const int done = mpi_.test(send->request);
      if (done < 0) return Broken();
      send = done > 0 ? sends_.erase(send) : std::next(send);
    }
    return sends_.size();
  }

  Result<std::optional<Message>> Receive() override {
    if (incoming_ == nullptr) {
      size_t size = 0;
      void* message = nullptr;
      const int found = mpi_.probe(group_, &arriving_.from, &size, &message);
      if (found < 0) return Broken();
      if (found == 0) return std::optional<Message>();
      arriving_.bytes.resize(size);
      incoming_ = mpi_.receive(message, arriving_.bytes.data(), size);
      if (incoming_ == nullptr) return Broken();
    }
    const int done = mpi_.test(incoming_);
    if (done < 0) return Broken();
    if (done == 0) return std::optional<Message>();
    incoming_ = nullptr;
    return std::optional<Message>(std::move(arriving_));
  }

  Status StartBarrier() override {
    barrier_ = mpi_.barrier(group_);
    return barrier_ != nullptr ? Status::Ok() : Broken();
  }
  Result<bool> BarrierDone() override {
    const int done = mpi_.test(barrier_);
    if (done < 0) return Broken();
    return done > 0;
  }

  Result<std::unique_ptr<Transport>> Split(uint64_t number) override {
    void* const part = mpi_.split(group_, number);
    if (part == nullptr) return Broken();
    return std::unique_ptr<Transport>(new MpiTransport(mpi_, part, false));
  }

  Status Close() override {
    const int code = whole_ ? mpi_.finalize() : mpi_.leave(group_);
    return code == 0 ? Status::Ok() : Broken();
  }
  [[noreturn]] void Abort(int exit_status) override {
    mpi_.abort(exit_status);
    ::_exit(exit_status);
  }

 private:
  struct Outgoing {
    std::string bytes;
    void* request;
  };

  Status Broken() const { return Status(Code::kUnavailable, std::string("MPI: ") + mpi_.last_error()); }

  const StokerMpi& mpi_;
  void* const group_;
  const bool whole_;  // all processes, not a part
  const uint64_t rank_;
  const uint64_t size_;
  std::list<Outgoing> sends_;  // a list: the library holds pointers into its elements
  Message arriving_;           // the library writes into it while incoming_ is set
  void* incoming_ = nullptr;
  void* barrier_ = nullptr;
};

Status CannotLoad(const std::string& path) {
  const char* const why = ::dlerror();
  return Status(Code::kUnavailable,
                path + " cannot be loaded: " + (why == nullptr ? "no reason given" : why));
}

}  // namespace

Result<std::unique_ptr<Transport>> OpenMpi(const std::string& path) {
  // Global: Open MPI's own plugins look for its symbols there.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return CannotLoad(path);
  const auto table = reinterpret_cast<decltype(&StokerMpiTable)>(::dlsym(library, "StokerMpiTable"));
  if (table == nullptr) return CannotLoad(path);
  const StokerMpi& mpi = *table();
  if (mpi.abi != kStokerMpiAbi) {
    return Status(Code::kUnavailable, path + " belongs to another version of stoker-bench");
  }
  if (mpi.init() != 0) {
    return Status(Code::kUnavailable, std::string(mpi.name) + " does not begin: " + mpi.last_error());
  }
  return std::unique_ptr<Transport>(new MpiTransport(mpi, mpi.world(), true));
}

}  // namespace stoker::bench
