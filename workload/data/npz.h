#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cache/base/result.h"
#include "workload/data/content.h"

// NPZ = a ZIP whose members are NPY arrays, stored without compression. Written here by hand and not with a
// ZIP library: libzip 1.7 (Debian 12) copies every byte through 4 KiB writes and a byte-wise CRC, 0.9 CPU
// seconds per GB on the machine this was measured on against 0.3 here for making the bytes as well; it leaves
// out the ZIP64 fields numpy always writes, so files would not have the sizes of the public benchmark's; and
// through a FUSE mount each 4 KiB write is a request. The container itself is the 500 bytes below. Tests read
// it back with libzip, Python's zipfile and numpy.

namespace stoker::bench {

/// Shape of the one big array of a sample file.
struct NpzShape {
  uint64_t dim1 = 1;
  uint64_t dim2 = 1;
  uint64_t samples = 1;
  Element element = Element::kUint8;

  uint64_t data_bytes() const { return dim1 * dim2 * samples * ElementBytes(element); }
};

/// All bytes of an NPZ with members x.npy (the array) and y.npy (int64 zeros, one per sample), except the
/// array's data: `head`, then data_bytes, then `tail`.
struct NpzFrame {
  std::string head;
  std::string tail;
};

/// The NPY header (magic, version 1.0, dictionary, padding) before an array's data, 64-byte aligned.
/// `descr` e.g. "|u1".
std::string NpyHeader(const std::string& descr, const std::vector<uint64_t>& shape);
/// NPY header of x.npy: its CRC starts the member's.
std::string SampleHeader(const NpzShape& shape);

/// `x_crc`: CRC-32 of SampleHeader(shape) followed by the data.
NpzFrame MakeNpzFrame(const NpzShape& shape, uint32_t x_crc);
/// Size of the whole file, without making it.
uint64_t NpzBytes(const NpzShape& shape);

/// Where a reader finds things, from what it read at the file's end.
struct ZipDirectory {
  uint64_t offset = 0;  // of the central directory
  uint64_t bytes = 0;
  bool zip64 = false;  // `offset` and `bytes` are in the ZIP64 record instead
};
constexpr size_t kZipEndBytes = 22;        // end-of-central-directory record, without a comment
constexpr size_t kZip64LocatorBytes = 20;  // just before it, when there is one
constexpr size_t kZip64EndBytes = 56;

/// `end`: the file's last kZipEndBytes. kCorruption: not a ZIP without comment.
Result<ZipDirectory> ParseZipEnd(std::span<const std::byte> end);
/// `locator`: the kZip64LocatorBytes before the end record. Offset of the ZIP64 end record.
Result<uint64_t> ParseZip64Locator(std::span<const std::byte> locator);
Result<ZipDirectory> ParseZip64End(std::span<const std::byte> record);

/// One member as its central directory entry tells.
struct ZipMember {
  std::string name;
  uint64_t bytes = 0;          // stored = original: no compression
  uint64_t header_offset = 0;  // of the local header
};
/// kCorruption: damaged; kUnsupported: a compressed member.
Result<std::vector<ZipMember>> ParseZipDirectory(std::span<const std::byte> directory);
/// `local`: at least the 30 fixed bytes of a local header. Bytes from its start to the member's data.
Result<uint64_t> ParseZipLocalHeader(std::span<const std::byte> local);
constexpr size_t kZipLocalBytes = 30;

}  // namespace stoker::bench
