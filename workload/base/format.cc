#include "workload/base/format.h"

#include <charconv>
#include <set>

#include "workload/base/name_table.h"

namespace stoker::bench {
namespace {

constexpr NameTable<Format, 4> kFormats{{{Format::kNpz, "npz"},
                                         {Format::kTfRecord, "tfrecord"},
                                         {Format::kJpeg, "jpeg"},
                                         {Format::kParquet, "parquet"}}};
constexpr NameTable<Framework, 2> kFrameworks{
    {{Framework::kPyTorch, "pytorch"}, {Framework::kTensorFlow, "tensorflow"}}};
constexpr NameTable<Shuffle, 3> kShuffles{
    {{Shuffle::kOff, "off"}, {Shuffle::kSeed, "seed"}, {Shuffle::kRandom, "random"}}};
constexpr NameTable<DataType, 9> kTypes{{{DataType::kInt8, "int8"},
                                         {DataType::kUint8, "uint8"},
                                         {DataType::kFloat16, "float16"},
                                         {DataType::kInt32, "int32"},
                                         {DataType::kUint32, "uint32"},
                                         {DataType::kFloat32, "float32"},
                                         {DataType::kInt64, "int64"},
                                         {DataType::kUint64, "uint64"},
                                         {DataType::kFloat64, "float64"}}};

/// The fixed list of a wide vector: more is a slip, and would leave the range of a page.
constexpr uint64_t kMaxColumnSize = 100'000'000;
constexpr size_t kMaxColumns = 100'000;

bool Separates(char c) {
  return c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

Result<Column> ParseColumn(std::string_view key, std::string_view text) {
  const std::string what = std::string(key) + ": column \"" + std::string(text) + "\": ";
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) {
    return Status(Code::kInvalidArgument, what + "is not of the form NAME:TYPE[*SIZE][:skip]");
  }
  Column column;
  column.name = text.substr(0, colon);
  std::string_view type = text.substr(colon + 1);
  if (const size_t more = type.find(':'); more != std::string_view::npos) {
    if (type.substr(more + 1) != "skip") {
      return Status(Code::kInvalidArgument,
                    what + "\"" + std::string(type.substr(more + 1)) + "\" can only be \"skip\"");
    }
    column.read = false;
    type = type.substr(0, more);
  }
  if (const size_t star = type.find('*'); star != std::string_view::npos) {
    const std::string_view size = type.substr(star + 1);
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), column.size);
    if (error != std::errc() || end != size.data() + size.size() || column.size == 0 ||
        column.size > kMaxColumnSize) {
      return Status(Code::kInvalidArgument, what + "size \"" + std::string(size) +
                                                "\" is not a whole number from 1 to " +
                                                std::to_string(kMaxColumnSize));
    }
    type = type.substr(0, star);
  }
  ASSIGN_OR_RETURN(column.type, ParseName(kTypes, what + "type", type));
  return column;
}

}  // namespace

Result<Format> ParseFormat(std::string_view flag, std::string_view text) {
  return ParseName(kFormats, flag, text);
}
Result<Framework> ParseFramework(std::string_view flag, std::string_view text) {
  return ParseName(kFrameworks, flag, text);
}
Result<Shuffle> ParseShuffle(std::string_view flag, std::string_view text) {
  return ParseName(kShuffles, flag, text);
}

std::string_view Name(Format format) {
  return NameIn(kFormats, format);
}
std::string_view Name(Framework framework) {
  return NameIn(kFrameworks, framework);
}
std::string_view Name(Shuffle shuffle) {
  return NameIn(kShuffles, shuffle);
}
std::string_view Name(DataType type) {
  return NameIn(kTypes, type);
}

uint64_t TypeBytes(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return 1;
    case DataType::kFloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      break;
  }
  return 8;
}

Result<std::vector<Column>> ParseColumns(std::string_view key, std::string_view text) {
  std::vector<Column> columns;
  std::set<std::string> names;
  size_t at = 0;
  while (at < text.size()) {
    if (Separates(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && !Separates(text[end])) ++end;
    ASSIGN_OR_RETURN(Column column, ParseColumn(key, text.substr(at, end - at)));
    if (!names.insert(column.name).second) {
      return Status(Code::kInvalidArgument,
                    std::string(key) + ": two columns are called \"" + column.name + "\"");
    }
    columns.push_back(std::move(column));
    if (columns.size() > kMaxColumns) {
      return Status(Code::kInvalidArgument,
                    std::string(key) + ": more than " + std::to_string(kMaxColumns) + " columns");
    }
    at = end;
  }
  if (columns.empty()) {
    return Status(Code::kInvalidArgument,
                  std::string(key) + ": no column; give NAME:TYPE[*SIZE][:skip], ...");
  }
  return columns;
}

std::string ColumnsText(const std::vector<Column>& columns) {
  std::string out;
  for (const Column& column : columns) {
    if (!out.empty()) out += ", ";
    out += column.name + ":" + std::string(Name(column.type));
    if (column.size != 1) out += "*" + std::to_string(column.size);
    if (!column.read) out += ":skip";
  }
  return out;
}

uint64_t NominalRowBytes(const std::vector<Column>& columns) {
  uint64_t bytes = 0;
  for (const Column& column : columns) {
    uint64_t element = 4;
    if (column.type == DataType::kInt64 || column.type == DataType::kFloat64) element = 8;
    if (column.type == DataType::kUint8) element = 1;
    bytes += element * column.size;
  }
  return bytes;
}

uint64_t ReadRowBytes(const std::vector<Column>& columns) {
  uint64_t bytes = 0;
  for (const Column& column : columns) {
    if (column.read) bytes += TypeBytes(column.type) * column.size;
  }
  return bytes;
}

}  // namespace stoker::bench
