#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/base/mutex.h"
#include "cache/base/random.h"
#include "cache/base/units.h"
#include "cache/ufs/ufs.h"

namespace stoker::testing {

/// Wraps any UFS and makes it misbehave on a schedule, scripted or seeded, and keeps a log of what was asked.
/// Its files have no descriptor, so every byte comes through Read(). Any thread; outlives its files.
class FaultUfs final : public Ufs {
 public:
  enum class Op { kStat, kList, kOpen, kRead, kCheck };

  /// What happens to a matching call. Empty fields do nothing.
  struct Fault {
    Op op = Op::kRead;
    std::string path = {};                      // "": any
    uint64_t first = 1;                         // from the n-th matching call on (counted by this rule)
    uint64_t times = 1;                         // so often
    std::optional<uint64_t> offset_below = {};  // reads that begin under it
    std::chrono::milliseconds delay{0};
    Status error = {};
    std::optional<size_t> short_to = {};  // a read returns at most so many bytes
    bool hang = false;                    // until the read is cancelled, or Release()
    std::function<void()> before = {};    // runs first: change the file, let a test go on
  };

  struct Call {
    Op op;
    std::string path;
    ByteRange range;  // reads: what came back
    bool ok;
  };

  explicit FaultUfs(Ufs& inner) : inner_(inner) {}
  ~FaultUfs() override { Release(); }

  void Add(Fault fault) EXCLUDES(mu_);
  /// Each read fails with kIo with chance 1 in `one_in` (0: never), is cut short as often, and is delayed by
  /// up to a millisecond as often. Paths that begin with "clean" are spared.
  void Seed(uint64_t seed, uint64_t one_in) EXCLUDES(mu_);
  /// No more faults; hanging calls go on.
  void Release() EXCLUDES(mu_);
  std::vector<Call> Log() const EXCLUDES(mu_);
  void ClearLog() EXCLUDES(mu_);
  /// Waits until so many calls hang; false after ten seconds.
  bool WaitForHanging(size_t count) EXCLUDES(mu_);
  uint64_t BytesRead(const std::string& path) const EXCLUDES(mu_);
  size_t Count(Op op, const std::string& path) const EXCLUDES(mu_);
  /// The most directories that were open at once.
  size_t MaxOpenDirs() const EXCLUDES(mu_);

  std::string uri() const override { return inner_.uri(); }
  Result<UfsAttr> Stat(const std::string& path) override;
  Result<std::string> ReadLink(const std::string& path) override { return inner_.ReadLink(path); }
  Result<std::unique_ptr<UfsDir>> OpenDir(const std::string& path) override;
  Result<std::unique_ptr<UfsFile>> OpenFile(const std::string& path) override;
  Result<struct statvfs> StatFs() override { return inner_.StatFs(); }
  Result<std::string> GetXattr(const std::string& path, const std::string& name) override {
    return inner_.GetXattr(path, name);
  }
  Result<std::vector<std::string>> ListXattr(const std::string& path) override {
    return inner_.ListXattr(path);
  }

 private:
  friend class FaultDir;
  friend class FaultFile;
  struct Outcome {
    Status error;
    std::optional<size_t> short_to;
  };
  /// Delays, hangs and changes happen in here.
  Outcome Meet(Op op, const std::string& path, uint64_t offset, const CancelToken* cancel) EXCLUDES(mu_);
  void Note(Call call) EXCLUDES(mu_);

  Ufs& inner_;
  mutable Mutex mu_;
  CondVar changed_;
  struct Rule {
    Fault fault;
    uint64_t seen = 0;
  };
  std::vector<Rule> rules_ GUARDED_BY(mu_);
  std::vector<Call> log_ GUARDED_BY(mu_);
  std::optional<Random> random_ GUARDED_BY(mu_);
  uint64_t one_in_ GUARDED_BY(mu_) = 0;
  size_t hanging_ GUARDED_BY(mu_) = 0;
  size_t open_dirs_ GUARDED_BY(mu_) = 0;
  size_t max_open_dirs_ GUARDED_BY(mu_) = 0;
  bool released_ GUARDED_BY(mu_) = false;
};

}  // namespace stoker::testing
