#include "workload/io/io_options.h"

#include <algorithm>
#include <cstdio>

#include "cache/base/random.h"
#include "cache/base/units.h"
#include "workload/io/crew.h"

namespace stoker::bench {
namespace {

Status Bad(std::string message) {
  return Status(Code::kInvalidArgument, "io: " + std::move(message));
}

std::string Sized(const char* flag, uint64_t bytes) {
  return std::string(flag) + " " + FormatBytesExact(bytes);
}

Status CheckSizes(const IoOptions& options) {
  constexpr uint64_t kWord = 8;  // what a comparison counts in
  constexpr uint64_t kSector = 512;
  constexpr uint64_t kLargest = uint64_t{1} << 62;  // beyond any file system; keeps sums from overflowing
  if (options.transfer_bytes == 0) return Bad("-t 0: a transfer has at least 8 bytes");
  if (options.block_bytes == 0) return Bad("-b 0: a block has at least one transfer (-t)");
  if (options.segments == 0) return Bad("-s 0: at least one segment is needed");
  if (options.transfer_bytes % kWord != 0) {
    return Bad(Sized("-t", options.transfer_bytes) + ": not a multiple of 8 bytes");
  }
  if (options.block_bytes % options.transfer_bytes != 0) {
    return Bad(Sized("-b", options.block_bytes) + " is not a multiple of " +
               Sized("-t", options.transfer_bytes));
  }
  if (options.direct && options.transfer_bytes % kSector != 0) {
    return Bad(Sized("-t", options.transfer_bytes) +
               ": direct transfers (--odirect) are multiples of 512 bytes");
  }
  uint64_t total = 0;
  if (__builtin_mul_overflow(options.block_bytes, options.segments, &total) ||
      __builtin_mul_overflow(total, options.tasks, &total) || total > kLargest) {
    return Bad(Sized("-b", options.block_bytes) + " x -s " + std::to_string(options.segments) + " x " +
               std::to_string(options.tasks) + " tasks is more than any file system holds");
  }
  return Status::Ok();
}

}  // namespace

JobLayout IoOptions::layout() const {
  return {.tasks = tasks,
          .segments = segments,
          .block_bytes = block_bytes,
          .transfer_bytes = transfer_bytes,
          .file_per_process = file_per_process,
          .random = random_offsets};
}

Status CompleteIoOptions(IoOptions& options) {
  if (!options.write && !options.read && !options.check_write && !options.check_read) {
    options.write = options.read = true;
  }
  if (options.file.empty()) return Bad("-o: the file's name is empty");
  if (options.file.back() == '/')
    return Bad("-o \"" + options.file + "\" names a folder: add the file's name");
  if (options.tasks == 0 || options.tasks > kMaxTasks) {
    return Bad("-N " + std::to_string(options.tasks) + ": from 1 to " + std::to_string(kMaxTasks) + " tasks");
  }
  if (options.repetitions == 0) return Bad("-i 0: at least one repetition is needed");
  RETURN_IF_ERROR(CheckSizes(options));
  if (options.shift_tasks && options.random_tasks) {
    return Bad("-C and -Z both choose whose data is read: give one of them");
  }
  if (options.random_offsets && !options.file_per_process && (options.shift_tasks || options.random_tasks)) {
    return Bad(
        "-z gives every transfer of a shared file to a random task, so -C and -Z have nothing to change: "
        "leave them out, or add -F");
  }
  if (options.check_write && !options.write) {
    return Bad("-W compares what was just written: add -w, or use -R to check files that exist");
  }
  if (options.check_read && !options.write && options.signature == 0) {
    return Bad("-R without -w needs -G N, the signature that the files were written with");
  }
  if (options.use_existing && options.striping.asked) {
    return Bad("-E keeps the files as they are, so their striping (-O lustreStripe…) cannot be changed");
  }
  if (options.wear_out && options.stonewall_s == 0) {
    return Bad("-O stoneWallingWearOut=1 says what happens after -D: add -D seconds");
  }
  if (options.cold_read && !options.reads()) return Bad("--cold-read: nothing is read; add -r");
  return Status::Ok();
}

std::string TaskFile(const IoOptions& options, uint64_t task) {
  if (!options.file_per_process) return options.file;
  char suffix[32];
  std::snprintf(suffix, sizeof suffix, ".%08llu", static_cast<unsigned long long>(task));
  return options.file + suffix;
}

std::vector<std::string> AllFiles(const IoOptions& options) {
  std::vector<std::string> files;
  for (uint64_t task = 0; task < (options.file_per_process ? options.tasks : 1); ++task) {
    files.push_back(TaskFile(options, task));
  }
  return files;
}

uint64_t ReadsFrom(const IoOptions& options, uint64_t task, uint64_t repetition) {
  if (options.shift_tasks) return (task + options.task_offset * options.host_stride) % options.tasks;
  if (options.random_tasks) {
    const int64_t given = options.random_tasks_seed;
    const uint64_t seed =
        given < 0 ? static_cast<uint64_t>(-given) + repetition : static_cast<uint64_t>(given);
    const uint64_t least = std::min(options.task_offset, options.hosts - 1) * options.tasks_per_host;
    const uint64_t on = least + Random(seed * 0x9e3779b97f4a7c15ULL ^ task).Below(options.tasks - least);
    return (task + on) % options.tasks;
  }
  return task;
}

uint64_t ChecksFrom(const IoOptions& options, uint64_t task) {
  return options.shift_tasks ? (task + 2 * options.host_stride) % options.tasks : task;
}

}  // namespace stoker::bench
