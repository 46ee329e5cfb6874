#include "workload/cli/mpi_flag.h"

#include <CLI/CLI.hpp>

namespace stoker::bench {

void MpiFlag::AddTo(CLI::App& app) {
  app.add_option(
         "--mpi", text_,
         "How processes of one mpiexec, mpirun or srun find each other: auto (as it started them), mpich, "
         "openmpi; off: each is a run of its own")
      ->capture_default_str();
}

}  // namespace stoker::bench
