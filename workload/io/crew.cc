#include "workload/io/crew.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace stoker::bench {

void Rendezvous::EndRound() {
  arrived_ = 0;
  last_largest_ = largest_;
  largest_ = 0;
  ++round_;
  changed_.NotifyAll();
}

uint64_t Rendezvous::Meet(uint64_t value) {
  MutexLock lock(mu_);
  if (broken_) return value;
  largest_ = std::max(largest_, value);
  const uint64_t mine = round_;
  if (++arrived_ == tasks_) {
    if (!bridged_) {
      EndRound();
    } else {
      changed_.NotifyAll();  // Serve
    }
  }
  // Nobody can end the next round before this task has left this one, so last_largest_ is still this round's.
  while (round_ == mine && !broken_) changed_.Wait(mu_);
  return round_ == mine ? value : last_largest_;
}

void Rendezvous::Forgo(uint64_t count) {
  MutexLock lock(mu_);
  tasks_ -= count;
}

void Rendezvous::Leave() {
  MutexLock lock(mu_);
  ++left_;
  changed_.NotifyAll();
}

Status Rendezvous::Serve(const std::function<Result<uint64_t>(uint64_t)>& exchange,
                         const std::function<void()>& look) {
  MutexLock lock(mu_);
  while (left_ < tasks_) {
    if (arrived_ < tasks_) {
      if (!changed_.WaitFor(mu_, std::chrono::milliseconds(100))) {
        lock.Unlock();
        look();
        lock.Lock();
      }
      continue;
    }
    const uint64_t here = largest_;
    lock.Unlock();
    const Result<uint64_t> everywhere = exchange(here);
    lock.Lock();
    if (!everywhere.ok()) {
      broken_ = true;
      changed_.NotifyAll();
      return everywhere.status();
    }
    largest_ = *everywhere;
    EndRound();
  }
  return Status::Ok();
}

Status RunThreads(uint64_t tasks, const std::function<void(uint64_t)>& work,
                  const std::function<void()>& here) {
  Rendezvous gate(tasks + 1);  // the threads and this one; value 1: go home, not everybody exists
  std::vector<std::thread> threads;
  threads.reserve(tasks);
  std::string trouble;
  for (uint64_t task = 0; task < tasks && trouble.empty(); ++task) {
    try {
      threads.emplace_back([task, &work, &gate] {
        if (gate.Meet() == 0) work(task);
      });
    } catch (const std::system_error& error) {
      trouble = error.what();
    }
  }
  if (threads.size() < tasks) gate.Forgo(tasks - threads.size());
  gate.Meet(trouble.empty() ? 0 : 1);
  if (trouble.empty()) here();
  for (std::thread& thread : threads) thread.join();
  if (!trouble.empty()) {
    return Status(Code::kBusy, "cannot start " + std::to_string(tasks) + " tasks, the system allowed " +
                                   std::to_string(threads.size()) + " threads (" + trouble +
                                   "): ask for fewer, or raise the limit on processes");
  }
  return Status::Ok();
}

}  // namespace stoker::bench
