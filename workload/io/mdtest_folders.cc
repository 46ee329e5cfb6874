// The metadata test's dealings with its folders outside the timed phases.

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <cerrno>
#include <filesystem>

#include "cache/base/units.h"
#include "workload/io/mdtest.h"

namespace stoker::bench {
namespace {

bool Exists(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace

Status Mdtest::Prepare() {
  return team_.Agree(LookAtFolder());
}

Status Mdtest::LookAtFolder() {
  struct stat info {};
  const bool there = ::stat(options_.folder.c_str(), &info) == 0;
  if (there && !S_ISDIR(info.st_mode)) {
    return Status(Code::kNotADirectory, "mdtest: -d: " + options_.folder + " is not a folder");
  }
  if (!there && errno != ENOENT) return Status::FromErrno(errno, "mdtest: -d: " + options_.folder);
  if (!options_.create) return CheckItemsExist(0);

  const std::string parent = std::filesystem::path(options_.folder).parent_path().string();
  const std::string where = there ? options_.folder : parent.empty() ? std::string(".") : parent;
  if (::access(where.c_str(), W_OK | X_OK) != 0) {
    return Status::FromErrno(errno, "mdtest: -d: nothing can be made in " + where);
  }
  for (uint64_t i = 0; there && i < options_.iterations; ++i) {
    for (const std::string& root : Roots(i)) {
      if (!Exists(root)) continue;
      return Status(Code::kAlreadyExists, "mdtest: " + root +
                                              " exists, left by an earlier run: remove it (-r with that "
                                              "run's options), or choose another folder with -d");
    }
  }
  const uint64_t items = options_.shape.items() * options_.tasks;
  struct statvfs fs {};
  if (::statvfs(where.c_str(), &fs) != 0) return Status::FromErrno(errno, "mdtest: free space of " + where);
  uint64_t needed = 0;
  if (__builtin_mul_overflow(items, options_.write_bytes, &needed)) needed = UINT64_MAX;
  const uint64_t free = static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize;
  if (options_.files && options_.stonewall_s == 0 && needed > free) {
    return Status(Code::kNoSpace, "mdtest: the files need " + FormatBytes(needed) + " in " + where + ", " +
                                      FormatBytes(free) + " is free: ask for less with -n, -I or -w");
  }
  // File systems that make inodes as they need them say 0.
  if (fs.f_files > 0 && options_.stonewall_s == 0 && items > fs.f_favail) {
    return Status(Code::kNoSpace, "mdtest: " + std::to_string(items) + " items are more than the " +
                                      std::to_string(fs.f_favail) + " inodes that are free in " + where +
                                      ": ask for fewer with -n or -I");
  }
  return Status::Ok();
}

Status Mdtest::CheckItemsExist(uint64_t iteration) const {
  const std::vector<std::string> roots = Roots(iteration);
  const ItemPlaces places(options_.shape);
  const bool files = options_.files;
  for (const uint64_t task : {uint64_t{0}, options_.tasks - 1}) {
    const std::vector<std::string> dirs = TreePaths(options_.shape, TreeBase(task));
    ItemPath path(roots, dirs, (files ? "file.mdtest." : "dir.mdtest.") + std::to_string(task) + ".");
    for (const uint64_t item : {uint64_t{0}, options_.shape.items() - 1}) {
      const std::string one = path.Of(places.Of(item));
      struct stat info {};
      if (::lstat(one.c_str(), &info) != 0) {
        return Status(Code::kNotFound,
                      "mdtest: " + one +
                          " is not there: make the items first (-C), with the same -n, -I, -b, -z, "
                          "-L, -u, -F, -D and --tasks");
      }
      if (files && options_.read && static_cast<uint64_t>(info.st_size) < options_.read_bytes) {
        return Status(Code::kInvalidArgument, "mdtest: " + one + " has " + std::to_string(info.st_size) +
                                                  " bytes, -e asks for " +
                                                  std::to_string(options_.read_bytes));
      }
    }
  }
  return Status::Ok();
}

Status Mdtest::MakeFolders(uint64_t iteration) {
  if (::mkdir(options_.folder.c_str(), 0775) == 0) {
    made_folder_ = true;
  } else if (errno != EEXIST) {
    return Status::FromErrno(errno, "making directory " + options_.folder);
  }
  for (const std::string& root : Roots(iteration)) {
    if (::mkdir(root.c_str(), 0775) != 0) return Status::FromErrno(errno, "making directory " + root);
    made_.push_back(root);
  }
  return Status::Ok();
}

Status Mdtest::RemoveFolders(uint64_t iteration) {
  for (const std::string& root : Roots(iteration)) {
    if (::rmdir(root.c_str()) != 0) return Status::FromErrno(errno, "removing directory " + root);
    std::erase(made_, root);
  }
  return Status::Ok();
}

void Mdtest::RemoveMade(MdOutcome& outcome) {
  for (const std::string& root : made_) {
    std::error_code error;
    std::filesystem::remove_all(root, error);
    if (error && outcome.not_removed.empty()) outcome.not_removed = root + ": " + error.message();
  }
  made_.clear();
}

}  // namespace stoker::bench
