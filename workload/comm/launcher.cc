#include "workload/comm/launcher.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "workload/base/rules.h"
#include "workload/comm/message_communicator.h"
#include "workload/comm/mpi_transport.h"

namespace stoker::bench {
namespace {

struct Implementation {
  const char* name;
  const char* module;
  const char* run_package;    // Debian's: what a host needs to run
  const char* build_package;  // what the module is built with
};
constexpr Implementation kMpich{"MPICH", "stoker_mpi_mpich.so", "libmpich12", "libmpich-dev"};
constexpr Implementation kOpenMpi{"Open MPI", "stoker_mpi_openmpi.so", "libopenmpi3", "libopenmpi-dev"};

uint64_t NumberOf(const std::string& text, uint64_t otherwise) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

std::string ByName(Launch::By by) {
  switch (by) {
    case Launch::By::kPmi:
      return "by mpiexec or srun (PMI_RANK is set)";
    case Launch::By::kOpenMpi:
      return "by Open MPI's mpirun or srun --mpi=pmix (PMIX_RANK or OMPI_COMM_WORLD_RANK is set)";
    case Launch::By::kSrun:
      return "by srun without --mpi (SLURM_STEP_NUM_TASKS is set)";
    case Launch::By::kNobody:
      break;
  }
  return "by no MPI launcher";
}

/// "this process is number 2 of 4, started by …".
std::string Started(const Launch& launch) {
  return "this process is number " + std::to_string(launch.rank) +
         (launch.size > 0 ? " of " + std::to_string(launch.size) : "") + ", started " + ByName(launch.by);
}

constexpr char kOrOff[] = "; --mpi off makes every process a run of its own";

Result<std::unique_ptr<Communicator>> Open(const Implementation& mpi, const Launch& launch,
                                           const std::vector<std::string>& dirs) {
  std::string looked;
  for (const std::string& dir : dirs) {
    const std::string path = dir + "/" + mpi.module;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      looked += (looked.empty() ? "" : ", ") + dir;
      continue;
    }
    Result<std::unique_ptr<Transport>> transport = OpenMpi(path);
    if (!transport.ok()) {
      return Status(Code::kUnavailable, transport.status().message() + "; " + Started(launch) +
                                            ", which needs " + mpi.name + " (Debian package " +
                                            mpi.run_package + ") on every host" + kOrOff);
    }
    const uint64_t size = (*transport)->size();
    if (launch.size > 0 && size != launch.size) {
      return Status(Code::kUnavailable,
                    Started(launch) + ", but " + mpi.name + " sees " + std::to_string(size) +
                        ": launcher and --mpi do not fit together; leave --mpi out" + kOrOff);
    }
    if (size == 1) {
      // A launcher that does not say how many there are, and a singleton: nobody else, or nobody reached.
      if (launch.rank != 0) {
        return Status(Code::kUnavailable, Started(launch) + ", but " + mpi.name +
                                              " finds no others: launcher and library do not fit together" +
                                              kOrOff);
      }
    }
    return MakeMessageCommunicator(std::move(*transport));
  }
  return Status(Code::kUnavailable, Started(launch) + ", but " + mpi.module + " is not there (looked in " +
                                        looked + "): install Debian's " + mpi.build_package +
                                        " and build again, or copy the module of a build with it, "
                                        "and " +
                                        mpi.run_package + " on every host" + kOrOff);
}

}  // namespace

Result<MpiChoice> ParseMpiChoice(const std::string& flag, const std::string& text) {
  if (text == "auto") return MpiChoice::kAuto;
  if (text == "off") return MpiChoice::kOff;
  if (text == "mpich") return MpiChoice::kMpich;
  if (text == "openmpi") return MpiChoice::kOpenMpi;
  return Status(Code::kInvalidArgument, NotOneOf(flag, text, {"auto", "off", "mpich", "openmpi"}));
}

Launch DetectLaunch(const std::function<std::string(const char*)>& get) {
  Launch launch;
  const std::string ompi_rank = get("OMPI_COMM_WORLD_RANK");
  const std::string pmix_rank = get("PMIX_RANK");
  const std::string pmi_rank = get("PMI_RANK");
  if (!ompi_rank.empty()) {
    launch = {Launch::By::kOpenMpi, NumberOf(ompi_rank, 0), NumberOf(get("OMPI_COMM_WORLD_SIZE"), 0)};
  } else if (!pmix_rank.empty()) {
    // PMIx itself does not tell the size in the environment; Slurm does.
    const std::string size = get("SLURM_STEP_NUM_TASKS");
    launch = {Launch::By::kOpenMpi, NumberOf(pmix_rank, 0), NumberOf(size, 0)};
  } else if (!pmi_rank.empty()) {
    launch = {Launch::By::kPmi, NumberOf(pmi_rank, 0), NumberOf(get("PMI_SIZE"), 0)};
  } else if (!get("SLURM_STEP_ID").empty() && NumberOf(get("SLURM_STEP_NUM_TASKS"), 1) > 1) {
    launch = {Launch::By::kSrun, NumberOf(get("SLURM_PROCID"), 0), NumberOf(get("SLURM_STEP_NUM_TASKS"), 0)};
  }
  if (launch.size == 1) return {};
  return launch;
}

Launch DetectLaunch() {
  return DetectLaunch([](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  });
}

std::vector<std::string> ModuleDirs() {
  std::vector<std::string> dirs;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) dirs.push_back((self.parent_path().parent_path() / "lib/stoker").string());
  if (dirs.empty() || dirs.front() != STOKER_MODULES_INSTALLED) dirs.emplace_back(STOKER_MODULES_INSTALLED);
  return dirs;
}

Result<std::unique_ptr<Communicator>> OpenCommunicator(MpiChoice choice, const Launch& launch,
                                                       const std::vector<std::string>& module_dirs) {
  if (choice == MpiChoice::kOff || launch.by == Launch::By::kNobody) return MakeSoloCommunicator();
  if (launch.by == Launch::By::kSrun) {
    return Status(Code::kUnavailable, Started(launch) +
                                          ", so the processes cannot find each other: use "
                                          "srun --mpi=pmi2 (MPICH) or --mpi=pmix (Open MPI)" +
                                          kOrOff);
  }
  const bool mpich =
      choice == MpiChoice::kMpich || (choice == MpiChoice::kAuto && launch.by == Launch::By::kPmi);
  return Open(mpich ? kMpich : kOpenMpi, launch, module_dirs);
}

}  // namespace stoker::bench
