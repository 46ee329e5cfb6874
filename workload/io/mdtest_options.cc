#include "workload/io/mdtest_options.h"

#include "cache/base/units.h"
#include "workload/io/crew.h"

namespace stoker::bench {
namespace {

Status Bad(std::string message) {
  return Status(Code::kInvalidArgument, "mdtest: " + std::move(message));
}

Status CompleteShape(MdtestOptions& options) {
  TreeShape& shape = options.shape;
  shape = {.branch = options.branch, .depth = options.depth, .leaf_only = options.leaf_only};
  if (options.branch == 0)
    return Bad("-b 0: a directory has at least one child; use -z 0 for a tree of one directory");
  const uint64_t dirs = shape.dirs();
  if (dirs == 0) {
    return Bad("-b " + std::to_string(options.branch) + " -z " + std::to_string(options.depth) +
               ": the tree has more than " + std::to_string(TreeShape::kMaxDirs) + " directories");
  }
  const uint64_t holders = dirs - shape.first_item_dir();
  if (options.items == 0 && options.items_per_dir == 0) {
    return Bad("how many items? give -n (of each task) or -I (in each directory)");
  }
  if (options.items > 0 && options.items_per_dir > 0) {
    if (options.own_folder) return Bad("-n and -I exclude each other with -u");
    if (options.stonewall_s > 0) return Bad("-n and -I exclude each other with -W");
    if (options.items % options.items_per_dir != 0) {
      return Bad("-n " + std::to_string(options.items) + " is not a multiple of -I " +
                 std::to_string(options.items_per_dir));
    }
    shape.loops = options.items / options.items_per_dir;
    shape.items_per_dir = options.items_per_dir;
  } else if (options.items > 0) {
    shape.items_per_dir = options.items / holders;
    if (shape.items_per_dir == 0) {
      return Bad("-n " + std::to_string(options.items) + " is less than one item for each of " +
                 std::to_string(holders) + " directories");
    }
  } else {
    shape.items_per_dir = options.items_per_dir;
  }
  uint64_t all = 0;
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (__builtin_mul_overflow(shape.items_per_dir, holders, &all) ||
      __builtin_mul_overflow(all, shape.loops, &all) || __builtin_mul_overflow(all, options.tasks, &all) ||
      all > kMost) {
    return Bad("more than 2^40 items: ask for fewer with -n, -I or --tasks");
  }
  return Status::Ok();
}

}  // namespace

Status CompleteMdtestOptions(MdtestOptions& options) {
  if (!options.create && !options.stat && !options.read && !options.remove) {
    options.create = options.stat = options.read = options.remove = options.rename = true;
  }
  if (!options.files && !options.dirs) options.files = options.dirs = true;
  if (options.folder.empty()) return Bad("-d: the folder's name is empty");
  if (options.tasks == 0 || options.tasks > kMaxTasks) {
    return Bad("--tasks " + std::to_string(options.tasks) + ": from 1 to " + std::to_string(kMaxTasks));
  }
  if (options.iterations == 0) return Bad("-i 0: at least one iteration is needed");
  RETURN_IF_ERROR(CompleteShape(options));
  if (options.read && !options.files && !options.create)
    return Bad("-E reads files, and -D leaves none: leave out -D");
  if (options.create && options.read && options.read_bytes > options.write_bytes) {
    return Bad("-e " + std::to_string(options.read_bytes) + " reads more than the -w " +
               std::to_string(options.write_bytes) + " bytes that are written to each file");
  }
  if ((options.verify) && options.read_bytes == 0) return Bad("-X compares what -e bytes reads: add -e");
  if (options.stonewall_s > 0 && !options.create)
    return Bad("-W ends the creation, and nothing is created: add -C");
  if (options.stonewall_s > 0 && options.depth > 0 && options.branch > 1) {
    return Bad("-W works with -b 1 only, as in mdtest");
  }
  if (options.random_seed != 0 && !options.random) return Bad("--random-seed has no use without -R");
  return Status::Ok();
}

}  // namespace stoker::bench
