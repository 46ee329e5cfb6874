// The test disk and the file system operations on it.
#pragma once

#include <fuse3/fuse_lowlevel.h>

#include <optional>

#include "tests/fault_fs/nodes.h"
#include "tests/fault_fs/rules.h"
#include "tests/fault_fs/write_log.h"

namespace stoker::testing {

struct Disk {
  explicit Disk(int root) : nodes(root) {}
  Nodes nodes;
  Rules rules;
  std::optional<WriteLog> log;
};

/// The operations of a session whose user data is a Disk.
[[nodiscard]] fuse_lowlevel_ops Operations();

}  // namespace stoker::testing
