#include "workload/data/thrift_compact.h"

namespace stoker::bench {
namespace {

uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

constexpr uint8_t kShortList = 15;  // longer lists have their length in a varint

}  // namespace

void PutVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void CompactWriter::Field(int16_t field, ThriftType type) {
  const int delta = field - last_.back();
  if (delta >= 1 && delta <= 15) {
    out_.push_back(static_cast<char>((delta << 4) | static_cast<int>(type)));
  } else {
    out_.push_back(static_cast<char>(type));
    PutVarint(out_, ZigZag(field));
  }
  last_.back() = field;
}

void CompactWriter::I32(int16_t field, int32_t value) {
  Field(field, ThriftType::kI32);
  PutVarint(out_, ZigZag(value));
}
void CompactWriter::I64(int16_t field, int64_t value) {
  Field(field, ThriftType::kI64);
  PutVarint(out_, ZigZag(value));
}
void CompactWriter::Binary(int16_t field, std::string_view value) {
  Field(field, ThriftType::kBinary);
  ItemBinary(value);
}
void CompactWriter::BeginStruct(int16_t field) {
  Field(field, ThriftType::kStruct);
  BeginItem();
}
void CompactWriter::EndStruct() {
  out_.push_back(static_cast<char>(ThriftType::kStop));
  last_.pop_back();
}
void CompactWriter::BeginList(int16_t field, ThriftType type, size_t items) {
  Field(field, ThriftType::kList);
  if (items < kShortList) {
    out_.push_back(static_cast<char>((items << 4) | static_cast<size_t>(type)));
  } else {
    out_.push_back(static_cast<char>((kShortList << 4) | static_cast<int>(type)));
    PutVarint(out_, items);
  }
}
void CompactWriter::ItemI32(int32_t value) {
  PutVarint(out_, ZigZag(value));
}
void CompactWriter::ItemBinary(std::string_view value) {
  PutVarint(out_, value.size());
  out_ += value;
}

uint8_t CompactReader::Byte() {
  if (left() == 0) {
    Fail();
    return 0;
  }
  return static_cast<uint8_t>(in_[at_++]);
}

uint64_t CompactReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = Byte();
    if (!ok_) return 0;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  Fail();
  return 0;
}

void CompactReader::BeginStruct() {
  if (last_.size() >= kMaxDepth) Fail();
  last_.push_back(0);
}

bool CompactReader::NextField(int16_t& field, ThriftType& type) {
  const uint8_t head = ok_ ? Byte() : 0;
  type = static_cast<ThriftType>(head & 0x0f);
  if (!ok_ || type == ThriftType::kStop) {
    last_.pop_back();
    return false;
  }
  const int delta = head >> 4;
  field = static_cast<int16_t>(delta != 0 ? last_.back() + delta : UnZigZag(Varint()));
  last_.back() = field;
  return ok_;
}

int64_t CompactReader::Int() {
  return UnZigZag(Varint());
}

std::string_view CompactReader::Binary() {
  const uint64_t size = Varint();
  if (size > left()) {
    Fail();
    return {};
  }
  const std::string_view out(reinterpret_cast<const char*>(in_.data()) + at_, size);
  at_ += size;
  return out;
}

uint64_t CompactReader::BeginList(ThriftType& type) {
  const uint8_t head = Byte();
  type = static_cast<ThriftType>(head & 0x0f);
  uint64_t items = head >> 4;
  if (items == kShortList) items = Varint();
  // Every item takes a byte at least: a longer list is damage, and must not make anybody allocate.
  if (items > left()) {
    Fail();
    return 0;
  }
  return items;
}

void CompactReader::Skip(ThriftType type, int depth) {
  if (depth > kMaxDepth) return Fail();
  switch (type) {
    case ThriftType::kTrue:
    case ThriftType::kFalse:
      return;  // the value is the type; only as an item of a list does it take a byte
    case ThriftType::kByte:
      Byte();
      return;
    case ThriftType::kI16:
    case ThriftType::kI32:
    case ThriftType::kI64:
      Varint();
      return;
    case ThriftType::kDouble:
      if (left() < 8) return Fail();
      at_ += 8;
      return;
    case ThriftType::kBinary:
      Binary();
      return;
    case ThriftType::kList:
    case ThriftType::kSet: {
      ThriftType item;
      const uint64_t items = BeginList(item);
      const bool bools = item == ThriftType::kTrue || item == ThriftType::kFalse;
      for (uint64_t i = 0; ok_ && i < items; ++i) Skip(bools ? ThriftType::kByte : item, depth + 1);
      return;
    }
    case ThriftType::kMap: {
      const uint64_t pairs = Varint();
      if (pairs > left()) return Fail();
      if (pairs == 0) return;
      const uint8_t types = Byte();
      for (uint64_t i = 0; ok_ && i < pairs; ++i) {
        Skip(static_cast<ThriftType>(types >> 4), depth + 1);
        Skip(static_cast<ThriftType>(types & 0x0f), depth + 1);
      }
      return;
    }
    case ThriftType::kStruct: {
      int16_t field;
      ThriftType inner;
      BeginStruct();
      while (NextField(field, inner)) Skip(inner, depth + 1);
      return;
    }
    case ThriftType::kStop:
      break;
  }
  Fail();
}

}  // namespace stoker::bench
