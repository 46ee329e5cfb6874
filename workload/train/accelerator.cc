#include "workload/train/accelerator.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "cache/base/units.h"
#include "workload/base/steady.h"

namespace stoker::bench {
namespace {

constexpr size_t kRanksNamed = 8;  // in one message
constexpr Nanos kPoll = std::chrono::milliseconds(100);
constexpr Nanos kWatchLimit = std::chrono::microseconds(100);

}  // namespace

Accelerators::Accelerators(AcceleratorOptions options, std::vector<BatchSource*> sources, Doorbell& bell)
    : options_(std::move(options)), bell_(bell), waiter_(std::min(kWatchLimit, options_.compute / 8)) {
  for (BatchSource* source : sources) all_.push_back({source, Nanos(0), {}});
  loading_.reserve(all_.size());
  computing_.reserve(all_.size());
}

double Accelerators::Seconds(Nanos time) const {
  return std::chrono::duration<double>(time - options_.run_start).count();
}

Status Accelerators::Run(uint64_t steps, std::vector<RankEpoch>& ranks) {
  for (uint64_t step = 0; step < steps; ++step) {
    RETURN_IF_ERROR(Step());
    if (options_.meet_others) RETURN_IF_ERROR(options_.meet_others(options_.step_timeout));
    const double end = Seconds(SteadyNow());
    for (size_t i = 0; i < all_.size(); ++i) {
      all_[i].times.barrier_end = end;
      ranks[i].steps.push_back(all_[i].times);
      ranks[i].block_end = end;
    }
  }
  return Status::Ok();
}

Status Accelerators::Step() {
  loading_.resize(all_.size());
  std::iota(loading_.begin(), loading_.end(), size_t{0});
  computing_.clear();
  size_t done = 0;  // of computing_
  const Nanos start = SteadyNow();
  const Nanos load_limit =
      options_.step_timeout < Nanos::max() - start ? start + options_.step_timeout : Nanos::max();
  while (true) {
    const uint32_t seen = bell_.rings();  // before looking: what comes later rings again
    TakeBatches();
    const Nanos now = SteadyNow();
    for (; done < computing_.size() && all_[computing_[done]].busy_until <= now; ++done) {
      all_[computing_[done]].times.compute_end = Seconds(now);
    }
    if (done == all_.size()) return Status::Ok();
    if (options_.cancel.cancelled()) return {Code::kCancelled, "the run was stopped"};
    if (options_.check) RETURN_IF_ERROR(options_.check());
    if (!loading_.empty() && now >= load_limit) return LoadTimeout();
    const Nanos poll = now + kPoll;
    if (done < computing_.size() && all_[computing_[done]].busy_until <= poll) {
      waiter_.Wait(bell_, seen, all_[computing_[done]].busy_until);
    } else {
      bell_.Wait(seen, loading_.empty() ? poll : std::min(poll, load_limit));
    }
  }
}

void Accelerators::TakeBatches() {
  if (loading_.empty()) return;
  const size_t before = computing_.size();
  const auto taken = [&](size_t i) {
    if (!all_[i].source->TryNext()) return false;
    computing_.push_back(i);
    return true;
  };
  loading_.erase(std::remove_if(loading_.begin(), loading_.end(), taken), loading_.end());
  if (computing_.size() == before) return;
  // One look at the clock for all that were found, after they were found.
  const Nanos now = SteadyNow();
  for (size_t i = before; i < computing_.size(); ++i) {
    all_[computing_[i]].times.load_end = Seconds(now);
    all_[computing_[i]].busy_until = now + options_.compute;
  }
}

Status Accelerators::LoadTimeout() const {
  std::string message = "rank " + std::to_string(options_.first_rank + loading_.front()) + ": " +
                        all_[loading_.front()].source->Awaited() + " was not read within " +
                        FormatDuration(options_.step_timeout) + "; the storage does not answer";
  if (loading_.size() > 1) {
    message += " (waiting too: ";
    message += loading_.size() == 2 ? "rank " : "ranks ";
    for (size_t i = 1; i < std::min(loading_.size(), kRanksNamed); ++i) {
      message += (i > 1 ? ", " : "") + std::to_string(options_.first_rank + loading_[i]);
    }
    if (loading_.size() > kRanksNamed) {
      message += " and " + std::to_string(loading_.size() - kRanksNamed) + " more";
    }
    message += ")";
  }
  return {Code::kDeadlineExceeded, message};
}

}  // namespace stoker::bench
