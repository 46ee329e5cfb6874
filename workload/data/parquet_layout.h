#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workload/base/format.h"
#include "workload/data/parquet.h"

// Written by hand: Debian 12 has no parquet library. Only what made-up samples need: version 1 data pages,
// PLAIN values without compression or statistics, no nulls. As in the public tool's files, a column of more
// than one element is a three-level LIST, and 8-bit integers, which parquet keeps in 32 bits, are indices
// into a dictionary of all 256 values, so that one takes a byte.

namespace stoker::bench {

/// One page: `head` (its header and what precedes the values), `value_bytes` of made-up values, no tail.
/// A dictionary page has all its bytes in `head`.
struct ParquetPage {
  std::string head;
  uint64_t value_bytes = 0;
  DataType type = DataType::kUint8;  // what the values are
};

/// Everything about a file but its values: which pages, in which order, how long. A pure function of columns
/// and numbers of rows, so all files of a dataset share one. Immutable after construction; any thread.
class ParquetLayout {
 public:
  /// REQUIRES at least one column, rows >= 1, row_group_rows >= 1.
  ParquetLayout(std::vector<Column> columns, uint64_t rows, uint64_t row_group_rows);

  uint64_t file_bytes() const { return file_bytes_; }
  /// Footer, its length and the magic: the file's end.
  const std::string& end() const { return end_; }

  uint64_t groups() const { return groups_; }
  size_t columns() const { return columns_.size(); }
  /// Pages of one column chunk.
  uint64_t PagesOf(uint64_t group, size_t column) const;
  ParquetPage Page(uint64_t group, size_t column, uint64_t page) const;

 private:
  uint64_t RowsOf(uint64_t group) const;
  uint64_t RowsPerPage(const Column& column) const;
  uint64_t ChunkBytes(const Column& column, uint64_t rows) const;
  std::string Footer() const;

  const std::vector<Column> columns_;
  const uint64_t rows_;
  const uint64_t group_rows_;
  const uint64_t groups_;
  std::string end_;
  uint64_t file_bytes_ = 0;
};

}  // namespace stoker::bench
