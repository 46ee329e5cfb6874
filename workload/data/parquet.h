#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "cache/base/units.h"

// Where a reader finds things in a parquet file: it reads the last 8 bytes, then the footer before them, then
// the byte ranges of the column chunks that it wants, row group by row group. No value is decoded.

namespace stoker::bench {

constexpr char kParquetMagic[] = "PAR1";  // at both ends of the file
constexpr size_t kParquetMagicBytes = 4;
constexpr size_t kParquetTailBytes = 8;  // length of the footer (u32, little endian), magic

/// What the footer says about places.
struct ParquetFooter {
  uint64_t rows = 0;
  std::vector<std::string> columns;  // in file order; of nested columns the top-level name
  std::vector<uint64_t> group_rows;  // rows of each row group
  std::vector<ByteRange> ranges;     // [row group][column]: the chunk, with its dictionary page

  size_t groups() const { return group_rows.size(); }
  const ByteRange& RangeOf(size_t group, size_t column) const {
    return ranges[group * columns.size() + column];
  }
};

/// `tail`: the file's last kParquetTailBytes. Returns the bytes of the footer, which ends where the tail
/// begins. kCorruption: no parquet file, or the footer would not fit in `file_bytes`.
Result<uint64_t> ParseParquetTail(std::span<const std::byte> tail, uint64_t file_bytes);

/// `footer`: what lies before the tail. kCorruption: damaged, a chunk outside the file, rows that do not add
/// up. kUnsupported: compressed chunks, chunks in other files. Pure; any thread; about 4 MiB of memory for
/// 150 000 chunks.
Result<ParquetFooter> ParseParquetFooter(std::span<const std::byte> footer, uint64_t file_bytes);

}  // namespace stoker::bench
