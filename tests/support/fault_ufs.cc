#include "tests/support/fault_ufs.h"

#include <algorithm>
#include <cerrno>
#include <thread>

namespace stoker::testing {

class FaultFile final : public UfsFile {
 public:
  FaultFile(FaultUfs& ufs, std::string path, std::unique_ptr<UfsFile> inner)
      : ufs_(ufs), path_(std::move(path)), inner_(std::move(inner)) {}
  const FileVersion& version() const override { return inner_->version(); }
  int fd() const override { return -1; }
  Result<size_t> Read(uint64_t offset, std::span<std::byte> to, const CancelToken& cancel) override {
    const FaultUfs::Outcome outcome = ufs_.Meet(FaultUfs::Op::kRead, path_, offset, &cancel);
    if (!outcome.error.ok()) {
      ufs_.Note({FaultUfs::Op::kRead, path_, {offset, offset}, false});
      return outcome.error;
    }
    if (outcome.short_to.has_value()) to = to.first(std::min(to.size(), *outcome.short_to));
    Result<size_t> got = inner_->Read(offset, to, cancel);
    ufs_.Note({FaultUfs::Op::kRead, path_, {offset, offset + (got.ok() ? *got : 0)}, got.ok()});
    return got;
  }
  Status CheckVersion() const override {
    const FaultUfs::Outcome outcome = ufs_.Meet(FaultUfs::Op::kCheck, path_, 0, nullptr);
    Status status = outcome.error.ok() ? inner_->CheckVersion() : outcome.error;
    ufs_.Note({FaultUfs::Op::kCheck, path_, {}, status.ok()});
    return status;
  }
  Result<uint64_t> NextData(uint64_t offset) const override { return inner_->NextData(offset); }
  Result<uint64_t> NextHole(uint64_t offset) const override { return inner_->NextHole(offset); }

 private:
  FaultUfs& ufs_;
  const std::string path_;
  const std::unique_ptr<UfsFile> inner_;
};

void FaultUfs::Add(Fault fault) {
  MutexLock lock(mu_);
  rules_.push_back({std::move(fault), 0});
}

void FaultUfs::Seed(uint64_t seed, uint64_t one_in) {
  MutexLock lock(mu_);
  random_.emplace(seed);
  one_in_ = one_in;
}

void FaultUfs::Release() {
  MutexLock lock(mu_);
  released_ = true;
  changed_.NotifyAll();
}

std::vector<FaultUfs::Call> FaultUfs::Log() const {
  MutexLock lock(mu_);
  return log_;
}

void FaultUfs::ClearLog() {
  MutexLock lock(mu_);
  log_.clear();
}

void FaultUfs::Note(Call call) {
  MutexLock lock(mu_);
  log_.push_back(std::move(call));
}

bool FaultUfs::WaitForHanging(size_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MutexLock lock(mu_);
  while (hanging_ < count) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return false;
    changed_.WaitFor(mu_, end - now);
  }
  return true;
}

uint64_t FaultUfs::BytesRead(const std::string& path) const {
  MutexLock lock(mu_);
  uint64_t bytes = 0;
  for (const Call& call : log_) {
    if (call.op == Op::kRead && call.path == path) bytes += call.range.size();
  }
  return bytes;
}

size_t FaultUfs::Count(Op op, const std::string& path) const {
  MutexLock lock(mu_);
  return static_cast<size_t>(std::count_if(log_.begin(), log_.end(), [&](const Call& call) {
    return call.op == op && (path.empty() || call.path == path);
  }));
}

FaultUfs::Outcome FaultUfs::Meet(Op op, const std::string& path, uint64_t offset, const CancelToken* cancel) {
  std::vector<Fault> due;
  Outcome outcome;
  std::chrono::microseconds delay{0};
  {
    MutexLock lock(mu_);
    if (released_) return {};
    for (Rule& rule : rules_) {
      const Fault& fault = rule.fault;
      if (fault.op != op || (!fault.path.empty() && fault.path != path)) continue;
      if (fault.offset_below.has_value() && offset >= *fault.offset_below) continue;
      ++rule.seen;
      if (rule.seen >= fault.first && rule.seen - fault.first < fault.times) due.push_back(fault);
    }
    if (random_.has_value() && one_in_ != 0 && op == Op::kRead && path.rfind("clean", 0) != 0) {
      if (random_->OneIn(one_in_)) outcome.error = Status(Code::kIo, "injected", EIO);
      if (random_->OneIn(one_in_)) outcome.short_to = random_->Below(100000);
      if (random_->OneIn(one_in_)) delay = std::chrono::microseconds(random_->Below(1000));
    }
  }
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  for (const Fault& fault : due) {
    if (fault.before) fault.before();
    if (fault.delay.count() > 0) std::this_thread::sleep_for(fault.delay);
    if (fault.hang) {
      MutexLock lock(mu_);
      ++hanging_;
      changed_.NotifyAll();
      // A cancelled token does not wake us; look again now and then.
      while (!released_ && (cancel == nullptr || !cancel->cancelled())) {
        changed_.WaitFor(mu_, std::chrono::milliseconds(5));
      }
      --hanging_;
      if (cancel != nullptr && cancel->cancelled()) outcome.error = Status(Code::kCancelled, "cancelled");
    }
    if (!fault.error.ok()) outcome.error = fault.error;
    if (fault.short_to.has_value()) outcome.short_to = fault.short_to;
  }
  return outcome;
}

size_t FaultUfs::MaxOpenDirs() const {
  MutexLock lock(mu_);
  return max_open_dirs_;
}

Result<UfsAttr> FaultUfs::Stat(const std::string& path) {
  const Outcome outcome = Meet(Op::kStat, path, 0, nullptr);
  Result<UfsAttr> attr = outcome.error.ok() ? inner_.Stat(path) : Result<UfsAttr>(outcome.error);
  Note({Op::kStat, path, {}, attr.ok()});
  return attr;
}

/// Attributes asked for by way of a listing meet the same faults as those asked for by path.
class FaultDir final : public UfsDir {
 public:
  FaultDir(FaultUfs& faults, std::string path, std::unique_ptr<UfsDir> inner)
      : faults_(faults), path_(std::move(path)), inner_(std::move(inner)) {
    MutexLock lock(faults_.mu_);
    faults_.max_open_dirs_ = std::max(faults_.max_open_dirs_, ++faults_.open_dirs_);
  }
  ~FaultDir() override {
    MutexLock lock(faults_.mu_);
    --faults_.open_dirs_;
  }
  Status Next(size_t max, std::vector<UfsDirEntry>& entries) override { return inner_->Next(max, entries); }
  Result<UfsAttr> StatEntry(const std::string& name) override {
    const std::string path = path_.empty() ? name : path_ + "/" + name;
    const FaultUfs::Outcome outcome = faults_.Meet(FaultUfs::Op::kStat, path, 0, nullptr);
    Result<UfsAttr> attr = outcome.error.ok() ? inner_->StatEntry(name) : Result<UfsAttr>(outcome.error);
    faults_.Note({FaultUfs::Op::kStat, path, {}, attr.ok()});
    return attr;
  }

 private:
  FaultUfs& faults_;
  const std::string path_;
  const std::unique_ptr<UfsDir> inner_;
};

Result<std::unique_ptr<UfsDir>> FaultUfs::OpenDir(const std::string& path) {
  const Outcome outcome = Meet(Op::kList, path, 0, nullptr);
  Note({Op::kList, path, {}, outcome.error.ok()});
  if (!outcome.error.ok()) return outcome.error;
  Result<std::unique_ptr<UfsDir>> inner = inner_.OpenDir(path);
  if (!inner.ok()) return inner.status();
  return std::unique_ptr<UfsDir>(std::make_unique<FaultDir>(*this, path, std::move(inner).value()));
}

Result<std::unique_ptr<UfsFile>> FaultUfs::OpenFile(const std::string& path) {
  const Outcome outcome = Meet(Op::kOpen, path, 0, nullptr);
  Note({Op::kOpen, path, {}, outcome.error.ok()});
  if (!outcome.error.ok()) return outcome.error;
  Result<std::unique_ptr<UfsFile>> inner = inner_.OpenFile(path);
  if (!inner.ok()) return inner.status();
  return std::unique_ptr<UfsFile>(std::make_unique<FaultFile>(*this, path, std::move(inner).value()));
}

}  // namespace stoker::testing
