#pragma once

#include <memory>
#include <string>

#include "cache/base/result.h"
#include "workload/comm/transport.h"

namespace stoker::bench {

/// Loads the module at `path` (mpi_module.h) and begins MPI; waits for the other processes as MPI_Init does.
/// Once per process. kUnavailable: the module or the library behind it cannot be loaded or does not begin;
/// the message has the loader's words.
Result<std::unique_ptr<Transport>> OpenMpi(const std::string& path);

}  // namespace stoker::bench
