#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/result.h"

// The compact protocol of Apache Thrift, as far as parquet's metadata needs it: structs, lists, integers,
// byte strings. Debian 12 packages neither a parquet nor an Arrow library, and Thrift's own would bring its
// compiler and generated code for what is 200 lines.

namespace stoker::bench {

/// Type numbers of the protocol.
enum class ThriftType : uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
};

/// LEB128, as thrift and parquet's levels use it.
void PutVarint(std::string& out, uint64_t value);

/// Appends to one string. Fields of a struct come in ascending order; Begin and End nest.
class CompactWriter {
 public:
  explicit CompactWriter(std::string& out) : out_(out) {}
  void I32(int16_t field, int32_t value);
  void I64(int16_t field, int64_t value);
  void Binary(int16_t field, std::string_view value);
  void BeginStruct(int16_t field);
  /// A struct that is an item of a list, or the outermost one.
  void BeginItem() { last_.push_back(0); }
  void EndStruct();
  void BeginList(int16_t field, ThriftType type, size_t items);
  void ItemI32(int32_t value);
  void ItemBinary(std::string_view value);

 private:
  void Field(int16_t field, ThriftType type);
  std::string& out_;
  std::vector<int16_t> last_;  // number of the last field, per open struct
};

/// Reads bytes that anybody may have written: every length is checked against what is left, nesting is
/// bounded. After the first damage `ok()` is false and all answers are zero or empty.
class CompactReader {
 public:
  explicit CompactReader(std::span<const std::byte> in) : in_(in) {}
  bool ok() const { return ok_; }

  /// Enters a struct; then NextField until it says false, which leaves the struct. Each field's value must be
  /// read, or skipped with its type.
  void BeginStruct();
  bool NextField(int16_t& field, ThriftType& type);
  int64_t Int();  // i16, i32, i64
  std::string_view Binary();
  /// Items of a list or set and their type.
  uint64_t BeginList(ThriftType& type);
  void Skip(ThriftType type) { Skip(type, 0); }

 private:
  static constexpr int kMaxDepth = 32;
  uint64_t Varint();
  uint8_t Byte();
  void Skip(ThriftType type, int depth);
  void Fail() {
    ok_ = false;
    at_ = in_.size();
  }
  size_t left() const { return in_.size() - at_; }

  const std::span<const std::byte> in_;
  size_t at_ = 0;
  bool ok_ = true;
  std::vector<int16_t> last_;
};

}  // namespace stoker::bench
