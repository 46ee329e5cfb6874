#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "workload/comm/communicator.h"

namespace stoker::bench {

/// --mpi. kAuto: as the launcher that started this process wants it; kOff: alone, whoever started it.
enum class MpiChoice : uint8_t { kAuto, kOff, kMpich, kOpenMpi };
Result<MpiChoice> ParseMpiChoice(const std::string& flag, const std::string& text);

/// What the environment says about how this process was started.
struct Launch {
  enum class By : uint8_t {
    kNobody,   // by hand, or by a launcher that started one process only
    kPmi,      // MPICH's mpiexec, srun --mpi=pmi2 and others that speak PMI
    kOpenMpi,  // Open MPI's mpirun, srun --mpi=pmix
    kSrun,     // srun without --mpi: several processes that cannot find each other
  };
  By by = By::kNobody;
  uint64_t rank = 0;
  uint64_t size = 1;  // 0: not told
};
/// `get`: as getenv, "" for what is not set. Pure.
Launch DetectLaunch(const std::function<std::string(const char*)>& get);
/// From this process's environment.
Launch DetectLaunch();

/// Where modules are looked for, first hit wins: ../lib/stoker beside the running program, the configured
/// installation prefix.
std::vector<std::string> ModuleDirs();

/// The communicator of this process: alone when nobody else was started or by kOff, else over MPI.
/// kUnavailable: there are others, but no way to them; the message says what to install. Never alone then:
/// each process would take itself for the whole run.
Result<std::unique_ptr<Communicator>> OpenCommunicator(MpiChoice choice, const Launch& launch,
                                                       const std::vector<std::string>& module_dirs);

}  // namespace stoker::bench
