#include "workload/data/datagen.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "workload/base/progress.h"
#include "workload/data/file_writer.h"
#include "workload/data/sample_writer.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kMaxDefaultWriters = 8;
/// Files from this size on are flushed one by one; smaller ones in batches of either bound, and by one syncfs
/// at the end.
constexpr uint64_t kFlushEachBytes = kMiB;
constexpr uint64_t kBatchBytes = 8 * kMiB;
constexpr uint64_t kBatchFiles = 128;
/// Files looked at by one thread at a time. A multiple of 64: each thread owns whole words of the bitmap.
constexpr uint64_t kScanFiles = 4096;

/// One bit per file: all that a dataset of any size needs in memory.
class FileSet {
 public:
  explicit FileSet(uint64_t files) : words_(CeilDiv(files, 64)) {}
  /// Threads may add at the same time as long as no two have files of the same 64.
  void Add(uint64_t file) { words_[file / 64] |= uint64_t{1} << (file % 64); }
  bool Has(uint64_t file) const { return (words_[file / 64] >> (file % 64) & 1) != 0; }

 private:
  std::vector<uint64_t> words_;
};

/// What the writing threads share.
struct Shared {
  Shared(const DatagenOptions& datagen_options, const CancelToken& token)
      : options(datagen_options), cancel(token), missing(datagen_options.dataset.files) {}

  const DatagenOptions& options;
  const CancelToken& cancel;
  FileSet missing;  // constant once the writing begins
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> files{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<bool> failed{false};
  Mutex mu;
  CondVar ended;
  Status failure GUARDED_BY(mu);
  uint64_t running GUARDED_BY(mu) = 0;

  bool stop() const { return cancel.cancelled() || failed.load(std::memory_order_relaxed); }
  void Fail(const Status& status) EXCLUDES(mu) {
    MutexLock lock(mu);
    if (failure.ok()) failure = status;
    failed.store(true, std::memory_order_relaxed);
  }
};

Status Cancelled() {
  return Status(Code::kCancelled, "stopped; run the same command again to write what is missing");
}

/// Removes the temporary file unless it was renamed.
class TempFile {
 public:
  explicit TempFile(std::string path) : path_(std::move(path)) {}
  ~TempFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }
  void Keep() { path_.clear(); }

 private:
  std::string path_;
};

/// Small files that are written but still in memory. Flushing each would make the disk wait for every one;
/// leaving all to the kernel lets it fall behind and then stop the writers. So they go out a batch at a time:
/// one is on its way to the disk while the next is made, and then its pages are given back. Hints all:
/// whether the bytes are on the disk is syncfs's word at the end.
class Settler {
 public:
  explicit Settler(uint64_t most_files) : most_files_(most_files) {}
  ~Settler() {
    Settle();
    Settle();
  }
  Settler(const Settler&) = delete;
  Settler& operator=(const Settler&) = delete;

  void Add(Fd file, uint64_t bytes) {
    written_.push_back(std::move(file));
    bytes_ += bytes;
    if (bytes_ >= kBatchBytes || written_.size() >= most_files_) Settle();
  }

 private:
  void Settle() {
    for (const Fd& file : written_) {
      static_cast<void>(::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE));
    }
    for (const Fd& file : on_its_way_) {
      static_cast<void>(::sync_file_range(
          file.get(), 0, 0,
          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
      static_cast<void>(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED));
    }
    on_its_way_.clear();
    on_its_way_.swap(written_);
    bytes_ = 0;
  }

  const uint64_t most_files_;
  std::vector<Fd> written_;
  std::vector<Fd> on_its_way_;
  uint64_t bytes_ = 0;
};

/// Files in a batch, of which one of `writers` holds two open.
uint64_t BatchFiles(uint64_t writers) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  return std::clamp<uint64_t>(limit.rlim_cur / 4 / writers, 1, kBatchFiles);
}

Status WriteFile(const Shared& shared, const SampleWriter& samples, uint64_t file, FileWriter& out,
                 Settler& settler) {
  const Dataset& dataset = shared.options.dataset;
  const std::string path = dataset.Path(file);
  const size_t slash = path.rfind('/');
  // Hidden, so that no reader takes it for a sample; the same name each time, so that none is left behind.
  TempFile temp(path.substr(0, slash + 1) + "." + path.substr(slash + 1) + ".part");
  Fd fd(::open(temp.path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return Status::FromErrno(errno, temp.path());
  out.Begin(fd.get(), temp.path());
  const Status written = samples.Write(file, out, [&shared] { return shared.stop(); });
  if (written.code() == Code::kCancelled) return Cancelled();
  RETURN_IF_ERROR(written);
  const uint64_t bytes = out.written();
  Fd settling;
  if (bytes >= kFlushEachBytes) {
    if (::fdatasync(fd.get()) != 0) return Status::FromErrno(errno, temp.path());
    // Advice: a later run should meet the storage, not what we left in memory.
    static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED));
  } else {
    settling = Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  }
  // Some file systems tell of a failed write only here.
  if (::close(fd.Release()) != 0) return Status::FromErrno(errno, temp.path());
  if (::rename(temp.path().c_str(), path.c_str()) != 0) return Status::FromErrno(errno, path);
  temp.Keep();
  if (settling.valid()) settler.Add(std::move(settling), bytes);
  return Status::Ok();
}

void Write(Shared& shared, const SampleWriter& samples, uint64_t batch_files) {
  {
    FileWriter out(shared.bytes);
    Settler settler(batch_files);
    while (!shared.stop()) {
      const uint64_t file = shared.next.fetch_add(1, std::memory_order_relaxed);
      if (file >= shared.options.dataset.files) break;
      if (!shared.missing.Has(file)) continue;
      const Status status = WriteFile(shared, samples, file, out, settler);
      if (!status.ok()) {
        shared.Fail(status);
        break;
      }
      shared.files.fetch_add(1, std::memory_order_relaxed);
    }
  }
  MutexLock lock(shared.mu);
  --shared.running;
  shared.ended.NotifyAll();
}

/// What there is, and what has to be written.
struct Inventory {
  uint64_t kept = 0;
  uint64_t missing = 0;
  uint64_t missing_bytes = 0;
  uint64_t reclaimed_bytes = 0;  // of files of the wrong size, which will be replaced
};

/// Looks at every file, several threads at a time: through a slow mount each look takes a while. `empty`:
/// there is nothing to look at.
Inventory TakeInventory(Shared& shared, bool empty, uint64_t threads) {
  const Dataset& dataset = shared.options.dataset;
  Mutex mu;
  Inventory sum;
  std::atomic<uint64_t> next{0};
  const auto look = [&] {
    Inventory mine;
    while (!shared.stop()) {
      const uint64_t begin = next.fetch_add(kScanFiles, std::memory_order_relaxed);
      if (begin >= dataset.files) break;
      const uint64_t end = std::min(begin + kScanFiles, dataset.files);
      for (uint64_t file = begin; file < end && !shared.cancel.cancelled(); ++file) {
        if (file % shared.options.parts != shared.options.part) continue;
        const uint64_t bytes = dataset.FileBytes(file);
        struct stat info;
        if (!empty && ::stat(dataset.Path(file).c_str(), &info) == 0) {
          if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) == bytes) {
            ++mine.kept;
            continue;
          }
          mine.reclaimed_bytes += static_cast<uint64_t>(info.st_blocks) * 512;
        }
        shared.missing.Add(file);
        ++mine.missing;
        mine.missing_bytes += bytes;
      }
    }
    MutexLock lock(mu);
    sum.kept += mine.kept;
    sum.missing += mine.missing;
    sum.missing_bytes += mine.missing_bytes;
    sum.reclaimed_bytes += mine.reclaimed_bytes;
  };
  std::vector<std::thread> others;
  for (uint64_t i = 1; i < std::min(threads, CeilDiv(dataset.files, kScanFiles)); ++i)
    others.emplace_back(look);
  look();
  for (std::thread& other : others) other.join();
  MutexLock lock(mu);
  return sum;
}

/// No entry in any of the folders but each other.
bool IsEmpty(const Dataset& dataset) {
  for (uint64_t k = 0; k < dataset.train_folders(); ++k) {
    std::error_code error;
    std::filesystem::directory_iterator entry(dataset.folder + "/" + dataset.TrainFolder(k), error);
    if (error || entry != std::filesystem::directory_iterator()) return false;
  }
  return true;
}

Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return Status::Ok();
  return Status(Code::kInvalidArgument,
                "cannot make the folder " + path + ": " + error.message() + "; give a writable --data-dir",
                error.value());
}

Status MakeFolders(const Dataset& dataset) {
  for (uint64_t k = 0; k < dataset.train_folders(); ++k) {
    RETURN_IF_ERROR(MakeFolder(dataset.folder + "/" + dataset.TrainFolder(k)));
  }
  // The public tool makes these as well, and refuses to run without.
  RETURN_IF_ERROR(MakeFolder(dataset.folder + "/valid"));
  if (dataset.layout == Edition::kV20 || dataset.layout == Edition::kV30) {
    RETURN_IF_ERROR(MakeFolder(dataset.folder + "/test"));
  }
  return Status::Ok();
}

}  // namespace

uint64_t DefaultWriters() {
  return std::clamp<uint64_t>(std::thread::hardware_concurrency(), 2, kMaxDefaultWriters);
}

Result<DatagenOutcome> GenerateDataset(const DatagenOptions& options, const CancelToken& cancel) {
  const Dataset& dataset = options.dataset;
  RETURN_IF_ERROR(MakeFolders(dataset));
  const std::string train = dataset.folder + "/train";
  const Fd folder(::open(train.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return Status::FromErrno(errno, train);
  if (options.part == 0 && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Status(Code::kBusy,
                  "another datagen is writing to " + train + "; wait for it or give another --data-dir");
  }
  if (::access(train.c_str(), W_OK) != 0) {
    const int error = errno;
    return Status(Code::kInvalidArgument,
                  "cannot write to " + train + ": " +
                      std::error_code(error, std::generic_category()).message() +
                      "; give a writable --data-dir",
                  error);
  }

  Shared shared(options, cancel);
  DatagenOutcome outcome;
  const Inventory there = TakeInventory(shared, IsEmpty(dataset), options.writers);
  if (cancel.cancelled()) return Cancelled();
  outcome.files_kept = there.kept;
  if (there.missing == 0) return outcome;
  struct statvfs space;
  if (::fstatvfs(folder.get(), &space) == 0 && space.f_blocks > 0) {
    const uint64_t free_bytes =
        static_cast<uint64_t>(space.f_bavail) * space.f_frsize + there.reclaimed_bytes;
    // The other parts miss about as much.
    const uint64_t needed = there.missing_bytes * options.parts;
    if (free_bytes < needed) {
      return Status(Code::kNoSpace,
                    train + " has " + FormatBytes(free_bytes) + " free, the " +
                        std::to_string(there.missing * options.parts) + " missing files need " +
                        FormatBytes(needed) +
                        "; free some space or make fewer files (--param dataset.num_files_train)");
    }
  }

  const SampleWriter samples(dataset);
  std::vector<std::thread> writers;
  const uint64_t count = std::min(options.writers, there.missing);
  {
    MutexLock lock(shared.mu);
    shared.running = count;
  }
  for (uint64_t i = 0; i < count; ++i) {
    writers.emplace_back([&shared, &samples, batch_files = BatchFiles(count)] {
      ::pthread_setname_np(::pthread_self(), "bench-write");
      Write(shared, samples, batch_files);
    });
  }
  Progress* progress = nullptr;
  std::unique_ptr<Progress> shown;
  if (options.progress != nullptr) {
    shown = std::make_unique<Progress>(options.progress, "datagen", there.missing, there.missing_bytes);
    progress = shown.get();
  }
  {
    MutexLock lock(shared.mu);
    while (shared.running > 0) {
      shared.ended.WaitFor(shared.mu, std::chrono::milliseconds(100));
      if (progress != nullptr) {
        progress->Update(shared.files.load(std::memory_order_relaxed),
                         shared.bytes.load(std::memory_order_relaxed));
      }
    }
  }
  for (std::thread& writer : writers) writer.join();
  outcome.files_written = shared.files.load();
  outcome.bytes_written = shared.bytes.load();
  if (progress != nullptr) progress->Finish(outcome.files_written, outcome.bytes_written);
  {
    MutexLock lock(shared.mu);
    if (!shared.failure.ok() && !cancel.cancelled()) {
      return Status(shared.failure.code(),
                    shared.failure.message() + " (" + std::to_string(outcome.files_written) + " of " +
                        std::to_string(there.missing) +
                        " files written; run the same command again to write the rest)",
                    shared.failure.os_errno());
    }
  }
  if (cancel.cancelled()) return Cancelled();
  if (::syncfs(folder.get()) != 0) return Status::FromErrno(errno, train);
  return outcome;
}

}  // namespace stoker::bench
