#pragma once

#include <cstdint>
#include <string>

#include "cache/base/status.h"
#include "workload/base/profile.h"
#include "workload/base/rules.h"

namespace stoker::bench {

/// What the size of a dataset is worked out from.
struct DatasizeInput {
  Edition formula = Edition::kV30;
  uint64_t accelerators = 1;      // over all hosts; v0.5: of one host
  double host_memory_gb = 0;      // one host's, in units of 1024^3 bytes, as declared
  double measured_memory_gb = 0;  // this host's own; only v3.0 looks at it. 0: not known
  uint64_t client_hosts = 1;      // v0.5 sizes each host on its own and ignores it
  uint64_t samples_per_file = 1;
  double record_bytes = 0;
  uint64_t batch_size = 1;
  double computation_time = 0;  // seconds
  uint64_t epochs = 1;
  uint64_t steps = 0;  // steps an epoch must have; 0: the edition's own (StepsPerEpoch)
};

/// Input for a profile on one host; hosts and measured memory are the caller's to add. v0.5 takes the
/// profile's total_training_steps, if it has a limit, in place of its 100 steps.
DatasizeInput MakeDatasizeInput(const Profile& profile, Edition formula, uint64_t accelerators,
                                double host_memory_gb);

struct Datasize {
  uint64_t samples_by_steps = 0;   // what the rule "enough steps" asks for, samples
  uint64_t samples_by_memory = 0;  // what the rule "five times the memory" asks for, samples
  uint64_t files = 0;              // the smallest dataset
  double gigabytes = 0;            // nominal, in units of 1024^3 bytes
  double minutes = 0;              // all epochs, accelerators never waiting
  uint64_t subfolders = 0;         // suggested number; 0: none
};

/// Least steps in one epoch: 100 in v0.5, 500 since.
uint64_t StepsPerEpoch(Edition formula);

/// The formula of the edition, rounding as it does; at least one file. Samples are counted up to 1e15. Pure.
/// REQUIRES record_bytes >= 1.
Datasize ComputeDatasize(const DatasizeInput& input);
/// kInvalidArgument: more samples or files than can be counted or asked for. The figures mean nothing then.
Status CheckDatasize(const Datasize& size);

/// What `datasize` prints: the figures, which rule decided, and the --param line for datagen and run.
std::string DatasizeText(const DatasizeInput& input, const Datasize& size, const Profile& profile);

}  // namespace stoker::bench
