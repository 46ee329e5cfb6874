#include "cache/store/recovery.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

ObjectId Id(uint64_t n) {
  return MakeObjectId({n, "recovery-test"});
}

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() : disk_(std::move(Disk::Open(dir_ / "cache")).value()) { OpenIndex(); }
  void OpenIndex() {
    index_.reset();
    index_ = std::move(Index::Open(disk_->index_dir())).value();
  }
  void MakeObject(uint64_t n, ObjectPhase phase, bool with_part, bool with_file) {
    ObjectRecord record;
    record.phase = phase;
    record.size = 8192;
    record.part_length = 4096;
    record.charged_bytes = 8192;
    record.token = "t";
    ASSERT_TRUE(index_->PutObject(Id(n), record).ok());
    if (with_part) {
      ASSERT_TRUE(index_->PutPart({Id(n), PartIndex{0}}, {4096, 1}).ok());
    }
    if (with_file) {
      const auto file = disk_->CreateObject(Id(n), 8192);
      ASSERT_TRUE(file.ok());
      ASSERT_EQ(::pwrite(file.value().get(), std::string(4096, 'x').data(), 4096, 0), 4096);
    }
  }
  std::vector<RecoveredObject> Run(const std::string& boot) {
    auto recovered = Recover(*index_, *disk_, boot);
    EXPECT_TRUE(recovered.ok()) << recovered.status().ToString();
    return std::move(recovered).value();
  }
  bool FileExists(uint64_t n) { return disk_->StatObject(Id(n)).ok(); }

  testing::TempDir dir_;
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<Index> index_;
};

TEST_F(RecoveryTest, ANewIndexKnowsNoFile) {
  ASSERT_TRUE(disk_->CreateObject(Id(1), 10).ok());
  EXPECT_TRUE(Run("boot-1").empty());
  EXPECT_FALSE(FileExists(1));
  EXPECT_EQ(index_->GetRun().value(), (RunRecord{"boot-1", false}));
}

TEST_F(RecoveryTest, SameBootTrustsAndMeasures) {
  Run("boot-1");
  MakeObject(1, ObjectPhase::kIncomplete, true, true);
  MakeObject(2, ObjectPhase::kComplete, true, true);
  MakeObject(3, ObjectPhase::kSealed, true, false);  // its file is looked at when it is used
  const auto objects = Run("boot-1");
  ASSERT_EQ(objects.size(), 3u);
  for (const RecoveredObject& object : objects) {
    EXPECT_FALSE(object.suspect);
    EXPECT_EQ(object.charged_bytes, object.phase == ObjectPhase::kSealed ? 8192u : 4096u);
  }
}

TEST_F(RecoveryTest, AnotherBootSuspectsWhatWasNotSealedUntilItIsVerified) {
  Run("boot-1");
  MakeObject(1, ObjectPhase::kIncomplete, true, true);
  MakeObject(2, ObjectPhase::kComplete, true, true);
  MakeObject(3, ObjectPhase::kSealed, true, true);
  for (int again = 0; again < 2; ++again) {  // the second time in the same boot: the marks have stayed
    const auto objects = Run("boot-2");
    ASSERT_EQ(objects.size(), 3u);
    for (const RecoveredObject& object : objects) {
      EXPECT_EQ(object.suspect, object.phase != ObjectPhase::kSealed);
      EXPECT_EQ(index_->GetObject(object.id).value()->suspect, object.suspect);
    }
    OpenIndex();
  }
}

TEST_F(RecoveryTest, ACleanEndIsTrustedInAnyBoot) {
  Run("boot-1");
  MakeObject(1, ObjectPhase::kIncomplete, true, true);
  ASSERT_TRUE(index_->PutRun({"boot-1", true}, Index::Durability::kMachine).ok());
  ASSERT_EQ(Run("boot-2").size(), 1u);
  EXPECT_FALSE(index_->GetObject(Id(1)).value()->suspect);
  // That run has ended with a crash now.
  EXPECT_TRUE(Run("boot-3").at(0).suspect);
}

TEST_F(RecoveryTest, AnUnknownBootIsAnotherBoot) {
  Run("");
  MakeObject(1, ObjectPhase::kIncomplete, true, true);
  EXPECT_TRUE(Run("").at(0).suspect);
}

TEST_F(RecoveryTest, RowsWithoutPartsOrFileAndCutFilesAreDropped) {
  Run("boot-1");
  MakeObject(1, ObjectPhase::kIncomplete, false, true);
  MakeObject(2, ObjectPhase::kIncomplete, true, false);
  MakeObject(3, ObjectPhase::kIncomplete, false, false);
  MakeObject(4, ObjectPhase::kComplete, true, true);
  MakeObject(5, ObjectPhase::kIncomplete, true, true);
  const auto path = dir_ / ("cache/objects/" + Disk::RelativePath(Id(4)));
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  const auto objects = Run("boot-1");
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_EQ(objects[0].id, Id(5));
  for (const uint64_t n : {1, 2, 3, 4}) {
    EXPECT_FALSE(FileExists(n)) << n;
    EXPECT_FALSE(index_->GetObject(Id(n)).value().has_value()) << n;
    EXPECT_FALSE(index_->HasParts(Id(n)).value()) << n;
  }
  EXPECT_TRUE(index_->GetRemovals().value().empty());
}

TEST_F(RecoveryTest, ADirectoryInAnObjectsPlaceIsRemoved) {
  Run("boot-1");
  MakeObject(1, ObjectPhase::kIncomplete, true, true);
  const auto path = dir_ / ("cache/objects/" + Disk::RelativePath(Id(1)));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((path + "/below").c_str(), 0700), 0);
  EXPECT_TRUE(Run("boot-1").empty());
  EXPECT_FALSE(FileExists(1));
}

TEST_F(RecoveryTest, RemovalsAreFinished) {
  Run("boot-1");
  MakeObject(1, ObjectPhase::kSealed, true, true);
  ASSERT_TRUE(index_->RemoveObjects({Id(1)}, Index::Durability::kMachine).ok());
  ASSERT_TRUE(FileExists(1));
  EXPECT_TRUE(Run("boot-1").empty());
  EXPECT_FALSE(FileExists(1));
  EXPECT_TRUE(index_->GetRemovals().value().empty());
}

}  // namespace
}  // namespace stoker
