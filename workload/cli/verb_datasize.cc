#include "workload/cli/verb_datasize.h"

#include <cstdio>

#include "cache/base/units.h"
#include "workload/base/host.h"
#include "workload/data/datasize.h"

namespace stoker::bench {

void DatasizeVerb::AddFlags(CLI::App& app) {
  flags_.AddCommon(app);
  flags_.AddAccelerators(app);
  flags_.AddSizing(app);
}

Status DatasizeVerb::Check() {
  ASSIGN_OR_RETURN(command_, flags_.Fill());
  if (command_.host_memory_gb != 0) return Status::Ok();
  return {Code::kInvalidArgument,
          "--host-memory-in-gb is missing: the dataset must be larger than the memory of the hosts"};
}

int DatasizeVerb::Run(const CancelToken&) {
  DatasizeInput input = MakeDatasizeInput(command_.profile, command_.rules.datasize, command_.accelerators,
                                          command_.host_memory_gb);
  input.measured_memory_gb = static_cast<double>(ReadHostInfo().memory_bytes) / static_cast<double>(kGiB);
  input.client_hosts = command_.client_hosts;
  std::fputs(DatasizeText(input, ComputeDatasize(input), command_.profile).c_str(), stdout);
  return kExitPass;
}

}  // namespace stoker::bench
