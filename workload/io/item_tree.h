#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stoker::bench {

/// The directory tree of a metadata test and where its items lie; numbering and names are mdtest's. Directory
/// 0 is the root, the children of k are k * branch + 1 … k * branch + branch. Plain values.
struct TreeShape {
  uint64_t branch = 1;         // -b
  uint64_t depth = 0;          // -z
  bool leaf_only = false;      // -L: items only in the deepest directories
  uint64_t items_per_dir = 0;  // -I, or from -n
  uint64_t loops = 1;          // equal trees beside each other (-n and -I together: n / I)

  /// Directories of one tree; 0 when they are more than `kMaxDirs`.
  uint64_t dirs() const;
  /// The first directory that holds items; all behind it do.
  uint64_t first_item_dir() const;
  /// Items of one task in one tree, and in all.
  uint64_t items_per_loop() const { return (dirs() - first_item_dir()) * items_per_dir; }
  uint64_t items() const { return items_per_loop() * loops; }

  static constexpr uint64_t kMaxDirs = 1000000;
};

/// Where item k (0…items()-1) of a task is.
struct ItemPlace {
  uint64_t loop = 0;
  uint64_t dir = 0;
  uint64_t number = 0;  // at the end of its name
};
/// Places of items by number, with the shape's sums taken once. Immutable.
class ItemPlaces {
 public:
  explicit ItemPlaces(const TreeShape& shape)
      : items_per_dir_(shape.items_per_dir),
        per_loop_(shape.items_per_loop()),
        first_dir_(shape.first_item_dir()) {}
  ItemPlace Of(uint64_t item) const {
    const uint64_t in_loop = item % per_loop_;
    return {item / per_loop_, first_dir_ + in_loop / items_per_dir_, first_dir_ * items_per_dir_ + in_loop};
  }

 private:
  uint64_t items_per_dir_;
  uint64_t per_loop_;
  uint64_t first_dir_;
};

/// Path of every directory of a tree below the test's folder, without a slash at the end:
/// "mdtest_tree.0", "mdtest_tree.0/mdtest_tree.1", … `base`: "mdtest_tree", or with -u "mdtest_tree.7".
/// Parents come before their children.
std::vector<std::string> TreePaths(const TreeShape& shape, const std::string& base);

/// Builds the paths of one task's items one after the other in memory of its own: what the previous path had
/// in common with the next is kept, nothing is allocated. One thread.
class ItemPath {
 public:
  /// `roots`: [loops], the trees' folders. `prefix`: of the names, e.g. "file.mdtest.3.". Both and `dirs`
  /// must outlive this.
  ItemPath(const std::vector<std::string>& roots, const std::vector<std::string>& dirs, std::string prefix);
  /// Valid until the next call.
  const char* Of(const ItemPlace& place);

 private:
  const std::vector<std::string>& roots_;
  const std::vector<std::string>& dirs_;
  const std::string prefix_;
  std::string path_;
  size_t stem_ = 0;  // bytes of path_ before the number
  uint64_t loop_;
  uint64_t dir_;
};

}  // namespace stoker::bench
