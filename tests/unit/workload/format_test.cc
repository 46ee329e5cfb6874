#include "workload/base/format.h"

#include <gtest/gtest.h>

namespace stoker::bench {
namespace {

TEST(Format, NamesReadBack) {
  for (const Format format : {Format::kNpz, Format::kTfRecord, Format::kJpeg, Format::kParquet}) {
    EXPECT_EQ(*ParseFormat("f", Name(format)), format);
  }
  EXPECT_EQ(
      ParseFormat("dataset.format", "parket").status().message(),
      "dataset.format: \"parket\" is not one of npz, tfrecord, jpeg, parquet; did you mean \"parquet\"?");
}

TEST(Columns, TextReadsBack) {
  const std::string text = "t5:float32*524328, id:int64:skip, h:float16, b:uint8*3:skip";
  const Result<std::vector<Column>> columns = ParseColumns("k", text);
  ASSERT_TRUE(columns.ok()) << columns.status().message();
  ASSERT_EQ(columns->size(), 4u);
  EXPECT_EQ((*columns)[0], (Column{"t5", DataType::kFloat32, 524'328, true}));
  EXPECT_EQ((*columns)[3], (Column{"b", DataType::kUint8, 3, false}));
  EXPECT_EQ(ColumnsText(*columns), text);
  EXPECT_EQ(*ParseColumns("k", " t5:float32*524328\n\tid:int64:skip,,h:float16 b:uint8*3:skip,"), *columns);
}

TEST(Columns, MistakesNameTheColumn) {
  const auto message = [](const char* text) { return ParseColumns("k", text).status().message(); };
  EXPECT_EQ(message("a"), "k: column \"a\": is not of the form NAME:TYPE[*SIZE][:skip]");
  EXPECT_EQ(message("a:int8, :int8"), "k: column \":int8\": is not of the form NAME:TYPE[*SIZE][:skip]");
  EXPECT_EQ(message("a:int8*0"),
            "k: column \"a:int8*0\": size \"0\" is not a whole number from 1 to 100000000");
  EXPECT_EQ(message("a:int8:read"), "k: column \"a:int8:read\": \"read\" can only be \"skip\"");
  EXPECT_NE(message("a:string").find("type: \"string\" is not one of int8, uint8"), std::string::npos);
  EXPECT_EQ(message("a:int8, a:int8"), "k: two columns are called \"a\"");
  EXPECT_EQ(message(" , "), "k: no column; give NAME:TYPE[*SIZE][:skip], ...");
}

TEST(Columns, NominalBytesAreThePublicOnes) {
  EXPECT_EQ(NominalRowBytes(*ParseColumns("k", "a:float64 b:int64 c:uint8 d:float32 e:int8 f:float16")),
            8u + 8 + 1 + 4 + 4 + 4);
  // flux, v3.0.
  EXPECT_EQ(NominalRowBytes(*ParseColumns(
                "k", "a:float32*524328 b:float32*409 c:float32*8232 d:float32*8232 e:float32*7")),
            2'164'832u);
}

}  // namespace
}  // namespace stoker::bench
