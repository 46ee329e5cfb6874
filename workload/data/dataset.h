#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cache/base/result.h"
#include "workload/base/format.h"
#include "workload/base/profile.h"
#include "workload/base/rules.h"
#include "workload/data/npz.h"
#include "workload/data/parquet_layout.h"

namespace stoker::bench {

/// A dataset as names and sizes, all computable: nothing needs to be listed, and no file's size depends on
/// who writes it, in what order, or how many files there are. Plain values; any thread.
struct Dataset {
  Edition layout = Edition::kV30;
  std::string folder;  // holds train/ and valid/
  std::string prefix = "img";
  Format format = Format::kNpz;
  uint64_t files = 0;  // N in the names
  uint64_t samples_per_file = 1;
  double record_bytes = 0;
  double record_bytes_stdev = 0;
  std::vector<Column> columns;     // parquet: of every file
  uint64_t row_group_rows = 1024;  // parquet
  uint64_t subfolders = 0;
  uint64_t seed = 10;  // of sizes and bytes; the public generator's fixed seed is 10 too

  /// train/[subfolder/]prefix_i_of_N.ext, below `folder`. v0.5 pads nothing and cuts subfolders contiguously;
  /// later editions pad the numbers with zeros and deal files round the subfolders.
  std::string RelativePath(uint64_t file) const;
  std::string Path(uint64_t file) const { return folder + "/" + RelativePath(file); }
  /// Folder `k` of the train files, below `folder`; "train" when there are no subfolders.
  std::string TrainFolder(uint64_t k) const;
  uint64_t train_folders() const { return subfolders > 1 ? subfolders : 1; }

  /// v0.5 writes float64, later editions uint8.
  Element element() const {
    return layout == Edition::kV05 && format != Format::kJpeg ? Element::kFloat64 : Element::kUint8;
  }
  /// The sample's array (parquet without columns: its one column). Two independent normal dimensions, mean
  /// the square root of the record's elements, each with half the relative deviation: the file sizes'
  /// deviation is thus the nominal one / sqrt(2), as in the public tool.
  NpzShape ShapeOf(uint64_t file) const;
  /// The integer square root of the record's elements: ShapeOf's mean side.
  uint64_t NominalSide() const;
  /// parquet: what its files look like; shared by all of them when there are columns.
  std::shared_ptr<const ParquetLayout> ParquetOf(uint64_t file) const;
  /// Size of a file as datagen writes it.
  uint64_t FileBytes(uint64_t file) const;

  /// Set by MakeDataset, so that a layout of many columns is worked out once; may be null.
  std::shared_ptr<const ParquetLayout> shared_parquet;
};

/// Where the files of `profile` lie: --param dataset.data_folder if set, else `data_dir` itself (v0.5, v1.0)
/// or `data_dir`/WORKLOAD (v2.0, v3.0).
std::string DataFolder(const Profile& profile, const std::string& data_dir, Edition layout);
Dataset MakeDataset(const Profile& profile, const std::string& data_dir, Edition layout);

/// Looks whether the files are there before a run reads them: first, last and about a thousand in between
/// (through a slow mount, asking for each would take longer than the run). When the folder holds more files
/// than asked for (names with a larger N), `dataset.files` becomes that N.
/// kNotFound: folder missing, or a file; the message names the first one and the datagen line that makes it.
/// kInvalidArgument: the folder holds fewer files than asked for.
Status FindDataset(Dataset& dataset, const std::string& datagen_command);

}  // namespace stoker::bench
