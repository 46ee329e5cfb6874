#include "workload/data/npz.h"

#include <cstring>
#include <limits>

#include "cache/base/units.h"

namespace stoker::bench {
namespace {

// Record signatures and field widths: PKWARE APPNOTE 4.3.7, 4.3.12, 4.3.14 to 4.3.16, 4.5.3.
constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr uint32_t kEntryMagic = 0x02014b50;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kZip64EndMagic = 0x06064b50;
constexpr uint32_t kZip64LocatorMagic = 0x07064b50;
constexpr uint16_t kZip64Version = 45;  // "needed to extract": ZIP64 extensions
constexpr uint16_t kMadeByUnix = 3 << 8;
constexpr uint16_t kDosEpoch = (0 << 9) | (1 << 5) | 1;  // 1 January 1980, as numpy dates members
constexpr uint32_t kMode = 0600u << 16;                  // external attributes: Unix mode, as numpy sets it
constexpr uint32_t kIn64 = 0xffffffff;                   // "see the ZIP64 field"
constexpr uint16_t kZip64Field = 1;
constexpr size_t kEntryBytes = 46;

template <typename T>
void Put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

template <typename T>
T Get(std::span<const std::byte> in, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(in[at + i]) << (8 * i)));
  }
  return value;
}

/// The run of fields that a member's local header and its directory entry have in common.
void PutCommon(std::string& out, uint32_t crc, uint32_t size32, const std::string& name, size_t extra_bytes) {
  Put<uint16_t>(out, kZip64Version);
  Put<uint16_t>(out, 0);  // flags
  Put<uint16_t>(out, 0);  // stored
  Put<uint16_t>(out, 0);  // time
  Put<uint16_t>(out, kDosEpoch);
  Put<uint32_t>(out, crc);
  Put<uint32_t>(out, size32);  // stored
  Put<uint32_t>(out, size32);  // original
  Put<uint16_t>(out, static_cast<uint16_t>(name.size()));
  Put<uint16_t>(out, static_cast<uint16_t>(extra_bytes));
}

/// numpy opens every member "forced ZIP64", so the sizes always stand in the extra field.
std::string LocalHeader(const std::string& name, uint32_t crc, uint64_t bytes) {
  std::string out;
  Put<uint32_t>(out, kLocalMagic);
  PutCommon(out, crc, kIn64, name, 20);
  out += name;
  Put<uint16_t>(out, kZip64Field);
  Put<uint16_t>(out, 16);
  Put<uint64_t>(out, bytes);  // original
  Put<uint64_t>(out, bytes);  // stored
  return out;
}

std::string DirectoryEntry(const std::string& name, uint32_t crc, uint64_t bytes, uint64_t header_offset) {
  const bool big_size = bytes >= kIn64;
  const bool big_offset = header_offset >= kIn64;
  std::string extra;
  if (big_size || big_offset) {
    Put<uint16_t>(extra, kZip64Field);
    Put<uint16_t>(extra, static_cast<uint16_t>((big_size ? 16 : 0) + (big_offset ? 8 : 0)));
    if (big_size) {
      Put<uint64_t>(extra, bytes);
      Put<uint64_t>(extra, bytes);
    }
    if (big_offset) Put<uint64_t>(extra, header_offset);
  }
  const uint32_t size32 = big_size ? kIn64 : static_cast<uint32_t>(bytes);
  std::string out;
  Put<uint32_t>(out, kEntryMagic);
  Put<uint16_t>(out, kMadeByUnix | kZip64Version);
  PutCommon(out, crc, size32, name, extra.size());
  Put<uint16_t>(out, 0);  // comment
  Put<uint16_t>(out, 0);  // disk
  Put<uint16_t>(out, 0);  // internal attributes
  Put<uint32_t>(out, kMode);
  Put<uint32_t>(out, big_offset ? kIn64 : static_cast<uint32_t>(header_offset));
  out += name;
  out += extra;
  return out;
}

/// End records for `entries` members whose directory lies at `offset`.
std::string EndRecords(uint64_t entries, uint64_t offset, uint64_t bytes) {
  const bool big = offset >= kIn64;
  std::string out;
  if (big) {
    Put<uint32_t>(out, kZip64EndMagic);
    Put<uint64_t>(out, kZip64EndBytes - 12);  // of this record after this field
    Put<uint16_t>(out, kZip64Version);
    Put<uint16_t>(out, kZip64Version);
    Put<uint32_t>(out, 0);  // this disk
    Put<uint32_t>(out, 0);  // directory's disk
    Put<uint64_t>(out, entries);
    Put<uint64_t>(out, entries);
    Put<uint64_t>(out, bytes);
    Put<uint64_t>(out, offset);
    Put<uint32_t>(out, kZip64LocatorMagic);
    Put<uint32_t>(out, 0);  // disk of the record above
    Put<uint64_t>(out, offset + bytes);
    Put<uint32_t>(out, 1);  // disks
  }
  Put<uint32_t>(out, kEndMagic);
  Put<uint16_t>(out, 0);
  Put<uint16_t>(out, 0);
  Put<uint16_t>(out, static_cast<uint16_t>(entries));
  Put<uint16_t>(out, static_cast<uint16_t>(entries));
  Put<uint32_t>(out, static_cast<uint32_t>(bytes));
  Put<uint32_t>(out, big ? kIn64 : static_cast<uint32_t>(offset));
  Put<uint16_t>(out, 0);  // comment
  return out;
}

constexpr char kXName[] = "x.npy";
constexpr char kYName[] = "y.npy";

Status Damaged(const char* what) {
  return Status(Code::kCorruption, std::string("not a readable npz: ") + what);
}

}  // namespace

std::string NpyHeader(const std::string& descr, const std::vector<uint64_t>& shape) {
  std::string dims;
  for (const uint64_t dim : shape) {
    if (!dims.empty()) dims += ", ";
    dims += std::to_string(dim);
  }
  if (shape.size() == 1) dims += ",";
  std::string dictionary = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + dims + "), }";
  // Magic, version and length take 10 bytes; numpy pads with blanks to the next 64, a newline last.
  const size_t total = AlignUp(10 + dictionary.size() + 1, 64);
  dictionary.append(total - 10 - dictionary.size() - 1, ' ');
  dictionary.push_back('\n');
  std::string out("\x93NUMPY\x01\x00", 8);
  Put<uint16_t>(out, static_cast<uint16_t>(dictionary.size()));
  return out + dictionary;
}

std::string SampleHeader(const NpzShape& shape) {
  return NpyHeader(shape.element == Element::kUint8 ? "|u1" : "<f8", {shape.dim1, shape.dim2, shape.samples});
}

NpzFrame MakeNpzFrame(const NpzShape& shape, uint32_t x_crc) {
  const std::string x_header = SampleHeader(shape);
  std::string y = NpyHeader("<i8", {shape.samples});
  y.append(shape.samples * 8, '\0');
  const uint32_t y_crc = Crc32(0, y.data(), y.size());
  const uint64_t x_bytes = x_header.size() + shape.data_bytes();

  NpzFrame frame;
  frame.head = LocalHeader(kXName, x_crc, x_bytes) + x_header;
  const uint64_t y_offset = frame.head.size() + shape.data_bytes();
  frame.tail = LocalHeader(kYName, y_crc, y.size()) + y;
  const uint64_t directory_offset = y_offset + frame.tail.size();
  const std::string directory =
      DirectoryEntry(kXName, x_crc, x_bytes, 0) + DirectoryEntry(kYName, y_crc, y.size(), y_offset);
  frame.tail += directory + EndRecords(2, directory_offset, directory.size());
  return frame;
}

uint64_t NpzBytes(const NpzShape& shape) {
  const uint64_t x_bytes = SampleHeader(shape).size() + shape.data_bytes();
  const uint64_t y_bytes = NpyHeader("<i8", {shape.samples}).size() + shape.samples * 8;
  const uint64_t y_offset = LocalHeader(kXName, 0, x_bytes).size() + x_bytes;
  const uint64_t directory_offset = y_offset + LocalHeader(kYName, 0, y_bytes).size() + y_bytes;
  const uint64_t directory_bytes =
      DirectoryEntry(kXName, 0, x_bytes, 0).size() + DirectoryEntry(kYName, 0, y_bytes, y_offset).size();
  return directory_offset + directory_bytes + EndRecords(2, directory_offset, directory_bytes).size();
}

Result<ZipDirectory> ParseZipEnd(std::span<const std::byte> end) {
  if (end.size() < kZipEndBytes || Get<uint32_t>(end, 0) != kEndMagic) return Damaged("no end record");
  ZipDirectory out;
  out.bytes = Get<uint32_t>(end, 12);
  out.offset = Get<uint32_t>(end, 16);
  out.zip64 = out.bytes == kIn64 || out.offset == kIn64;
  return out;
}

Result<uint64_t> ParseZip64Locator(std::span<const std::byte> locator) {
  if (locator.size() < kZip64LocatorBytes || Get<uint32_t>(locator, 0) != kZip64LocatorMagic) {
    return Damaged("no ZIP64 locator");
  }
  return Get<uint64_t>(locator, 8);
}

Result<ZipDirectory> ParseZip64End(std::span<const std::byte> record) {
  if (record.size() < kZip64EndBytes || Get<uint32_t>(record, 0) != kZip64EndMagic) {
    return Damaged("no ZIP64 end record");
  }
  ZipDirectory out;
  out.bytes = Get<uint64_t>(record, 40);
  out.offset = Get<uint64_t>(record, 48);
  out.zip64 = true;
  return out;
}

Result<std::vector<ZipMember>> ParseZipDirectory(std::span<const std::byte> directory) {
  std::vector<ZipMember> members;
  size_t at = 0;
  while (at < directory.size()) {
    if (directory.size() - at < kEntryBytes || Get<uint32_t>(directory, at) != kEntryMagic) {
      return Damaged("bad directory entry");
    }
    const std::span<const std::byte> entry = directory.subspan(at);
    const size_t name_bytes = Get<uint16_t>(entry, 28);
    const size_t extra_bytes = Get<uint16_t>(entry, 30);
    const size_t comment_bytes = Get<uint16_t>(entry, 32);
    const size_t total = kEntryBytes + name_bytes + extra_bytes + comment_bytes;
    if (entry.size() < total) return Damaged("cut directory entry");
    if (Get<uint16_t>(entry, 10) != 0) {
      return Status(Code::kUnsupported, "a compressed npz member; samples must be stored");
    }
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(entry.data()) + kEntryBytes, name_bytes);
    const bool big_original = Get<uint32_t>(entry, 24) == kIn64;
    const bool big_stored = Get<uint32_t>(entry, 20) == kIn64;
    const bool big_offset = Get<uint32_t>(entry, 42) == kIn64;
    member.bytes = Get<uint32_t>(entry, 24);
    member.header_offset = Get<uint32_t>(entry, 42);
    // The ZIP64 field holds, in this order, only those of the values that did not fit.
    size_t field = kEntryBytes + name_bytes;
    const size_t fields_end = field + extra_bytes;
    while (fields_end - field >= 4) {
      const uint16_t id = Get<uint16_t>(entry, field);
      const size_t size = Get<uint16_t>(entry, field + 2);
      if (size > fields_end - field - 4) return Damaged("cut extra field");
      if (id == kZip64Field) {
        size_t value = field + 4;
        const size_t needed = 8 * (size_t{big_original} + size_t{big_stored} + size_t{big_offset});
        if (size < needed) return Damaged("short ZIP64 field");
        if (big_original) member.bytes = Get<uint64_t>(entry, value), value += 8;
        if (big_stored) value += 8;
        if (big_offset) member.header_offset = Get<uint64_t>(entry, value);
      }
      field += 4 + size;
    }
    members.push_back(std::move(member));
    at += total;
  }
  return members;
}

Result<uint64_t> ParseZipLocalHeader(std::span<const std::byte> local) {
  if (local.size() < kZipLocalBytes || Get<uint32_t>(local, 0) != kLocalMagic) {
    return Damaged("no local header");
  }
  return uint64_t{kZipLocalBytes} + Get<uint16_t>(local, 26) + Get<uint16_t>(local, 28);
}

}  // namespace stoker::bench
