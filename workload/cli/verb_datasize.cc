#include "workload/cli/verb_datasize.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/base/host.h"
#include "workload/data/datasize.h"
#include "workload/report/report.h"
#include "workload/run/storage_probe.h"

namespace stoker::bench {
namespace {

constexpr size_t kProbeFiles = 4096;

/// Of one read call of the run.
uint64_t PieceBytes(const Command& command) {
  return DefaultPieceBytes(*command.profile.format, command.rules.read_shape,
                           command.accelerators * command.profile.read_threads);
}

/// The demand of this many accelerators on a dataset of this size.
Prerun PrerunOf(const Command& command, const Datasize& size) {
  const Profile& profile = command.profile;
  const uint64_t samples = size.files * profile.num_samples_per_file;
  const Demand demand =
      ComputeDemand(profile.record_bytes, profile.batch_size, profile.computation_time, command.accelerators,
                    0, profile.epochs, samples, profile.read_threads, PieceBytes(command));
  Print("Read buffers of run: at most " + FormatBytes(demand.buffer_bytes));
  Prerun out;
  out.bytes_per_s = demand.bytes_per_s;
  out.au_threshold = profile.au;
  out.accelerators = command.accelerators;
  out.best_seconds = size.minutes * 60;
  out.bytes_of_run = static_cast<double>(demand.dataset_bytes) * static_cast<double>(profile.epochs);
  out.links = NetworkLinks();
  return out;
}

/// What lies in `folder`, read as the run would.
Result<ProbeResult> Probe(const Command& command, const std::string& folder, const CancelToken& cancel) {
  ProbeOptions options;
  ASSIGN_OR_RETURN(options.paths, FilesBelow(folder, kProbeFiles));
  options.threads = command.accelerators * command.profile.read_threads;
  options.piece_bytes = PieceBytes(command);
  options.direct = command.rules.read_shape == ReadShape::kODirect;
  return ProbeFiles(options, cancel);
}

}  // namespace

void DatasizeVerb::AddFlags(CLI::App& app) {
  flags_.AddCommon(app);
  flags_.AddAccelerators(app);
  flags_.AddSizing(app);
  app.add_option(
      "--probe", probe_,
      "Folder with files on the storage, e.g. an older dataset: read for 2 s or 512 MiB, and say what "
      "bandwidth there is");
}

Status DatasizeVerb::Check() {
  ASSIGN_OR_RETURN(command_, flags_.Fill());
  if (command_.host_memory_gb != 0) return Status::Ok();
  return {Code::kInvalidArgument,
          "--host-memory-in-gb is missing: the dataset must be larger than the memory of the hosts"};
}

int DatasizeVerb::Run(const CancelToken& cancel) {
  DatasizeInput input = MakeDatasizeInput(command_.profile, command_.rules.datasize, command_.accelerators,
                                          command_.host_memory_gb);
  input.measured_memory_gb = static_cast<double>(ReadHostInfo().memory_bytes) / static_cast<double>(kGiB);
  input.client_hosts = command_.client_hosts;
  const Datasize size = ComputeDatasize(input);
  if (const Status usable = CheckDatasize(size); !usable.ok()) return Fail(usable.message(), kExitUsage);
  std::fputs(DatasizeText(input, size, command_.profile).c_str(), stdout);
  Prerun prerun = PrerunOf(command_, size);
  if (!probe_.empty()) {
    Result<ProbeResult> probe = Probe(command_, probe_, cancel);
    if (!probe.ok()) {
      return Fail("--probe: " + probe.status().message() + "; give a folder with files on the storage",
                  kExitUsage);
    }
    prerun.probe = *probe;
    if (const std::optional<MountInfo> mount = MountOf(probe_)) prerun.fstype = mount->fstype;
  }
  for (const std::string& line : PrerunLines(prerun)) Print(line);
  for (const std::string& warning : PrerunWarnings(prerun)) Warn(warning);
  if (cancel.cancelled()) return kExitInterrupted;
  return kExitPass;
}

}  // namespace stoker::bench
