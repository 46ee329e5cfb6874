#pragma once

#include "cache/base/cancel.h"
#include "cache/base/result.h"
#include "workload/comm/communicator.h"
#include "workload/data/datagen.h"

namespace stoker::bench {

/// Makes the dataset together with the other processes: each writes its part; the first error or interruption
/// anywhere ends all. Then each looks whether it sees all files. Collective. At process 0 the outcome is the
/// sum, and errors are GenerateDataset()'s, with the name of the process in front, and kInvalidArgument when
/// the folder is not shared; elsewhere errors may be of other kinds, and need not be told.
Result<DatagenOutcome> GenerateTogether(DatagenOptions options, Communicator& all, const CancelToken& cancel);

}  // namespace stoker::bench
