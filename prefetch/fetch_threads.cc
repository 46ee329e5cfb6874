#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "cache/base/log.h"
#include "cache/io/io_queue.h"
#include "prefetch/fetch_core.h"
#include "prefetch/part_fetch.h"

// Core's threads: workers, the timer that looks at deadlines, how they start and how they end.

namespace stoker::fetch {

namespace {

/// Operations that one thread has under way: the pieces of one 4 MiB part, read and written.
constexpr unsigned kQueueDepth = 8;
/// How often deadlines are looked at while somebody waits. Real time, so that a test's clock may stand still.
constexpr auto kTick = std::chrono::milliseconds(50);
/// Bytes that could not be stored are kept this long after their last use.
constexpr auto kLinger = std::chrono::seconds(5);
/// Buffers that nobody used for so long go back to the kernel.
constexpr auto kIdleMemory = std::chrono::seconds(10);

/// Keeps until the process ends what must not be taken apart any more.
void LeaveBehind(std::unique_ptr<PartFetch> job, std::unique_ptr<IoQueue> io) {
  struct Left {
    Mutex mu;
    std::vector<std::pair<std::unique_ptr<PartFetch>, std::unique_ptr<IoQueue>>> jobs GUARDED_BY(mu);
  };
  static auto* const left = new Left();  // never destroyed
  MutexLock lock(left->mu);
  left->jobs.emplace_back(std::move(job), std::move(io));
}

}  // namespace

bool Core::SpawnLocked() {
  const size_t slot = threads_.size();
  WorkerSlot& made = threads_.emplace_back();
  try {
    made.thread = std::thread(slot == 0 ? &Core::TimerMain : &Core::WorkerMain, shared_from_this(), slot);
  } catch (const std::system_error& error) {
    threads_.pop_back();
    LogWarn("prefetch", std::string("cannot start another fetch thread: ") + error.what());
    return false;
  }
  ++alive_;
  return true;
}

void Core::WorkerMain(const std::shared_ptr<Core>& core, size_t slot) {
  pthread_setname_np(pthread_self(), "stoker-fetch");
  std::unique_ptr<IoQueue> io;
  while (true) {
    PartMemory::Block block;
    std::shared_ptr<Fetch> fetch;
    {
      Later later;
      MutexLock lock(core->mu);
      fetch = core->DequeueLocked(&block, later);
      if (fetch == nullptr) {
        if (core->stopping_) break;
        if (!later.empty()) continue;  // memory may come free by it
        ++core->idle_;
        core->work_.Wait(core->mu);
        --core->idle_;
        continue;
      }
    }
    const bool mapped = block.data != nullptr || PartMemory::MapBlock(block);
    auto buffer = std::make_shared<PartBuffer>(core, block);
    if (!mapped) {
      core->FinishFailed(fetch, nullptr, Status(Code::kBusy, "out of memory for a part buffer", ENOMEM));
      continue;
    }
    {
      MutexLock lock(core->mu);
      fetch->buffer = buffer;
    }
    // The ring belongs to the thread that makes it, and only threads that work need one.
    if (io == nullptr) {
      Result<std::unique_ptr<IoQueue>> made = MakeIoQueue(core->io_mode, kQueueDepth);
      if (!made.ok()) {
        LogWarn("prefetch", made.status().message() + "; this thread reads with pread instead");
        made = MakeIoQueue(IoMode::kPread, kQueueDepth);
      }
      io = std::move(made).value();
    }
    auto job = std::make_unique<PartFetch>(*core, *io, std::move(fetch), std::move(buffer));
    if (!job->Run()) {
      // Given up by Stop() while the storage held us. The store and the UFS may be gone: what points at them
      // stays as it is, and so does the ring that may still own our memory.
      LeaveBehind(std::move(job), std::move(io));
      break;
    }
  }
  io.reset();
  MutexLock lock(core->mu);
  core->threads_[slot].exited = true;
  --core->alive_;
  core->exited_.NotifyAll();
}

void Core::TimerMain(const std::shared_ptr<Core>& core, size_t slot) {
  pthread_setname_np(pthread_self(), "stoker-fetchtmr");
  while (core->Tick()) {
  }
  MutexLock lock(core->mu);
  core->threads_[slot].exited = true;
  --core->alive_;
  core->exited_.NotifyAll();
}

bool Core::Tick() {
  Later later;
  MutexLock lock(mu);
  if (stopping_) return false;
  if (reads_.empty() && waiting_wishes_.empty() && lingering_.empty() && memory_.idle_bytes() == 0) {
    timer_.Wait(mu);
  } else {
    timer_.WaitFor(mu, kTick);
  }
  const Nanos now = clock.Now();
  const auto late = [this](const std::string& path) {
    return Status(Code::kDeadlineExceeded, "'" + path + "' was not read within " +
                                               FormatDuration(options.deadline) + "; the UFS is too slow");
  };
  while (!reads_.empty() && reads_.begin()->second->deadline <= now) {
    const std::shared_ptr<ReadRequest> request = reads_.begin()->second;
    FinishReadLocked(request, late(request->file->path()), later);
  }
  while (!waiting_wishes_.empty() && waiting_wishes_.begin()->second.deadline <= now) {
    const uint64_t ticket = waiting_wishes_.begin()->first;
    const std::shared_ptr<Fetch> fetch = queue_.Find(waiting_wishes_.begin()->second.key);
    waiting_wishes_.erase(waiting_wishes_.begin());
    if (fetch == nullptr) continue;
    for (auto wish = fetch->wishes.begin(); wish != fetch->wishes.end(); ++wish) {
      if (wish->ticket != ticket) continue;
      const Status status = late(wish->file->path());
      FinishWishLocked(std::move(*wish), status, later);
      fetch->wishes.erase(wish);
      AfterLeaveLocked(fetch, later);
      break;
    }
  }
  while (!lingering_.empty() && lingering_.oldest_use() + kLinger <= now) {
    DropOldestLingeringLocked(later);
  }
  if (memory_.used_bytes() == 0 && last_fetch_ + kIdleMemory <= now) memory_.TakeIdle(later.blocks);
  return true;
}

Status Core::StartThreads() {
  MutexLock lock(mu);
  if (!SpawnLocked() || !SpawnLocked()) {
    return {Code::kUnavailable,
            "cannot start the fetch threads: raise the limit on threads (ulimit -u, pids.max)"};
  }
  return Status::Ok();
}

void Core::Stop(Nanos timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  {
    Later later;
    MutexLock lock(mu);
    if (!stopping_) {
      stopping_ = true;
      while (!reads_.empty()) {
        const std::shared_ptr<ReadRequest> request = reads_.begin()->second;
        FinishReadLocked(request, Cancelled(), later);
      }
      for (const std::shared_ptr<Fetch>& fetch : queue_.All()) {
        for (Wish& wish : fetch->wishes) FinishWishLocked(std::move(wish), Cancelled(), later);
        fetch->wishes.clear();
        fetch->cancel.Cancel();
        AfterLeaveLocked(fetch, later);
      }
      while (!lingering_.empty()) DropOldestLingeringLocked(later);
      memory_.TakeIdle(later.blocks);
      UpdateGaugesLocked();
      work_.NotifyAll();
      timer_.NotifyAll();
      paused_.NotifyAll();
    }
  }
  std::vector<std::thread> ended;
  {
    MutexLock lock(mu);
    while (alive_ > 0) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= end) break;
      exited_.WaitFor(mu, end - now);
    }
    abandoned_ = abandoned_ || alive_ > 0;
    stuck_ = alive_;
    for (WorkerSlot& worker : threads_) {
      if (!worker.thread.joinable()) continue;
      if (worker.exited) {
        ended.push_back(std::move(worker.thread));
      } else {
        worker.thread.detach();
      }
    }
  }
  for (std::thread& thread : ended) thread.join();
  if (const size_t stuck = State().stuck_threads; stuck > 0) {
    LogWarn("prefetch", std::to_string(stuck) + " fetch threads hang in the storage and are left behind");
  }
}

}  // namespace stoker::fetch
