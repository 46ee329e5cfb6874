#include "workload/data/npz.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <cstring>

#include "cache/base/fd.h"
#include "cache/base/random.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace stoker::bench {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST(Npz, HeaderIsAlignedAndSpellsTheShape) {
  const std::string header = NpyHeader("|u1", {12107, 9001, 1});
  EXPECT_EQ(header.size(), 128u);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_NE(header.find("{'descr': '|u1', 'fortran_order': False, 'shape': (12107, 9001, 1), }"),
            std::string::npos);
  EXPECT_EQ(header.back(), '\n');
  EXPECT_NE(NpyHeader("<i8", {1}).find("(1,)"), std::string::npos);
}

TEST(Npz, OverheadIsThatOfTheNumpyFile) {
  // A file numpy wrote with 146 579 449 bytes of data and one sample has 146 579 947 bytes.
  NpzShape shape;
  shape.dim1 = 146'579'449;
  shape.dim2 = 1;
  EXPECT_EQ(NpzBytes(shape), 146'579'947u);
}

TEST(Npz, SizeIsKnownWithoutMakingTheFile) {
  Random random(testing::TestSeed());
  for (int i = 0; i < 200; ++i) {
    NpzShape shape{1 + random.Below(1u << random.Below(20)), 1 + random.Below(1u << random.Below(20)),
                   1 + random.Below(20), random.OneIn(2) ? Element::kUint8 : Element::kFloat64};
    const NpzFrame frame = MakeNpzFrame(shape, 0);
    EXPECT_EQ(NpzBytes(shape), frame.head.size() + shape.data_bytes() + frame.tail.size());
  }
}

/// Writes the file sparse: only head and tail take space.
void WriteSparse(const std::string& path, const NpzShape& shape) {
  const NpzFrame frame = MakeNpzFrame(shape, 0x12345678);
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ASSERT_TRUE(fd.valid());
  const auto tail_at = static_cast<off_t>(frame.head.size() + shape.data_bytes());
  ASSERT_EQ(::pwrite(fd.get(), frame.head.data(), frame.head.size(), 0),
            static_cast<ssize_t>(frame.head.size()));
  ASSERT_EQ(::pwrite(fd.get(), frame.tail.data(), frame.tail.size(), tail_at),
            static_cast<ssize_t>(frame.tail.size()));
}

TEST(Npz, AnotherZipReaderFindsTheMembers) {
  const testing::TempDir dir;
  // Below and above 4 GiB: the second needs ZIP64 records in the directory as well.
  for (const uint64_t dim1 : {uint64_t{1000}, uint64_t{70'000}}) {
    NpzShape shape;
    shape.dim1 = dim1;
    shape.dim2 = 70'000;
    shape.samples = 3;
    const std::string path = dir / ("file" + std::to_string(dim1) + ".npz");
    WriteSparse(path, shape);
    int error = 0;
    zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &error);
    ASSERT_NE(archive, nullptr) << error;
    EXPECT_EQ(zip_get_num_entries(archive, 0), 2);
    zip_stat_t entry;
    ASSERT_EQ(zip_stat(archive, "x.npy", 0, &entry), 0);
    EXPECT_EQ(entry.size, 128 + shape.data_bytes());
    EXPECT_EQ(entry.comp_size, entry.size);
    EXPECT_EQ(entry.comp_method, ZIP_CM_STORE);
    EXPECT_EQ(entry.crc, 0x12345678u);
    zip_file_t* labels = zip_fopen(archive, "y.npy", 0);
    ASSERT_NE(labels, nullptr);
    std::string y(1000, 'x');
    y.resize(static_cast<size_t>(zip_fread(labels, y.data(), y.size())));
    EXPECT_EQ(y, NpyHeader("<i8", {3}) + std::string(24, '\0'));
    EXPECT_EQ(zip_fclose(labels), 0);  // also checks the CRC
    EXPECT_EQ(zip_close(archive), 0);
  }
}

TEST(Npz, OurOwnParserFindsTheMembers) {
  for (const uint64_t dim1 : {uint64_t{3}, uint64_t{5'000'000'000}}) {
    NpzShape shape;
    shape.dim1 = dim1;
    const NpzFrame frame = MakeNpzFrame(shape, 1);
    const uint64_t size = NpzBytes(shape);
    const auto tail = [&](uint64_t offset, size_t bytes) {
      return frame.tail.substr(offset - (size - frame.tail.size()), bytes);
    };
    const std::string end = tail(size - kZipEndBytes, kZipEndBytes);
    Result<ZipDirectory> directory = ParseZipEnd(Bytes(end));
    ASSERT_TRUE(directory.ok());
    EXPECT_EQ(directory->zip64, dim1 > 1'000'000);
    if (directory->zip64) {
      const std::string locator = tail(size - kZipEndBytes - kZip64LocatorBytes, kZip64LocatorBytes);
      const Result<uint64_t> record = ParseZip64Locator(Bytes(locator));
      ASSERT_TRUE(record.ok());
      const std::string end64 = tail(*record, kZip64EndBytes);
      directory = ParseZip64End(Bytes(end64));
      ASSERT_TRUE(directory.ok());
    }
    const std::string entries = tail(directory->offset, directory->bytes);
    const Result<std::vector<ZipMember>> members = ParseZipDirectory(Bytes(entries));
    ASSERT_TRUE(members.ok()) << members.status().message();
    ASSERT_EQ(members->size(), 2u);
    EXPECT_EQ((*members)[0].name, "x.npy");
    EXPECT_EQ((*members)[0].bytes, SampleHeader(shape).size() + shape.data_bytes());
    EXPECT_EQ((*members)[0].header_offset, 0u);
    EXPECT_EQ((*members)[1].header_offset, frame.head.size() + shape.data_bytes());
    const Result<uint64_t> local = ParseZipLocalHeader(Bytes(frame.head));
    ASSERT_TRUE(local.ok());
    EXPECT_EQ(*local + SampleHeader(shape).size(), frame.head.size());
  }
}

TEST(Npz, DamagedBytesAreRefusedNotFollowed) {
  Random random(testing::TestSeed());
  NpzShape shape;
  shape.dim1 = 100;
  const NpzFrame frame = MakeNpzFrame(shape, 1);
  const size_t entries_at = frame.tail.size() - kZipEndBytes - 102;
  for (int i = 0; i < 3000; ++i) {
    std::string entries = frame.tail.substr(entries_at, 102);
    for (uint64_t hits = 1 + random.Below(4); hits > 0; --hits) {
      entries[random.Below(entries.size())] = static_cast<char>(random.Next());
    }
    entries.resize(random.Below(entries.size() + 1));
    const Result<std::vector<ZipMember>> members = ParseZipDirectory(Bytes(entries));
    if (members.ok()) {
      EXPECT_LE(members->size(), 2u);
    }
  }
  const std::string nothing(kZipEndBytes, '\0');
  EXPECT_EQ(ParseZipEnd(Bytes(nothing)).status().code(), Code::kCorruption);
  EXPECT_EQ(ParseZipLocalHeader(Bytes(nothing)).status().code(), Code::kCorruption);
}

}  // namespace
}  // namespace stoker::bench
