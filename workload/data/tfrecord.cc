#include "workload/data/tfrecord.h"

#include "workload/data/crc32c.h"
#include "workload/data/thrift_compact.h"

namespace stoker::bench {
namespace {

// Protobuf: a field is a varint (number << 3 | wire type), then its value.
constexpr char Tag(int field, int wire) {
  return static_cast<char>(field << 3 | wire);
}
constexpr int kBytes = 2;

uint64_t VarintBytes(uint64_t value) {
  uint64_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

/// Tag, length and value of a field of bytes.
std::string Field(int number, const std::string& value) {
  std::string out(1, Tag(number, kBytes));
  PutVarint(out, value.size());
  return out + value;
}

/// What comes before the last `inner` bytes of a field.
std::string FieldStart(int number, uint64_t inner) {
  std::string out(1, Tag(number, kBytes));
  PutVarint(out, inner);
  return out;
}

template <typename T>
std::string Little(T value) {
  std::string out;
  for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  return out;
}

}  // namespace

std::string TfRecordCrc(uint32_t crc) {
  return Little(MaskedCrc32c(crc));
}

TfRecordFrame MakeTfRecordFrame(Edition layout, uint64_t sample_bytes, uint64_t side) {
  // Example.features(1) > Features.feature(1), a map: { key(1), value(2): Feature } >
  // Feature.bytes_list(1) > value(1), or Feature.int64_list(3) > value(1), packed.
  std::string number;
  PutVarint(number, side);
  const std::string second =
      Field(1, Field(1, layout == Edition::kV05 ? "label" : "size") + Field(2, Field(3, Field(1, number))));

  // Outwards from the sample: how long each thing is that contains it.
  const auto wrapped = [](uint64_t inner) { return 1 + VarintBytes(inner) + inner; };
  const std::string key = Field(1, "image");
  const uint64_t list = wrapped(sample_bytes);
  const uint64_t feature = wrapped(list);
  const uint64_t entry = key.size() + wrapped(feature);
  const uint64_t features = wrapped(entry) + second.size();
  const std::string start = FieldStart(1, features) + FieldStart(1, entry) + key + FieldStart(2, feature) +
                            FieldStart(1, list) + FieldStart(1, sample_bytes);

  TfRecordFrame frame;
  const uint64_t data_bytes = wrapped(features);
  const std::string length = Little(data_bytes);
  frame.head = length + Little(MaskedCrc32c(Crc32c(0, length.data(), length.size()))) + start;
  frame.tail = second;
  frame.record_bytes = kTfRecordHeadBytes + data_bytes + kTfRecordCrcBytes;
  return frame;
}

}  // namespace stoker::bench
