#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/ids.h"

namespace stoker {

/// Which cache directory an object lives on: weighted rendezvous hashing. Every directory draws a number for
/// the object, from its name and the object's id alone, and the lowest draw has it; a directory of twice the
/// weight wins twice as often. Whoever else is there changes nothing about a draw, so adding a directory
/// takes objects to that one only, and removing one moves only its own. The same on every machine and in
/// every run. Constant after construction; any thread.
class Placement {
 public:
  struct Place {
    std::string name;     // the directory's absolute path
    uint64_t weight = 0;  // its capacity in bytes; above 0
  };

  /// REQUIRES: at least one place, with different names.
  explicit Placement(const std::vector<Place>& places);
  /// Index into what it was constructed with.
  size_t Of(const ObjectId& id) const;

 private:
  struct Drawer {
    uint64_t seed;
    double weight;
  };
  std::vector<Drawer> drawers_;
};

}  // namespace stoker
