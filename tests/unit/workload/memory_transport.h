#pragma once

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cache/base/mutex.h"
#include "workload/comm/message_communicator.h"
#include "workload/comm/transport.h"

namespace stoker::bench {

/// Processes of one test as threads: messages are queues, a barrier is a count.
struct MemoryNetwork {
  explicit MemoryNetwork(uint64_t processes) : size(processes), inbox(processes), came(processes, 0) {}

  const uint64_t size;
  Mutex mu;
  std::vector<std::deque<Transport::Message>> inbox GUARDED_BY(mu);
  std::vector<uint64_t> came GUARDED_BY(mu);                         // barriers that each has come to
  std::map<uint64_t, std::vector<uint64_t>> members GUARDED_BY(mu);  // Split: ranks by number
  std::map<uint64_t, std::shared_ptr<MemoryNetwork>> parts GUARDED_BY(mu);
  uint64_t split GUARDED_BY(mu) = 0;
  uint64_t closed GUARDED_BY(mu) = 0;
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(std::shared_ptr<MemoryNetwork> network, uint64_t rank)
      : net_(std::move(network)), rank_(rank) {}

  uint64_t rank() const override { return rank_; }
  uint64_t size() const override { return net_->size; }
  std::string Library() const override { return "memory"; }
  Status Send(uint64_t to, std::string bytes) override {
    MutexLock lock(net_->mu);
    net_->inbox[to].push_back({rank_, std::move(bytes)});
    return Status::Ok();
  }
  Result<size_t> Unsent() override { return size_t{0}; }
  Result<std::optional<Message>> Receive() override {
    MutexLock lock(net_->mu);
    std::deque<Message>& inbox = net_->inbox[rank_];
    if (inbox.empty()) return std::optional<Message>();
    std::optional<Message> out(std::move(inbox.front()));
    inbox.pop_front();
    return out;
  }
  Status StartBarrier() override {
    MutexLock lock(net_->mu);
    ++net_->came[rank_];
    return Status::Ok();
  }
  Result<bool> BarrierDone() override {
    MutexLock lock(net_->mu);
    for (const uint64_t came : net_->came) {
      if (came < net_->came[rank_]) return false;
    }
    return true;
  }
  Result<std::unique_ptr<Transport>> Split(uint64_t number) override {
    {
      MutexLock lock(net_->mu);
      net_->members[number].push_back(rank_);
      ++net_->split;
    }
    while (true) {
      MutexLock lock(net_->mu);
      if (net_->split < net_->size) continue;
      std::vector<uint64_t>& members = net_->members[number];
      std::sort(members.begin(), members.end());
      std::shared_ptr<MemoryNetwork>& part = net_->parts[number];
      if (part == nullptr) part = std::make_shared<MemoryNetwork>(members.size());
      const auto me = std::find(members.begin(), members.end(), rank_) - members.begin();
      return std::unique_ptr<Transport>(new MemoryTransport(part, static_cast<uint64_t>(me)));
    }
  }
  Status Close() override {
    MutexLock lock(net_->mu);
    ++net_->closed;
    return Status::Ok();
  }
  [[noreturn]] void Abort(int exit_status) override { ::_exit(exit_status); }

 private:
  const std::shared_ptr<MemoryNetwork> net_;
  const uint64_t rank_;
};

/// `processes` communicators that know each other.
inline std::vector<std::unique_ptr<Communicator>> MakeMemoryCommunicators(uint64_t processes) {
  const auto network = std::make_shared<MemoryNetwork>(processes);
  std::vector<std::unique_ptr<Communicator>> out;
  for (uint64_t rank = 0; rank < processes; ++rank) {
    out.push_back(MakeMessageCommunicator(std::make_unique<MemoryTransport>(network, rank)));
  }
  return out;
}

}  // namespace stoker::bench
