#include "workload/data/parquet.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "workload/data/thrift_compact.h"

namespace stoker::bench {
namespace {

Status Damaged(const std::string& what) {
  return Status(Code::kCorruption, "not a readable parquet file: " + what);
}

/// Field numbers: parquet-format, parquet.thrift.
struct Chunk {
  std::string_view column;
  int64_t codec = 0;
  int64_t bytes = 0;
  int64_t data_offset = 0;
  int64_t dictionary_offset = 0;
  bool elsewhere = false;
  bool described = false;
};

void ReadColumnMetaData(CompactReader& in, Chunk& chunk) {
  int16_t field;
  ThriftType type;
  chunk.described = true;
  in.BeginStruct();
  while (in.NextField(field, type)) {
    if (field == 3 && type == ThriftType::kList) {
      ThriftType item;
      const uint64_t parts = in.BeginList(item);
      for (uint64_t i = 0; in.ok() && i < parts; ++i) {
        const std::string_view part = in.Binary();
        if (i == 0) chunk.column = part;
      }
    } else if (field == 4 && type == ThriftType::kI32) {
      chunk.codec = in.Int();
    } else if (field == 7 && type == ThriftType::kI64) {
      chunk.bytes = in.Int();
    } else if (field == 9 && type == ThriftType::kI64) {
      chunk.data_offset = in.Int();
    } else if (field == 11 && type == ThriftType::kI64) {
      chunk.dictionary_offset = in.Int();
    } else {
      in.Skip(type);
    }
  }
}

Chunk ReadColumnChunk(CompactReader& in) {
  Chunk chunk;
  int16_t field;
  ThriftType type;
  in.BeginStruct();
  while (in.NextField(field, type)) {
    if (field == 1 && type == ThriftType::kBinary) {
      in.Binary();
      chunk.elsewhere = true;
    } else if (field == 3 && type == ThriftType::kStruct) {
      ReadColumnMetaData(in, chunk);
    } else {
      in.Skip(type);
    }
  }
  return chunk;
}

Status AddChunk(const Chunk& chunk, uint64_t column, uint64_t end, ParquetFooter& out) {
  if (chunk.elsewhere) return Status(Code::kUnsupported, "a parquet file whose columns lie in other files");
  if (!chunk.described) return Damaged("a column chunk without metadata");
  if (chunk.codec != 0) {
    return Status(Code::kUnsupported, "a compressed parquet column; samples must be stored");
  }
  const std::string name(chunk.column);
  if (out.group_rows.empty()) {
    out.columns.push_back(name);
  } else if (column >= out.columns.size() || out.columns[column] != name) {
    return Damaged("row groups with different columns");
  }
  const int64_t begin = chunk.dictionary_offset > 0 && chunk.dictionary_offset < chunk.data_offset
                            ? chunk.dictionary_offset
                            : chunk.data_offset;
  if (begin < 0 || chunk.bytes < 0 || static_cast<uint64_t>(begin) > end ||
      static_cast<uint64_t>(chunk.bytes) > end - static_cast<uint64_t>(begin)) {
    return Damaged("column " + name + " lies outside the file");
  }
  out.ranges.push_back({static_cast<uint64_t>(begin), static_cast<uint64_t>(begin + chunk.bytes)});
  return Status::Ok();
}

/// `end`: where the footer begins; all chunks lie before it.
Status ReadRowGroup(CompactReader& in, uint64_t end, ParquetFooter& out) {
  int16_t field;
  ThriftType type;
  int64_t rows = -1;
  uint64_t chunks = 0;
  in.BeginStruct();
  while (in.NextField(field, type)) {
    if (field == 1 && type == ThriftType::kList) {
      ThriftType item;
      chunks = in.BeginList(item);
      for (uint64_t i = 0; in.ok() && i < chunks; ++i) {
        const Chunk chunk = ReadColumnChunk(in);
        if (!in.ok()) break;
        RETURN_IF_ERROR(AddChunk(chunk, i, end, out));
      }
    } else if (field == 3 && type == ThriftType::kI64) {
      rows = in.Int();
    } else {
      in.Skip(type);
    }
  }
  if (!in.ok()) return Damaged("cut footer");
  if (rows < 0) return Damaged("a row group without a number of rows");
  out.group_rows.push_back(static_cast<uint64_t>(rows));
  if (chunks != out.columns.size() || out.ranges.size() != out.group_rows.size() * out.columns.size()) {
    return Damaged("row groups with different columns");
  }
  return Status::Ok();
}

}  // namespace

Result<uint64_t> ParseParquetTail(std::span<const std::byte> tail, uint64_t file_bytes) {
  if (tail.size() < kParquetTailBytes ||
      std::memcmp(tail.data() + 4, kParquetMagic, kParquetMagicBytes) != 0) {
    return Damaged("it does not end in PAR1");
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < 4; ++i) bytes |= static_cast<uint64_t>(tail[i]) << (8 * i);
  if (file_bytes < kParquetMagicBytes + kParquetTailBytes ||
      bytes > file_bytes - kParquetMagicBytes - kParquetTailBytes) {
    return Damaged("its footer is longer than the file");
  }
  return bytes;
}

Result<ParquetFooter> ParseParquetFooter(std::span<const std::byte> footer, uint64_t file_bytes) {
  if (footer.size() + kParquetTailBytes > file_bytes) return Damaged("its footer is longer than the file");
  const uint64_t end = file_bytes - kParquetTailBytes - footer.size();
  CompactReader in(footer);
  ParquetFooter out;
  int64_t rows = -1;
  int16_t field;
  ThriftType type;
  in.BeginStruct();
  while (in.NextField(field, type)) {
    if (field == 3 && type == ThriftType::kI64) {
      rows = in.Int();
    } else if (field == 4 && type == ThriftType::kList) {
      ThriftType item;
      const uint64_t groups = in.BeginList(item);
      for (uint64_t i = 0; in.ok() && i < groups; ++i) {
        RETURN_IF_ERROR(ReadRowGroup(in, end, out));
        if (i == 0) {
          // As many as the rest of the footer can hold, whatever the list says.
          const uint64_t likely = std::min<uint64_t>(groups, footer.size());
          out.group_rows.reserve(likely);
          out.ranges.reserve(std::min<uint64_t>(likely * out.columns.size(), footer.size()));
        }
      }
    } else {
      in.Skip(type);
    }
  }
  if (!in.ok()) return Damaged("cut footer");
  uint64_t sum = 0;
  for (const uint64_t group : out.group_rows) sum += group;
  if (rows < 0 || sum != static_cast<uint64_t>(rows))
    return Damaged("the rows of its row groups do not add up");
  out.rows = sum;
  return out;
}

}  // namespace stoker::bench
