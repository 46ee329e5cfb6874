#pragma once

#include <cstdint>
#include <string>

#include "cache/base/status.h"
#include "workload/io/item_tree.h"

namespace stoker::bench {

/// What a metadata test does; letters as mdtest's. Plain values.
struct MdtestOptions {
  std::string folder = "out";        // -d
  uint64_t tasks = 1;                // --tasks
  uint64_t items = 0;                // -n: of each task; 0: from -I
  uint64_t items_per_dir = 0;        // -I; 0: from -n
  uint64_t branch = 1;               // -b
  uint64_t depth = 0;                // -z
  bool leaf_only = false;            // -L
  bool files = false;                // -F
  bool dirs = false;                 // -D
  bool create = false;               // -C
  bool stat = false;                 // -T
  bool read = false;                 // -E
  bool remove = false;               // -r
  bool rename = false;               // of directories; only when no phase is named
  uint64_t write_bytes = 0;          // -w
  uint64_t read_bytes = 0;           // -e
  bool verify = false;               // -X: compare what is read
  bool own_folder = false;           // -u: a tree for each task
  uint64_t stride = 0;               // -N: stat items of task + N, read those of + 2N, remove those of + 3N
  uint64_t iterations = 1;           // -i
  bool random = false;               // -R: stat and read in random order
  uint64_t random_seed = 0;          // --random-seed; 0: from the clock
  bool fsync = false;                // -y: after writing a file
  bool sync = false;                 // -Y: sync() after each phase, timed
  uint64_t stonewall_s = 0;          // -W: of creation
  uint64_t delay_s = 0;              // -p: before each iteration
  bool print_time = false;           // -Z: seconds instead of rates
  bool print_rate_and_time = false;  // -P
  uint64_t verbose = 0;
  std::string json;

  TreeShape shape;  // filled by CompleteMdtestOptions
};

/// Completes what mdtest leaves to defaults (all phases; files and directories; the tree from -n, -I, -b, -z)
/// and checks what can be known without looking at the storage. kInvalidArgument: names flag, value, remedy.
/// Pure.
Status CompleteMdtestOptions(MdtestOptions& options);

}  // namespace stoker::bench
