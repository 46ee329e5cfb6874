#include "workload/cli/verb_datagen.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "workload/base/console.h"
#include "workload/data/datagen.h"
#include "workload/run/shared_datagen.h"
#include "workload/run/training_team.h"

namespace stoker::bench {

void DatagenVerb::AddFlags(CLI::App& app) {
  flags_.AddCommon(app);
  flags_.AddData(app);
  flags_.AddWriting(app);
  mpi_flag_.AddTo(app);
}

Status DatagenVerb::Check() {
  ASSIGN_OR_RETURN(mpi_, mpi_flag_.Choice());
  ASSIGN_OR_RETURN(command_, flags_.Fill());
  return NeedData(command_);
}

namespace {

/// What the process leaves with; says why on stderr when files are missing.
int Conclude(const Result<DatagenOutcome>& outcome, const std::string& folder) {
  if (!outcome.ok()) {
    const Status& status = outcome.status();
    if (status.code() == Code::kCancelled) return Fail(status.message(), kExitInterrupted);
    const bool before_work = status.code() == Code::kInvalidArgument || status.code() == Code::kBusy ||
                             (status.code() == Code::kNoSpace && status.os_errno() == 0);
    return Fail(status.message(), before_work ? kExitUsage : kExitError);
  }
  Print("dataset: " + std::to_string(outcome->files_written + outcome->files_kept) + " files in " + folder +
        "/train (" + std::to_string(outcome->files_written) + " written, " +
        std::to_string(outcome->files_kept) + " already there)");
  return kExitPass;
}

}  // namespace

int DatagenVerb::Run(const CancelToken& cancel) {
  DatagenOptions options;
  options.dataset = MakeDataset(command_.profile, command_.data_dir, command_.rules.file_layout);
  options.dataset.seed = command_.seed;
  options.writers = command_.writers;
  options.progress = stdout;
  Result<std::unique_ptr<Communicator>> world = OpenCommunicator(mpi_, DetectLaunch(), ModuleDirs());
  if (!world.ok()) return Fail(world.status().message(), kExitUsage);
  TrainingTeam team(std::move(*world));
  if (team.alone()) return Conclude(GenerateDataset(options, cancel), options.dataset.folder);

  SetSpeaker(!team.speaks(), team.speaks() ? "" : team.name() + ": ");
  TrainingTeam::Outcome mine;
  const Status assembled = team.Assemble(command_, false);
  if (!assembled.ok()) {
    mine.exit_status = assembled.message().empty() ? kExitUsage : Fail(assembled.message(), kExitUsage);
  } else {
    Print("datagen: " + std::to_string(team.size()) + " processes (" + team.all().Library() +
          "); the progress is process 0's");
    if (!team.speaks()) options.progress = nullptr;
    const Result<DatagenOutcome> outcome = GenerateTogether(options, team.all(), cancel);
    if (team.speaks()) mine.exit_status = Conclude(outcome, options.dataset.folder);
  }
  std::vector<TrainingTeam::Outcome> none;
  return team.End(mine, none);
}

}  // namespace stoker::bench
