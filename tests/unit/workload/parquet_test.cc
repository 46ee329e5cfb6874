#include "workload/data/parquet.h"

#include <gtest/gtest.h>

#include "cache/base/random.h"
#include "tests/support/seed.h"
#include "workload/data/parquet_layout.h"

namespace stoker::bench {
namespace {

std::vector<Column> Mixed() {
  return *ParseColumns("k", "a:float32*5 b:int64 c:uint8 d:float16:skip e:int8*3 f:float64*200000");
}

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string FooterOf(const ParquetLayout& layout) {
  return layout.end().substr(0, layout.end().size() - kParquetTailBytes);
}

TEST(Parquet, FooterLeadsToEveryChunk) {
  const std::vector<Column> columns = Mixed();
  for (const auto& [rows, group_rows] :
       {std::pair<uint64_t, uint64_t>{1, 1}, {10, 4}, {12, 4}, {7, 1000}, {40, 1}}) {
    const ParquetLayout layout(columns, rows, group_rows);
    const Result<uint64_t> footer_bytes = ParseParquetTail(
        Bytes(layout.end()).subspan(layout.end().size() - kParquetTailBytes), layout.file_bytes());
    ASSERT_TRUE(footer_bytes.ok()) << footer_bytes.status().message();
    EXPECT_EQ(*footer_bytes, layout.end().size() - kParquetTailBytes);
    const Result<ParquetFooter> footer = ParseParquetFooter(Bytes(FooterOf(layout)), layout.file_bytes());
    ASSERT_TRUE(footer.ok()) << footer.status().message();
    EXPECT_EQ(footer->rows, rows);
    EXPECT_EQ(footer->groups(), layout.groups());
    EXPECT_EQ(footer->columns, (std::vector<std::string>{"a", "b", "c", "d", "e", "f"}));
    // The chunks lie one after the other from the magic to the footer, each as long as its pages.
    uint64_t at = kParquetMagicBytes;
    for (size_t group = 0; group < footer->groups(); ++group) {
      for (size_t column = 0; column < columns.size(); ++column) {
        const ByteRange range = footer->RangeOf(group, column);
        uint64_t bytes = 0;
        for (uint64_t i = 0; i < layout.PagesOf(group, column); ++i) {
          const ParquetPage page = layout.Page(group, column, i);
          bytes += page.head.size() + page.value_bytes;
        }
        EXPECT_EQ(range, (ByteRange{at, at + bytes}));
        at = range.end;
      }
    }
    EXPECT_EQ(at + layout.end().size(), layout.file_bytes());
  }
}

TEST(Parquet, EveryPartOfTheFileIsCounted) {
  // Only the last row group is shorter.
  const ParquetLayout layout(*ParseColumns("k", "x:int32"), 10, 4);
  EXPECT_EQ(layout.groups(), 3u);
  EXPECT_EQ(layout.Page(0, 0, 0).value_bytes, 16u);
  EXPECT_EQ(layout.Page(2, 0, 0).value_bytes, 8u);
}

TEST(Parquet, APageHoldsWholeRows) {
  // 200 000 doubles are more than the 1 MiB aimed at, so each row is a page; 5 floats share one.
  const ParquetLayout layout(Mixed(), 10, 4);
  EXPECT_EQ(layout.PagesOf(0, 5), 4u);
  EXPECT_EQ(layout.Page(0, 5, 0).value_bytes, 1'600'000u);
  EXPECT_EQ(layout.PagesOf(0, 0), 1u);
  EXPECT_EQ(layout.PagesOf(0, 2), 2u);  // and the dictionary
  EXPECT_EQ(layout.Page(0, 2, 0).value_bytes, 0u);
}

TEST(Parquet, DlrmSizes) {
  // 768 row groups of 200 columns; the file is within 2 % of its nominal 761 bytes a row, footer included.
  const std::vector<Column> columns(200, Column{"feature_000", DataType::kFloat32, 1});
  const ParquetLayout layout(columns, 4'718'592, 6144);
  EXPECT_EQ(layout.groups(), 768u);
  const double nominal = 800.0 * 4'718'592;
  EXPECT_NEAR(static_cast<double>(layout.file_bytes()), nominal, 0.02 * nominal);
  EXPECT_TRUE(ParseParquetFooter(Bytes(FooterOf(layout)), layout.file_bytes()).ok());
}

TEST(Parquet, DamageIsRefusedNotFollowed) {
  const ParquetLayout layout(Mixed(), 10, 4);
  const std::string footer = FooterOf(layout);
  EXPECT_EQ(ParseParquetTail(Bytes("12345678"), 1000).status().code(), Code::kCorruption);
  EXPECT_EQ(ParseParquetTail(Bytes("PAR1"), 1000).status().code(), Code::kCorruption);
  EXPECT_EQ(ParseParquetTail(Bytes(layout.end()).last(8), 100).status().code(), Code::kCorruption);
  // A file that was cut: the chunks would lie beyond its end.
  EXPECT_EQ(ParseParquetFooter(Bytes(footer), layout.file_bytes() - 1).status().code(), Code::kCorruption);
  for (size_t cut = 0; cut < footer.size(); ++cut) {
    const std::string part = footer.substr(0, cut);
    EXPECT_FALSE(ParseParquetFooter(Bytes(part), layout.file_bytes()).ok()) << cut;
  }
}

TEST(Parquet, NoBytesMakeTheParserMisbehave) {
  // Judged by the sanitizers, and by ranges never leaving the file.
  const ParquetLayout layout(Mixed(), 100, 4);
  const std::string footer = FooterOf(layout);
  Random random(stoker::testing::TestSeed());
  for (int round = 0; round < 3000; ++round) {
    std::string bad = footer;
    for (uint64_t i = 0; i <= random.Next() % 4; ++i) {
      bad[random.Next() % bad.size()] = static_cast<char>(random.Next());
    }
    const Result<ParquetFooter> parsed = ParseParquetFooter(Bytes(bad), layout.file_bytes());
    if (!parsed.ok()) continue;
    EXPECT_EQ(parsed->ranges.size(), parsed->groups() * parsed->columns.size());
    for (const ByteRange& range : parsed->ranges) {
      EXPECT_LE(range.begin, range.end);
      EXPECT_LE(range.end, layout.file_bytes());
    }
  }
}

}  // namespace
}  // namespace stoker::bench
