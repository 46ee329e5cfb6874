#include "workload/io/crew.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace stoker::bench {

uint64_t Rendezvous::Meet(uint64_t value) {
  MutexLock lock(mu_);
  largest_ = std::max(largest_, value);
  if (++arrived_ == tasks_) {
    arrived_ = 0;
    last_largest_ = largest_;
    largest_ = 0;
    ++round_;
    all_here_.NotifyAll();
    return last_largest_;
  }
  const uint64_t mine = round_;
  // Nobody can end the next round before this task has left this one, so last_largest_ is still this round's.
  while (round_ == mine) all_here_.Wait(mu_);
  return last_largest_;
}

void Rendezvous::Forgo(uint64_t count) {
  MutexLock lock(mu_);
  tasks_ -= count;
}

Status RunCrew(uint64_t tasks, const std::function<void(uint64_t, Rendezvous&)>& work) {
  Rendezvous meeting(tasks);
  Rendezvous gate(tasks + 1);  // the threads and this one; value 1: go home, not everybody exists
  std::vector<std::thread> threads;
  threads.reserve(tasks);
  std::string trouble;
  for (uint64_t task = 0; task < tasks && trouble.empty(); ++task) {
    try {
      threads.emplace_back([task, &work, &meeting, &gate] {
        if (gate.Meet() == 0) work(task, meeting);
      });
    } catch (const std::system_error& error) {
      trouble = error.what();
    }
  }
  if (threads.size() < tasks) gate.Forgo(tasks - threads.size());
  gate.Meet(trouble.empty() ? 0 : 1);
  for (std::thread& thread : threads) thread.join();
  if (!trouble.empty()) {
    return Status(Code::kBusy, "cannot start " + std::to_string(tasks) + " tasks, the system allowed " +
                                   std::to_string(threads.size()) + " threads (" + trouble +
                                   "): ask for fewer, or raise the limit on processes");
  }
  return Status::Ok();
}

}  // namespace stoker::bench
