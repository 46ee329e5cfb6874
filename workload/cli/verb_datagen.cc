#include "workload/cli/verb_datagen.h"

#include <cstdio>

#include "workload/base/console.h"
#include "workload/data/datagen.h"

namespace stoker::bench {

void DatagenVerb::AddFlags(CLI::App& app) {
  flags_.AddCommon(app);
  flags_.AddData(app);
  flags_.AddWriting(app);
}

Status DatagenVerb::Check() {
  ASSIGN_OR_RETURN(command_, flags_.Fill());
  return NeedData(command_);
}

int DatagenVerb::Run(const CancelToken& cancel) {
  DatagenOptions options;
  options.dataset = MakeDataset(command_.profile, command_.data_dir, command_.rules.file_layout);
  options.dataset.seed = command_.seed;
  options.writers = command_.writers;
  options.progress = stdout;
  const Result<DatagenOutcome> outcome = GenerateDataset(options, cancel);
  if (!outcome.ok()) {
    const Status& status = outcome.status();
    if (status.code() == Code::kCancelled) return Fail(status.message(), kExitInterrupted);
    const bool before_work = status.code() == Code::kInvalidArgument || status.code() == Code::kBusy ||
                             (status.code() == Code::kNoSpace && status.os_errno() == 0);
    return Fail(status.message(), before_work ? kExitUsage : kExitError);
  }
  Print("dataset: " + std::to_string(outcome->files_written + outcome->files_kept) + " files in " +
        options.dataset.folder + "/train (" + std::to_string(outcome->files_written) + " written, " +
        std::to_string(outcome->files_kept) + " already there)");
  return kExitPass;
}

}  // namespace stoker::bench
