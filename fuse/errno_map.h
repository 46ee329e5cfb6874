#pragma once

#include "cache/base/log.h"
#include "cache/base/status.h"

namespace stoker {

/// The errno (positive, never 0) that the kernel is told for a failure: the one place where a Status becomes
/// an errno. The operating system's own errno is kept where it means the same to the application; values that
/// the kernel takes for something else are replaced: ENOSYS (it would never ask for that operation again),
/// and kernel-internal numbers ≥ 512 (it would drop the reply). REQUIRES !status.ok().
int ToErrno(const Status& status);

/// How loud a failed request is: answers that applications provoke every day are kDebug, the storage's
/// troubles kWarn, broken assumptions of ours kError.
LogLevel LogLevelFor(const Status& status);

}  // namespace stoker
