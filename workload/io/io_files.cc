// The I/O test's dealings with its files outside the timed phases: what is there, what fits, what is removed.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <cerrno>
#include <filesystem>

#include "cache/base/fd.h"
#include "cache/base/units.h"
#include "workload/base/host.h"
#include "workload/io/crew.h"
#include "workload/io/io_test.h"
#include "workload/io/lustre.h"
#include "workload/io/pattern.h"

namespace stoker::bench {
namespace {

std::string FolderOf(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

Status CheckFolder(const std::string& folder, bool writing) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) {
    return Status::FromErrno(errno, "io: -o: folder " + folder + (errno == ENOENT ? " (make it first)" : ""));
  }
  if (!S_ISDIR(info.st_mode)) return Status(Code::kNotADirectory, "io: -o: " + folder + " is not a folder");
  if (writing && ::access(folder.c_str(), W_OK | X_OK) != 0) {
    return Status::FromErrno(errno, "io: -o: no files can be made in " + folder);
  }
  return Status::Ok();
}

/// What the existing files of a test are.
struct Existing {
  uint64_t files = 0;
  uint64_t allocated_bytes = 0;
};

Result<Existing> LookAt(const std::vector<std::string>& files, bool must_exist, uint64_t needed_bytes) {
  Existing existing;
  for (const std::string& file : files) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) {
      if (errno != ENOENT) return Status::FromErrno(errno, "io: -o: " + file);
      if (must_exist) {
        return Status(
            Code::kNotFound,
            "io: " + file + " does not exist: write it first (-w -k), with the same -F, -N, -b and -s");
      }
      continue;
    }
    if (!S_ISREG(info.st_mode)) {
      return Status(Code::kInvalidArgument,
                    "io: -o: " + file + " exists and is not a plain file; choose another name");
    }
    if (must_exist && static_cast<uint64_t>(info.st_size) < needed_bytes) {
      return Status(Code::kInvalidArgument, "io: " + file + " has " +
                                                FormatBytes(static_cast<uint64_t>(info.st_size)) +
                                                ", the test reads " + FormatBytes(needed_bytes) +
                                                ": write it with the same -N, -b and -s, or ask for less");
    }
    ++existing.files;
    existing.allocated_bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return existing;
}

std::string Names(const std::vector<std::string>& files) {
  return files.size() == 1 ? files[0] : files.front() + " … " + files.back();
}

}  // namespace

Result<IoNotes> IoTest::Prepare() {
  Result<IoNotes> notes = LookAtStorage();
  RETURN_IF_ERROR(team_.Agree(notes.status()));
  return notes;
}

Result<IoNotes> IoTest::LookAtStorage() {
  IoNotes notes;
  const std::string folder = FolderOf(options_.file);
  RETURN_IF_ERROR(CheckFolder(folder, options_.write));
  const std::vector<std::string> files = AllFiles(options_);
  Result<Existing> existing = LookAt(files, /*must_exist=*/!options_.write, layout_.file_bytes());
  if (!existing.ok()) return existing.status();

  if (options_.write) {
    struct statvfs fs {};
    if (::statvfs(folder.c_str(), &fs) != 0) return Status::FromErrno(errno, "io: free space of " + folder);
    const uint64_t free = static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize + existing->allocated_bytes;
    if (free < layout_.total_bytes()) {
      const std::string text = "needs " + FormatBytes(layout_.total_bytes()) + " in " + folder + ", " +
                               FormatBytes(free) + " is free";
      if (options_.stonewall_s == 0) {
        return Status(Code::kNoSpace, "io: the test " + text + ": ask for less with -b, -s or -N");
      }
      notes.push_back("without -D the test " + text);
    }
    if (existing->files > 0) {
      notes.push_back(std::to_string(existing->files) + " of the test's files exist (" + Names(files) +
                      "): " +
                      (options_.use_existing ? "they are written into (-E)"
                                             : "they are replaced, as IOR does; -E writes into them"));
    }
  } else if (!options_.keep_files) {
    notes.push_back("the files are removed after the first repetition, as IOR does; -k keeps them");
    if (options_.repetitions > 1) {
      return Status(Code::kInvalidArgument,
                    "io: -i " + std::to_string(options_.repetitions) +
                        " without -w: the files are removed after the first repetition; add -k to keep them");
    }
  }

  const HostInfo host = ReadHostInfo();
  const uint64_t buffers = Pattern::BufferBytes(options_.transfer_bytes) * options_.tasks_per_host;
  if (host.memory_bytes > 0 && buffers > host.memory_bytes / 2) {
    return Status(Code::kInvalidArgument, "io: " + std::to_string(options_.tasks_per_host) +
                                              " tasks with -t " + FormatBytesExact(options_.transfer_bytes) +
                                              " need " + FormatBytes(buffers) +
                                              " of buffers, this host has " + FormatBytes(host.memory_bytes) +
                                              ": use a smaller -t or fewer tasks");
  }
  if (options_.reads() && !options_.direct && !options_.cold_read &&
      layout_.total_bytes() / options_.hosts < host.memory_bytes) {
    notes.push_back(
        "the data (" + FormatBytes(layout_.total_bytes()) + ") fits in this host's memory (" +
        FormatBytes(host.memory_bytes) +
        "): reads may come from the page cache; a larger -b, --odirect or --cold-read measures the storage");
  }
  if (options_.striping.asked) {
    std::string why;
    stripe_ = options_.write && CanStripe(options_.file, why);
    if (!stripe_ && options_.write) notes.push_back("-O: striping is not set: " + why);
  }
  return notes;
}

/// Before a write: old files go (they would not be allocated anew), striped ones are made.
Status IoTest::MakeRoom() {
  if (options_.use_existing) return Status::Ok();
  for (const std::string& file : AllFiles(options_)) {
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) return Status::FromErrno(errno, "removing " + file);
    if (stripe_) RETURN_IF_ERROR(CreateStriped(options_.striping, file));
  }
  return Status::Ok();
}

/// Writes back the files' pages and gives them back to the system, on each host those that its tasks may have
/// left.
Status IoTest::GiveBackPages() {
  for (const std::string& file : AllFiles(options_)) {
    const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return Status::FromErrno(errno, "opening " + file);
    if (::fdatasync(fd.get()) != 0) return Status::FromErrno(errno, "fdatasync of " + file);
    if (const int error = ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
      return Status::FromErrno(error, "giving back the page cache of " + file);
    }
  }
  return Status::Ok();
}

std::string IoTest::Remove() {
  std::string trouble;
  for (const std::string& file : AllFiles(options_)) {
    if (::unlink(file.c_str()) != 0 && errno != ENOENT && trouble.empty()) {
      trouble = Status::FromErrno(errno, file).message();
    }
  }
  return trouble;
}

}  // namespace stoker::bench
