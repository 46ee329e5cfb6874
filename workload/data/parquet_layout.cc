#include "workload/data/parquet_layout.h"

#include <algorithm>
#include <utility>

#include "cache/base/check.h"
#include "cache/base/units.h"
#include "workload/data/thrift_compact.h"

namespace stoker::bench {
namespace {

// Numbers of parquet-format's parquet.thrift.
enum PhysicalType : int32_t { kInt32 = 1, kInt64 = 2, kFloat = 4, kDouble = 5, kFixedLen = 7 };
enum ConvertedType : int32_t { kNone = -1, kList = 3, kU8 = 11, kU32 = 13, kU64 = 14, kI8 = 15 };
enum Encoding : int32_t { kPlain = 0, kRle = 3, kRleDictionary = 8 };
enum PageType : int32_t { kDataPage = 0, kDictionaryPage = 2 };
enum Repetition : int32_t { kRequired = 0, kRepeated = 2 };
constexpr int16_t kLogicalFloat16 = 15;  // field of the union LogicalType

/// Values of a page; a longer row is a page of its own. What the public tool's writer aims at, too.
constexpr uint64_t kPageTarget = kMiB;
constexpr uint64_t kDictionaryValues = 256;
constexpr char kCreatedBy[] = "stoker-bench";

PhysicalType Physical(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return kFloat;
    case DataType::kFloat64:
      return kDouble;
    case DataType::kFloat16:
      return kFixedLen;
    case DataType::kInt64:
    case DataType::kUint64:
      return kInt64;
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kInt32:
    case DataType::kUint32:
      break;
  }
  return kInt32;
}

ConvertedType Converted(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return kI8;
    case DataType::kUint8:
      return kU8;
    case DataType::kUint32:
      return kU32;
    case DataType::kUint64:
      return kU64;
    default:
      return kNone;
  }
}

bool HasDictionary(DataType type) {
  return TypeBytes(type) == 1;
}

template <typename T>
void PutLittle(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

/// `count` times the same level (0 or 1) in the RLE half of parquet's RLE/bit-packed hybrid.
void PutRun(std::string& out, uint64_t count, char level) {
  PutVarint(out, count << 1);
  out.push_back(level);
}

/// Repetition levels (0 starts a row) and definition levels (1: present) of `rows` lists, each after its
/// length.
std::string ListLevels(uint64_t rows, uint64_t size) {
  std::string repetition;
  for (uint64_t row = 0; row < rows; ++row) {
    PutRun(repetition, 1, 0);
    PutRun(repetition, size - 1, 1);
  }
  std::string definition;
  PutRun(definition, rows * size, 1);
  std::string out;
  PutLittle(out, static_cast<uint32_t>(repetition.size()));
  out += repetition;
  PutLittle(out, static_cast<uint32_t>(definition.size()));
  return out + definition;
}

std::string PageHeader(PageType type, uint64_t bytes, uint64_t values, Encoding encoding) {
  std::string out;
  CompactWriter writer(out);
  writer.BeginItem();
  writer.I32(1, type);
  writer.I32(2, static_cast<int32_t>(bytes));  // uncompressed
  writer.I32(3, static_cast<int32_t>(bytes));  // stored
  writer.BeginStruct(type == kDataPage ? 5 : 7);
  writer.I32(1, static_cast<int32_t>(values));
  writer.I32(2, encoding);
  if (type == kDataPage) {
    writer.I32(3, kRle);  // definition levels
    writer.I32(4, kRle);  // repetition levels
  }
  writer.EndStruct();
  writer.EndStruct();
  return out;
}

/// All 256 values, each index its own value's low byte.
ParquetPage DictionaryPage(DataType type) {
  std::string values;
  for (uint64_t i = 0; i < kDictionaryValues; ++i) {
    const int32_t value = type == DataType::kInt8 ? static_cast<int8_t>(i) : static_cast<int32_t>(i);
    PutLittle(values, static_cast<uint32_t>(value));
  }
  ParquetPage page;
  page.head = PageHeader(kDictionaryPage, values.size(), kDictionaryValues, kPlain) + values;
  return page;
}

ParquetPage DataPage(const Column& column, uint64_t rows) {
  const uint64_t values = rows * column.size;
  std::string before = column.size > 1 ? ListLevels(rows, column.size) : "";
  ParquetPage page;
  page.type = column.type;
  page.value_bytes = values * TypeBytes(column.type);
  if (HasDictionary(column.type)) {
    // Indices of 8 bits, bit-packed in groups of eight: the made-up bytes themselves.
    const uint64_t groups = CeilDiv(values, 8);
    before.push_back(8);
    PutVarint(before, groups << 1 | 1);
    page.value_bytes = groups * 8;
  }
  page.head = PageHeader(kDataPage, before.size() + page.value_bytes, values,
                         HasDictionary(column.type) ? kRleDictionary : kPlain) +
              before;
  return page;
}

void WriteElement(CompactWriter& writer, const std::string& name, DataType type) {
  writer.BeginItem();
  writer.I32(1, Physical(type));
  if (Physical(type) == kFixedLen) writer.I32(2, static_cast<int32_t>(TypeBytes(type)));
  writer.I32(3, kRequired);
  writer.Binary(4, name);
  if (Converted(type) != kNone) writer.I32(6, Converted(type));
  if (type == DataType::kFloat16) {
    writer.BeginStruct(10);
    writer.BeginStruct(kLogicalFloat16);
    writer.EndStruct();
    writer.EndStruct();
  }
  writer.EndStruct();
}

void WriteGroup(CompactWriter& writer, const std::string& name, int32_t repetition, int32_t children,
                ConvertedType converted) {
  writer.BeginItem();
  if (repetition >= 0) writer.I32(3, repetition);
  writer.Binary(4, name);
  writer.I32(5, children);
  if (converted != kNone) writer.I32(6, converted);
  writer.EndStruct();
}

void WriteSchema(CompactWriter& writer, const std::vector<Column>& columns) {
  size_t elements = 1;
  for (const Column& column : columns) elements += column.size > 1 ? 3 : 1;
  writer.BeginList(2, ThriftType::kStruct, elements);
  WriteGroup(writer, "schema", -1, static_cast<int32_t>(columns.size()), kNone);
  for (const Column& column : columns) {
    if (column.size == 1) {
      WriteElement(writer, column.name, column.type);
      continue;
    }
    WriteGroup(writer, column.name, kRequired, 1, kList);
    WriteGroup(writer, "list", kRepeated, 1, kNone);
    WriteElement(writer, "element", column.type);
  }
}

/// One column chunk of `bytes` at `offset`, with a dictionary page of `dictionary_bytes` first, or none.
void WriteChunk(CompactWriter& writer, const Column& column, uint64_t rows, uint64_t offset, uint64_t bytes,
                uint64_t dictionary_bytes) {
  writer.BeginItem();
  writer.I64(2, static_cast<int64_t>(offset));
  writer.BeginStruct(3);
  writer.I32(1, Physical(column.type));
  writer.BeginList(2, ThriftType::kI32, dictionary_bytes != 0 ? 3 : 2);
  writer.ItemI32(kPlain);
  writer.ItemI32(kRle);
  if (dictionary_bytes != 0) writer.ItemI32(kRleDictionary);
  writer.BeginList(3, ThriftType::kBinary, column.size > 1 ? 3 : 1);
  writer.ItemBinary(column.name);
  if (column.size > 1) {
    writer.ItemBinary("list");
    writer.ItemBinary("element");
  }
  writer.I32(4, 0);  // not compressed
  writer.I64(5, static_cast<int64_t>(rows * column.size));
  writer.I64(6, static_cast<int64_t>(bytes));
  writer.I64(7, static_cast<int64_t>(bytes));
  writer.I64(9, static_cast<int64_t>(offset + dictionary_bytes));
  if (dictionary_bytes != 0) writer.I64(11, static_cast<int64_t>(offset));
  writer.EndStruct();
  writer.EndStruct();
}

}  // namespace

ParquetLayout::ParquetLayout(std::vector<Column> columns, uint64_t rows, uint64_t row_group_rows)
    : columns_(std::move(columns)),
      rows_(rows),
      group_rows_(row_group_rows),
      groups_(CeilDiv(rows, std::max<uint64_t>(1, row_group_rows))) {
  STOKER_CHECK(!columns_.empty() && rows >= 1 && row_group_rows >= 1);
  end_ = Footer();
  const auto footer_bytes = static_cast<uint32_t>(end_.size());
  PutLittle(end_, footer_bytes);
  end_.append(kParquetMagic, kParquetMagicBytes);
  file_bytes_ = kParquetMagicBytes + end_.size();
  for (const Column& column : columns_) {
    file_bytes_ += ChunkBytes(column, RowsOf(0)) * (groups_ - 1) + ChunkBytes(column, RowsOf(groups_ - 1));
  }
}

uint64_t ParquetLayout::RowsOf(uint64_t group) const {
  return std::min(group_rows_, rows_ - group * group_rows_);
}

uint64_t ParquetLayout::RowsPerPage(const Column& column) const {
  return std::max<uint64_t>(1, kPageTarget / (column.size * TypeBytes(column.type)));
}

uint64_t ParquetLayout::PagesOf(uint64_t group, size_t column) const {
  return CeilDiv(RowsOf(group), RowsPerPage(columns_[column])) +
         (HasDictionary(columns_[column].type) ? 1 : 0);
}

ParquetPage ParquetLayout::Page(uint64_t group, size_t column, uint64_t page) const {
  const Column& which = columns_[column];
  if (HasDictionary(which.type)) {
    if (page == 0) return DictionaryPage(which.type);
    --page;
  }
  const uint64_t per_page = RowsPerPage(which);
  return DataPage(which, std::min(per_page, RowsOf(group) - page * per_page));
}

uint64_t ParquetLayout::ChunkBytes(const Column& column, uint64_t rows) const {
  const auto bytes = [](const ParquetPage& page) { return page.head.size() + page.value_bytes; };
  const uint64_t per_page = RowsPerPage(column);
  uint64_t sum = HasDictionary(column.type) ? bytes(DictionaryPage(column.type)) : 0;
  if (rows >= per_page) sum += rows / per_page * bytes(DataPage(column, per_page));
  if (rows % per_page != 0) sum += bytes(DataPage(column, rows % per_page));
  return sum;
}

std::string ParquetLayout::Footer() const {
  // Chunk sizes of a full row group and of the last one; the footer itself says them for each.
  std::vector<uint64_t> full;
  std::vector<uint64_t> last;
  std::vector<uint64_t> dictionary;
  for (const Column& column : columns_) {
    full.push_back(ChunkBytes(column, RowsOf(0)));
    last.push_back(ChunkBytes(column, RowsOf(groups_ - 1)));
    dictionary.push_back(HasDictionary(column.type) ? DictionaryPage(column.type).head.size() : 0);
  }
  std::string out;
  CompactWriter writer(out);
  writer.BeginItem();
  writer.I32(1, 1);  // version
  WriteSchema(writer, columns_);
  writer.I64(3, static_cast<int64_t>(rows_));
  writer.BeginList(4, ThriftType::kStruct, groups_);
  uint64_t offset = kParquetMagicBytes;
  for (uint64_t group = 0; group < groups_; ++group) {
    const std::vector<uint64_t>& sizes = group + 1 == groups_ ? last : full;
    uint64_t bytes = 0;
    writer.BeginItem();
    writer.BeginList(1, ThriftType::kStruct, columns_.size());
    for (size_t i = 0; i < columns_.size(); ++i) {
      WriteChunk(writer, columns_[i], RowsOf(group), offset + bytes, sizes[i], dictionary[i]);
      bytes += sizes[i];
    }
    writer.I64(2, static_cast<int64_t>(bytes));
    writer.I64(3, static_cast<int64_t>(RowsOf(group)));
    writer.EndStruct();
    offset += bytes;
  }
  writer.Binary(6, kCreatedBy);
  writer.EndStruct();
  return out;
}

}  // namespace stoker::bench
