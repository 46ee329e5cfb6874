#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"

namespace stoker::bench {

/// Container of the samples. Its name is also the files' extension.
enum class Format : uint8_t {
  kNpz,       // ZIP of NPY arrays (npz.h)
  kTfRecord,  // framed, checksummed records (tfrecord.h)
  kJpeg,      // the public tool's "jpeg": random bytes under that name, no image; nothing decodes it
  kParquet,   // columns in row groups (parquet.h)
};

/// Whose input pipeline a run imitates.
enum class Framework : uint8_t { kPyTorch, kTensorFlow };

/// kRandom: other order in every process; kSeed: fixed by the seed.
enum class Shuffle : uint8_t { kOff, kSeed, kRandom };

/// Element of a parquet column. The list is closed; what is missing is refused by name.
enum class DataType : uint8_t {
  kInt8,
  kUint8,
  kFloat16,
  kInt32,
  kUint32,
  kFloat32,
  kInt64,
  kUint64,
  kFloat64
};

/// One column of a parquet dataset: `size` elements in every row (more than one: a list of fixed length).
struct Column {
  std::string name;
  DataType type = DataType::kFloat32;
  uint64_t size = 1;
  bool read = true;  // false: written, but no reader asks for it
  bool operator==(const Column&) const = default;
};

/// `flag` names the flag or key in the message; kInvalidArgument lists the allowed names and the nearest one.
Result<Format> ParseFormat(std::string_view flag, std::string_view text);
Result<Framework> ParseFramework(std::string_view flag, std::string_view text);
Result<Shuffle> ParseShuffle(std::string_view flag, std::string_view text);

std::string_view Name(Format format);
std::string_view Name(Framework framework);
std::string_view Name(Shuffle shuffle);
std::string_view Name(DataType type);

/// Bytes of one element.
uint64_t TypeBytes(DataType type);

/// Columns as one text: NAME:TYPE[*SIZE][:skip], separated by commas and blanks; "skip": not read.
/// E.g. "t5:float32*524328, id:int64:skip". kInvalidArgument names `key` and the column that is wrong.
Result<std::vector<Column>> ParseColumns(std::string_view key, std::string_view text);
std::string ColumnsText(const std::vector<Column>& columns);

/// Bytes of a row as the public tool counts them when a profile gives no record length: 8 for int64 and
/// float64, 1 for uint8, 4 for everything else, even where fewer are written. Its rounds agree on that.
uint64_t NominalRowBytes(const std::vector<Column>& columns);

/// Bytes of a row as written, without those columns that nobody reads.
uint64_t ReadRowBytes(const std::vector<Column>& columns);

}  // namespace stoker::bench
