#pragma once

#include <cstdint>
#include <string>

#include "workload/base/rules.h"

// A TFRecord file is a row of records, each
//   u64 length of the data | u32 masked CRC-32C of those 8 bytes | data | u32 masked CRC-32C of the data
// little endian. The data is a serialized tf.train.Example (protobuf) with two features, as the public tool
// writes it: "image", the sample's bytes, and "size" (v0.5: "label"), one integer.

namespace stoker::bench {

/// All bytes of one record except the sample's and the last CRC: `head`, then the sample, then `tail`, then
/// 4 bytes of CRC over what follows the first kTfRecordHeadBytes.
struct TfRecordFrame {
  std::string head;
  std::string tail;
  uint64_t record_bytes = 0;  // the whole record
};
constexpr uint64_t kTfRecordHeadBytes = 12;
constexpr uint64_t kTfRecordCrcBytes = 4;

/// `side`: the nominal length of a sample's side, which the public tool stores as "size".
TfRecordFrame MakeTfRecordFrame(Edition layout, uint64_t sample_bytes, uint64_t side);

/// The 4 bytes after a record's data, from its CRC-32C.
std::string TfRecordCrc(uint32_t crc);

}  // namespace stoker::bench
