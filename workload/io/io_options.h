#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "workload/io/offsets.h"

namespace stoker::bench {

/// Striping that -O asks for; applied only where it can be.
struct LustreStriping {
  bool asked = false;
  int64_t count = 0;        // 0: the file system's default, -1: all targets
  uint64_t size_bytes = 0;  // 0: the file system's default
  int64_t start = -1;       // -1: the file system chooses
};

/// What an I/O test does; names and defaults as IOR's. Plain values.
struct IoOptions {
  std::string file = "testFile";      // -o
  uint64_t tasks = 1;                 // -N
  uint64_t block_bytes = 1 << 20;     // -b
  uint64_t transfer_bytes = 1 << 18;  // -t
  uint64_t segments = 1;              // -s
  uint64_t repetitions = 1;           // -i
  bool file_per_process = false;      // -F
  bool write = false;                 // -w
  bool read = false;                  // -r
  bool check_write = false;           // -W: read back after the write, not timed
  bool check_read = false;            // -R: the read phase compares what it reads
  bool fsync = false;                 // -e: at the end of the write, timed
  bool fsync_per_write = false;       // -Y
  bool shift_tasks = false;           // -C
  bool random_tasks = false;          // -Z
  uint64_t task_offset = 1;           // -Q: of -C
  int64_t random_tasks_seed = 0;      // -X: negative: another draw in each repetition
  bool random_offsets = false;        // -z
  uint64_t stonewall_s = 0;           // -D; 0: none
  bool wear_out = false;              // -O stoneWallingWearOut=1: after -D all go on to where the fastest was
  bool barriers = false;              // -g: between open, transfers and close
  bool keep_files = false;            // -k
  bool keep_files_with_error = false;  // -K
  bool use_existing = false;           // -E
  bool direct = false;                 // --odirect, -B, --posix.odirect
  bool huge_pages = true;              // of the buffers; --no-huge-pages (ours)
  bool cold_read = false;              // --cold-read (ours): give back the files' page cache before reading
  uint64_t delay_s = 0;                // -d: before each phase
  uint64_t max_minutes = 0;            // -T: no repetition begins later
  uint64_t signature = 0;              // -G; 0: another one for each run and repetition
  uint64_t reference_number = 0;       // -A
  uint64_t verbose = 0;                // -v
  LustreStriping striping;
  uint64_t hosts = 1;           // from here on: what the launcher gave us
  uint64_t tasks_per_host = 1;  // on the first host
  uint64_t host_stride = 1;     // tasks between a task and its like on the next host
  std::string json;             // --json

  JobLayout layout() const;
  bool reads() const { return read || check_read; }
};

/// Completes what IOR leaves to defaults (with no phase named, write and read), then checks what can be known
/// without looking at the storage. kInvalidArgument: names flag, value and remedy. Pure.
Status CompleteIoOptions(IoOptions& options);

/// Name of the file that `task` writes: the name itself, or with -F "name.00000003".
std::string TaskFile(const IoOptions& options, uint64_t task);
/// All files of the test: one, or one for each task.
std::vector<std::string> AllFiles(const IoOptions& options);

/// Whose bytes `task` reads in repetition `repetition`: its own; -C: those of task + Q; -Z: a random task's,
/// drawn from -X and the task, so some may be read twice and some not. Pure.
uint64_t ReadsFrom(const IoOptions& options, uint64_t task, uint64_t repetition);
/// Whose bytes `task` compares in the -W phase: with -C those of task + 2, so that neither writer nor reader
/// checks; else its own.
uint64_t ChecksFrom(const IoOptions& options, uint64_t task);

}  // namespace stoker::bench
