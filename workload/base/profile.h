#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"
#include "workload/base/format.h"
#include "workload/base/rules.h"

namespace stoker::bench {

/// One workload on one kind of accelerator under one edition: what a training job would ask of the storage.
/// Plain values; every field but the first four is a dotted key (SetParam), in a profile file or in --param.
struct Profile {
  std::string workload;
  Edition edition = Edition::kV30;
  std::string accelerator;
  std::string division;  // "closed" or "whatif": where the public rules put this pair

  std::optional<Format> format;     // container of the samples
  std::string file_prefix = "img";  // first part of every file name
  std::string data_folder;          // non-empty: the folder that holds train/, whatever --data-dir says
  uint64_t num_files_train = 0;     // files one epoch draws from
  uint64_t num_samples_per_file = 1;
  double record_bytes = 0;         // nominal bytes of one sample; what MB/s figures are computed with
  double record_bytes_stdev = 0;   // nominal; the real files' is smaller by sqrt(2) (dataset.h)
  double record_bytes_resize = 0;  // what a sample is cut to in memory; changes no reading, kept for reports
  uint64_t num_subfolders_train = 0;  // 0 and 1: all files in train/ itself
  std::vector<Column> columns;        // parquet; empty: one column "data" of record_bytes bytes
  uint64_t row_group_rows = 1024;     // parquet: rows of a row group, the unit of reading
  bool record_from_columns = false;   // no record length was given: record_bytes is NominalRowBytes(columns)

  Framework framework = Framework::kPyTorch;  // whose input pipeline a run imitates
  uint64_t batch_size = 1;                    // samples per accelerator and step
  uint64_t read_threads = 1;                  // reading threads per accelerator
  uint64_t prefetch_size = 0;                 // batches; 0 means two per thread, as the framework does
  uint64_t computation_threads = 1;  // TensorFlow: parallel calls of the map step; they touch no storage
  uint64_t transfer_size = 0;        // TensorFlow: bytes of a reader's buffer; 0: its default of 256 KiB
  Shuffle file_shuffle = Shuffle::kOff;
  Shuffle sample_shuffle = Shuffle::kOff;
  uint64_t shuffle_size = 1024;  // TensorFlow: samples in the shuffle buffer
  bool odirect = false;          // same as --read-shape odirect
  uint64_t epochs = 1;
  uint64_t total_training_steps = 0;  // steps of a whole run at most; 0: no limit
  double computation_time = 0;        // seconds the accelerator is busy per step
  double au = 0.90;                   // AU threshold, 0..1
  uint64_t exclude_start_steps = 1;   // steps left out of the AU window (v2.0 and later formulas)
  uint64_t exclude_end_steps = 0;

  /// Dotted keys that --param changed, in order, as written.
  std::vector<std::string> overridden;
};

/// One pair of a workload and an accelerator under an edition, as a profile file lists it.
struct ProfileKey {
  std::string workload;
  Edition edition = Edition::kV30;
  std::string accelerator;
};

/// Where profile files are looked for, first hit wins: `user_dir` if not empty, then
/// ../share/stoker/workloads beside the running program, the source tree it was built from, the configured
/// installation prefix.
std::vector<std::string> ProfileDirs(const std::string& user_dir);
/// kInvalidArgument: --profiles-dir was given and is not a folder; the built-in profiles would be taken
/// without a word.
Status CheckProfilesDir(const std::string& user_dir);

/// Reads WORKLOAD.yaml from the first directory that has one and takes the part for `edition` and
/// `accelerator` (empty: the edition's default). kInvalidArgument: no such workload, edition or accelerator
/// (the message lists what there is), an unknown key (with the nearest one), or a bad value, with file and
/// key. Any thread.
Result<Profile> LoadProfile(const std::vector<std::string>& dirs, const std::string& workload,
                            Edition edition, const std::string& accelerator);

/// Every pair that the files in `dirs` list, by workload, edition, accelerator; a file hides those of the
/// same name in later directories. kInvalidArgument: a file that cannot be read as a profile, or none at all.
Result<std::vector<ProfileKey>> ListProfiles(const std::vector<std::string>& dirs);

/// Sets one dotted key, e.g. "reader.batch_size" to "7". Both spellings of a key that was renamed between
/// editions are known. kInvalidArgument: unknown key (with the nearest one) or a value out of range.
Status SetParam(Profile& profile, std::string_view key, std::string_view value);

/// Splits "key=value" as given to --param, and sets it.
Status ApplyParam(Profile& profile, std::string_view assignment);

/// Every key with its effective value, in the order of the public configuration files: [key, value].
std::vector<std::pair<std::string, std::string>> EffectiveParams(const Profile& profile);

/// Checks what single keys cannot: kInvalidArgument when the profile lacks a figure it needs.
Status CheckProfile(const Profile& profile);

}  // namespace stoker::bench
