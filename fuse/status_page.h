#pragma once

#include <string>
#include <vector>

#include "fuse/control_protocol.h"

namespace stoker {

/// One daemon's status for people.
std::string StatusPage(const DaemonStatus& status);
/// Several daemons, a line each.
std::string StatusTable(const std::vector<DaemonStatus>& statuses);

}  // namespace stoker
