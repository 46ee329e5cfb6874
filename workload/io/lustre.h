#pragma once

#include <string>

#include "cache/base/status.h"
#include "workload/io/io_options.h"

namespace stoker::bench {

/// Whether striping can be set for `file`: its folder is on Lustre and the `lfs` command exists. Otherwise
/// `why` says what is missing.
bool CanStripe(const std::string& file, std::string& why);

/// The command that creates `file` with the striping, e.g. lfs setstripe -c 4 FILE. Pure.
std::vector<std::string> StripeCommand(const LustreStriping& striping, const std::string& file);

/// Creates `file`, which must not exist, with the striping. kIo: lfs failed; its status is in the message.
Status CreateStriped(const LustreStriping& striping, const std::string& file);

}  // namespace stoker::bench
