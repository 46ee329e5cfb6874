#include "cache/store/index.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

ObjectId Id(uint64_t n) {
  return MakeObjectId({n, "index-test"});
}
ObjectRecord Record(uint64_t size) {
  ObjectRecord record;
  record.size = size;
  record.part_length = 4096;
  record.token = "t";
  return record;
}

class IndexTest : public ::testing::Test {
 protected:
  void Open() {
    index_.reset();
    auto opened = Index::Open(dir_.path());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    index_ = std::move(opened).value();
  }
  testing::TempDir dir_;
  std::unique_ptr<Index> index_;
};

TEST_F(IndexTest, RowsOutliveAReopen) {
  Open();
  EXPECT_TRUE(index_->IsNew().value());
  EXPECT_FALSE(index_->GetRun().value().has_value());
  ASSERT_TRUE(index_->PutRun({"boot", true}, Index::Durability::kMachine).ok());
  ASSERT_TRUE(index_->PutObject(Id(1), Record(10)).ok());
  ASSERT_TRUE(index_->PutPart({Id(1), PartIndex{3}}, {10, 77}).ok());
  ASSERT_TRUE(index_->PutUses({{Id(1), 1234}}).ok());
  Open();
  EXPECT_FALSE(index_->IsNew().value());
  EXPECT_EQ(index_->GetRun().value(), (RunRecord{"boot", true}));
  EXPECT_EQ(index_->GetObject(Id(1)).value(), Record(10));
  EXPECT_FALSE(index_->GetObject(Id(2)).value().has_value());
  EXPECT_EQ(index_->GetPart({Id(1), PartIndex{3}}).value(), (PartRecord{10, 77}));
  EXPECT_FALSE(index_->GetPart({Id(1), PartIndex{4}}).value().has_value());
  EXPECT_TRUE(index_->HasParts(Id(1)).value());
  EXPECT_FALSE(index_->HasParts(Id(2)).value());
}

TEST_F(IndexTest, RemovingTakesAllRowsOfOneObjectAndNotesIt) {
  Open();
  for (const uint64_t object : {1, 2, 3}) {
    ASSERT_TRUE(index_->PutObject(Id(object), Record(object)).ok());
    // Object 2 has more parts than are deleted one by one; its last key is the highest there is.
    const uint32_t parts = object == 2 ? 1000 : 3;
    for (uint32_t part = 0; part < parts; ++part) {
      ASSERT_TRUE(index_->PutPart({Id(object), static_cast<PartIndex>(part)}, {1, part}).ok());
    }
  }
  ASSERT_TRUE(index_->PutPart({Id(2), PartIndex{UINT32_MAX}}, {1, 1}).ok());
  ASSERT_TRUE(index_->RemoveObjects({Id(1), Id(2)}, Index::Durability::kMachine).ok());
  for (const uint64_t object : {1, 2}) {
    EXPECT_FALSE(index_->GetObject(Id(object)).value().has_value());
    EXPECT_FALSE(index_->HasParts(Id(object)).value());
  }
  EXPECT_EQ(index_->GetParts(Id(3)).value().size(), 3u);
  EXPECT_EQ(index_->GetRemovals().value().size(), 2u);
  ASSERT_TRUE(index_->ForgetRemovals({Id(1)}).ok());
  EXPECT_EQ(index_->GetRemovals().value(), std::vector<ObjectId>{Id(2)});
}

TEST_F(IndexTest, PartsComeInOrder) {
  Open();
  for (const uint32_t part : {300u, 2u, 70000u, 0u}) {
    ASSERT_TRUE(index_->PutPart({Id(1), static_cast<PartIndex>(part)}, {part, part}).ok());
  }
  ASSERT_TRUE(index_->DeletePart({Id(1), PartIndex{2}}).ok());
  std::vector<uint32_t> seen;
  const auto parts = index_->GetParts(Id(1));
  for (const Index::StoredPart& part : parts.value()) seen.push_back(ToInt(part.part));
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 300, 70000}));
}

TEST_F(IndexTest, TheWalkBringsUsesAlong) {
  Open();
  std::map<ObjectId, uint64_t> expected;
  for (uint64_t n = 0; n < 100; ++n) {
    ASSERT_TRUE(index_->PutObject(Id(n), Record(n)).ok());
    expected[Id(n)] = 0;
  }
  for (uint64_t n = 50; n < 150; ++n) {  // those from 100 on belong to no object
    ASSERT_TRUE(index_->PutUses({{Id(n), n + 1}}).ok());
    if (n < 100) expected[Id(n)] = n + 1;
  }
  std::map<ObjectId, uint64_t> seen;
  ASSERT_TRUE(index_
                  ->ForEachObject([&](const ObjectId& id, std::optional<ObjectRecord> record, uint64_t used) {
                    EXPECT_TRUE(record.has_value());
                    seen[id] = used;
                  })
                  .ok());
  EXPECT_EQ(seen, expected);
}

TEST_F(IndexTest, ADamagedDatabaseSaysWhatToDo) {
  Open();
  ASSERT_TRUE(index_->PutObject(Id(1), Record(10)).ok());
  index_.reset();
  for (const auto& file : std::filesystem::directory_iterator(dir_.path())) {
    if (file.path().filename().string().rfind("MANIFEST", 0) == 0)
      std::ofstream(file.path()) << "not a manifest";
  }
  const auto opened = Index::Open(dir_.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find("to start with an empty cache remove " + dir_.path()),
            std::string::npos)
      << opened.status().message();
}

}  // namespace
}  // namespace stoker
