#include "workload/io/item_tree.h"

#include <charconv>
#include <limits>

namespace stoker::bench {

uint64_t TreeShape::dirs() const {
  uint64_t sum = 1;
  uint64_t level = 1;
  for (uint64_t i = 0; i < depth; ++i) {
    if (__builtin_mul_overflow(level, branch, &level) || level > kMaxDirs || sum > kMaxDirs) return 0;
    sum += level;
  }
  return sum > kMaxDirs ? 0 : sum;
}

uint64_t TreeShape::first_item_dir() const {
  if (!leaf_only) return 0;
  uint64_t leaves = 1;
  for (uint64_t i = 0; i < depth; ++i) leaves *= branch;
  return dirs() - leaves;
}

std::vector<std::string> TreePaths(const TreeShape& shape, const std::string& base) {
  std::vector<std::string> paths;
  for (uint64_t dir = 0; dir < shape.dirs(); ++dir) {
    std::string path = dir == 0 ? std::string() : paths[(dir - 1) / shape.branch] + "/";
    path += base + "." + std::to_string(dir);
    paths.push_back(std::move(path));
  }
  return paths;
}

ItemPath::ItemPath(const std::vector<std::string>& roots, const std::vector<std::string>& dirs,
                   std::string prefix)
    : roots_(roots),
      dirs_(dirs),
      prefix_(std::move(prefix)),
      loop_(std::numeric_limits<uint64_t>::max()),
      dir_(std::numeric_limits<uint64_t>::max()) {}

const char* ItemPath::Of(const ItemPlace& place) {
  if (place.loop != loop_ || place.dir != dir_) {
    loop_ = place.loop;
    dir_ = place.dir;
    path_ = roots_[loop_];
    path_ += '/';
    path_ += dirs_[dir_];
    path_ += '/';
    path_ += prefix_;
    stem_ = path_.size();
  }
  constexpr size_t kDigits = 21;
  path_.resize(stem_ + kDigits);
  char* const number = path_.data() + stem_;
  *std::to_chars(number, number + kDigits - 1, place.number).ptr = '\0';
  return path_.c_str();
}

}  // namespace stoker::bench
