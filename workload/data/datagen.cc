#include "workload/data/datagen.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
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
#include "workload/data/content.h"

namespace stoker::bench {
namespace {

constexpr size_t kWriteBytes = 4 * Content::kBlockBytes;  // one write call: 1 MiB
constexpr uint64_t kMaxDefaultWriters = 8;
/// Files from this size on are flushed one by one; smaller ones by one syncfs at the end.
constexpr uint64_t kFlushEachBytes = kMiB;
/// Written bytes after which the kernel is asked to start writing back, so that the flush at the end of the
/// file does not find all of it waiting.
constexpr uint64_t kWriteBackBytes = 16 * kMiB;

struct Job {
  uint64_t file = 0;
  uint64_t bytes = 0;
};

struct Shared {
  Shared(const DatagenOptions& datagen_options, const Content& made_up, const CancelToken& token,
         const std::vector<Job>& missing)
      : options(datagen_options), content(made_up), cancel(token), jobs(missing) {}

  const DatagenOptions& options;
  const Content& content;
  const CancelToken& cancel;
  const std::vector<Job>& jobs;
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> files{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<bool> failed{false};
  Mutex mu;
  CondVar ended;
  Status failure GUARDED_BY(mu);
  uint64_t running GUARDED_BY(mu) = 0;

  bool stop() const { return cancel.cancelled() || failed.load(std::memory_order_relaxed); }
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

Status WriteAll(int fd, const std::byte* bytes, size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t put = ::write(fd, bytes, size);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Status::FromErrno(errno, path);
    bytes += put;
    size -= static_cast<size_t>(put);
  }
  return Status::Ok();
}

/// Collects small pieces into writes of kWriteBytes.
class FileWriter {
 public:
  FileWriter(int fd, const std::string& path, std::vector<std::byte>& buffer, Shared& shared)
      : fd_(fd), path_(path), buffer_(buffer), shared_(shared) {}

  Status Text(const std::string& text) {
    size_t done = 0;
    while (done < text.size()) {
      const size_t step = std::min(text.size() - done, kWriteBytes - used_);
      std::copy_n(reinterpret_cast<const std::byte*>(text.data()) + done, step, buffer_.data() + used_);
      done += step;
      RETURN_IF_ERROR(Used(step));
    }
    return Status::Ok();
  }
  /// Room for a block of content: REQUIRES a following Used().
  Result<std::byte*> Room(size_t bytes) {
    if (used_ + bytes > kWriteBytes + kSlack) RETURN_IF_ERROR(Flush());
    return buffer_.data() + used_;
  }
  Status Used(size_t bytes) {
    used_ += bytes;
    return used_ >= kWriteBytes ? Flush() : Status::Ok();
  }
  Status Flush() {
    RETURN_IF_ERROR(WriteAll(fd_, buffer_.data(), used_, path_));
    written_ += used_;
    shared_.bytes.fetch_add(used_, std::memory_order_relaxed);
    used_ = 0;
    if (written_ - asked_ >= kWriteBackBytes) {
      // A hint: where it does nothing the flush at the end takes longer.
      static_cast<void>(::sync_file_range(fd_, static_cast<off64_t>(asked_),
                                          static_cast<off64_t>(written_ - asked_), SYNC_FILE_RANGE_WRITE));
      asked_ = written_;
    }
    return Status::Ok();
  }
  static constexpr size_t kSlack = Content::kBlockBytes;

 private:
  const int fd_;
  const std::string& path_;
  std::vector<std::byte>& buffer_;  // [kWriteBytes + kSlack]
  Shared& shared_;
  size_t used_ = 0;
  uint64_t written_ = 0;
  uint64_t asked_ = 0;
};

Status WriteFile(Shared& shared, const Job& job, std::vector<std::byte>& buffer) {
  const Dataset& dataset = shared.options.dataset;
  const std::string path = dataset.Path(job.file);
  const size_t slash = path.rfind('/');
  // Hidden, so that no reader takes it for a sample; the same name each time, so that none is left behind.
  TempFile temp(path.substr(0, slash + 1) + "." + path.substr(slash + 1) + ".part");
  Fd fd(::open(temp.path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return Status::FromErrno(errno, temp.path());

  const NpzShape shape = dataset.ShapeOf(job.file);
  const std::string x_header = SampleHeader(shape);
  const uint64_t data_bytes = shape.data_bytes();
  const NpzFrame frame = MakeNpzFrame(
      shape, shared.content.Crc(Crc32(0, x_header.data(), x_header.size()), job.file, data_bytes));
  FileWriter writer(fd.get(), temp.path(), buffer, shared);
  RETURN_IF_ERROR(writer.Text(frame.head));
  for (uint64_t done = 0; done < data_bytes; done += Content::kBlockBytes) {
    if (shared.stop()) return Cancelled();
    const size_t step = std::min<uint64_t>(Content::kBlockBytes, data_bytes - done);
    ASSIGN_OR_RETURN(std::byte * room, writer.Room(step));
    shared.content.Fill(job.file, done / Content::kBlockBytes, {room, step});
    RETURN_IF_ERROR(writer.Used(step));
  }
  RETURN_IF_ERROR(writer.Text(frame.tail));
  RETURN_IF_ERROR(writer.Flush());
  if (job.bytes >= kFlushEachBytes) {
    if (::fdatasync(fd.get()) != 0) return Status::FromErrno(errno, temp.path());
    // Advice: a later run should meet the storage, not what we left in memory.
    static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED));
  }
  if (::close(fd.Release()) != 0) return Status::FromErrno(errno, temp.path());
  if (::rename(temp.path().c_str(), path.c_str()) != 0) return Status::FromErrno(errno, path);
  temp.Keep();
  return Status::Ok();
}

void Write(Shared& shared) {
  std::vector<std::byte> buffer(kWriteBytes + FileWriter::kSlack);
  while (!shared.stop()) {
    const uint64_t index = shared.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= shared.jobs.size()) break;
    const Status status = WriteFile(shared, shared.jobs[index], buffer);
    if (status.ok()) {
      shared.files.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    MutexLock lock(shared.mu);
    if (shared.failure.ok()) shared.failure = status;
    shared.failed.store(true, std::memory_order_relaxed);
    break;
  }
  MutexLock lock(shared.mu);
  --shared.running;
  shared.ended.NotifyAll();
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
  if (dataset.format != Format::kNpz) {
    return Status(Code::kInvalidArgument, "dataset.format: files of format " +
                                              std::string(Name(dataset.format)) + " cannot be written");
  }
  RETURN_IF_ERROR(MakeFolders(dataset));
  const std::string train = dataset.folder + "/train";
  const Fd folder(::open(train.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return Status::FromErrno(errno, train);
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
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

  DatagenOutcome outcome;
  std::vector<Job> jobs;
  uint64_t missing_bytes = 0;
  uint64_t reclaimed_bytes = 0;
  for (uint64_t file = 0; file < dataset.files; ++file) {
    if (cancel.cancelled()) return Cancelled();
    const uint64_t bytes = dataset.FileBytes(file);
    struct stat info;
    if (::stat(dataset.Path(file).c_str(), &info) == 0) {
      if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) == bytes) {
        ++outcome.files_kept;
        continue;
      }
      reclaimed_bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    jobs.push_back({file, bytes});
    missing_bytes += bytes;
  }
  if (jobs.empty()) return outcome;
  struct statvfs space;
  if (::fstatvfs(folder.get(), &space) == 0 && space.f_blocks > 0) {
    const uint64_t free_bytes = static_cast<uint64_t>(space.f_bavail) * space.f_frsize + reclaimed_bytes;
    if (free_bytes < missing_bytes) {
      return Status(Code::kNoSpace,
                    train + " has " + FormatBytes(free_bytes) + " free, the " + std::to_string(jobs.size()) +
                        " missing files need " + FormatBytes(missing_bytes) +
                        "; free some space or make fewer files (--param dataset.num_files_train)");
    }
  }

  const Content content(dataset.seed, dataset.element());
  Shared shared(options, content, cancel, jobs);
  std::vector<std::thread> writers;
  const uint64_t count = std::min<uint64_t>(options.writers, jobs.size());
  {
    MutexLock lock(shared.mu);
    shared.running = count;
  }
  for (uint64_t i = 0; i < count; ++i) {
    writers.emplace_back([&shared] {
      ::pthread_setname_np(::pthread_self(), "bench-write");
      Write(shared);
    });
  }
  Progress* progress = nullptr;
  std::unique_ptr<Progress> shown;
  if (options.progress != nullptr) {
    shown = std::make_unique<Progress>(options.progress, "datagen", jobs.size(), missing_bytes);
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
                        std::to_string(jobs.size()) +
                        " files written; run the same command again to write the rest)",
                    shared.failure.os_errno());
    }
  }
  if (cancel.cancelled()) return Cancelled();
  if (::syncfs(folder.get()) != 0) return Status::FromErrno(errno, train);
  return outcome;
}

}  // namespace stoker::bench
