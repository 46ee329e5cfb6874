#include "prefetch/tree_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/base/random.h"
#include "tests/support/fault_ufs.h"
#include "tests/support/mem_ufs.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using testing::FaultUfs;
using ::testing::IsEmpty;
using testing::MemUfs;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class Recorder final : public TreeWalk::Visitor {
 public:
  void OnEntry(const std::string& path, const UfsAttr&) override {
    MutexLock lock(mu_);
    ++entries_[path];
  }
  void OnError(const std::string& path, const Status& why) override {
    MutexLock lock(mu_);
    errors_.emplace_back(path, why.code());
  }
  std::map<std::string, int> entries() const {
    MutexLock lock(mu_);
    return entries_;
  }
  std::vector<std::pair<std::string, Code>> errors() const {
    MutexLock lock(mu_);
    return errors_;
  }

 private:
  mutable Mutex mu_;
  std::map<std::string, int> entries_ GUARDED_BY(mu_);
  std::vector<std::pair<std::string, Code>> errors_ GUARDED_BY(mu_);
};

/// Lets the first `wanted` callers on only when that many are inside at once, and knows the most there ever
/// were.
class Meeting {
 public:
  explicit Meeting(size_t wanted) : wanted_(wanted) {}
  void Come() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mu_);
    most_ = std::max(most_, ++inside_);
    changed_.NotifyAll();
    while (most_ < wanted_ && std::chrono::steady_clock::now() < end) {
      changed_.WaitFor(mu_, std::chrono::milliseconds(10));
    }
    // Others get the chance to come in while we are here.
    lock.Unlock();
    std::this_thread::yield();
    lock.Lock();
    --inside_;
  }
  size_t most() const {
    MutexLock lock(mu_);
    return most_;
  }

 private:
  const size_t wanted_;
  mutable Mutex mu_;
  CondVar changed_;
  size_t inside_ GUARDED_BY(mu_) = 0;
  size_t most_ GUARDED_BY(mu_) = 0;
};

class TreeWalkTest : public ::testing::Test {
 protected:
  void Walk(std::vector<std::string> roots) { TreeWalk(faults_, std::move(roots), seen_).Run(); }

  MemUfs mem_;
  FaultUfs faults_{mem_};
  Recorder seen_;
};

TEST_F(TreeWalkTest, VisitsEachEntryOnceWhateverTheShape) {
  Random random(testing::TestSeed());
  std::map<std::string, int> expected;
  for (int i = 0; i < 2000; ++i) {
    std::string path = "t";
    for (uint64_t depth = random.Below(6); depth > 0; --depth) path += "/d" + std::to_string(random.Below(4));
    path += "/f" + std::to_string(random.Below(400));
    mem_.Put(path, "x");
    expected[path] = 1;
  }
  mem_.PutOther("t/link", S_IFLNK);
  mem_.PutOther("t/empty", S_IFDIR);
  mem_.Put("elsewhere", "x");
  expected["t/link"] = 1;
  Walk({"t"});
  EXPECT_EQ(seen_.entries(), expected);
  EXPECT_THAT(seen_.errors(), IsEmpty());
}

TEST_F(TreeWalkTest, RootsMayBeFilesAndAMissingOneIsAnError) {
  mem_.Put("a", "x");
  mem_.Put("d/b", "x");
  Walk({"a", "d", "gone"});
  EXPECT_THAT(seen_.entries(), ElementsAre(Pair("a", 1), Pair("d/b", 1)));
  EXPECT_THAT(seen_.errors(), ElementsAre(Pair("gone", Code::kNotFound)));
}

TEST_F(TreeWalkTest, TellsWhatCannotBeListedOrLookedAtButNotWhatHasGone) {
  for (const char* path : {"ok", "shut/f", "bad", "gone"}) mem_.Put(path, "x");
  faults_.Add({.op = FaultUfs::Op::kList, .path = "shut", .error = Status(Code::kPermissionDenied, "shut")});
  faults_.Add({.op = FaultUfs::Op::kStat, .path = "bad", .error = Status(Code::kIo, "bad")});
  faults_.Add({.op = FaultUfs::Op::kStat, .path = "gone", .error = Status(Code::kNotFound, "gone")});
  Walk({""});
  EXPECT_THAT(seen_.entries(), ElementsAre(Pair("ok", 1)));
  EXPECT_THAT(seen_.errors(),
              UnorderedElementsAre(Pair("shut", Code::kPermissionDenied), Pair("bad", Code::kIo)));
}

TEST_F(TreeWalkTest, LooksAtSeveralFilesAtOnceAndNeverAtMore) {
  for (int i = 0; i < 1000; ++i) mem_.Put("d/f" + std::to_string(i), "x");
  Meeting meeting(TreeWalk::kWalkers);
  faults_.Add({.op = FaultUfs::Op::kStat, .first = 2, .times = 100000, .before = [&] { meeting.Come(); }});
  Walk({"d"});
  EXPECT_EQ(meeting.most(), TreeWalk::kWalkers);
  EXPECT_EQ(seen_.entries().size(), 1000u);
}

TEST_F(TreeWalkTest, OpensSeveralDirectoriesAtOnceAndNeverMore) {
  for (int i = 0; i < 100; ++i) mem_.Put("d/e" + std::to_string(i) + "/f", "x");
  Meeting meeting(TreeWalk::kWalkers);
  faults_.Add({.op = FaultUfs::Op::kList, .first = 2, .times = 100000, .before = [&] { meeting.Come(); }});
  Walk({"d"});
  EXPECT_EQ(meeting.most(), TreeWalk::kWalkers);
  EXPECT_EQ(seen_.entries().size(), 100u);
}

TEST_F(TreeWalkTest, WhatIsOpenDoesNotGrowWithTheTree) {
  for (int i = 0; i < 1000; ++i) {
    const std::string digits = std::to_string(1000 + i);
    mem_.Put("d/" + digits.substr(1, 1) + "/" + digits.substr(2, 1) + "/" + digits.substr(3, 1) + "/f", "x");
  }
  Walk({"d"});
  EXPECT_EQ(seen_.entries().size(), 1000u);
  // 1111 directories in four levels; each walker holds a few a level.
  EXPECT_LE(faults_.MaxOpenDirs(), 2 * 4 * TreeWalk::kWalkers);
}

/// Ends its walk at the tenth entry.
class Stopper final : public TreeWalk::Visitor {
 public:
  void OnEntry(const std::string&, const UfsAttr&) override {
    if (++count_ == 10) walk_->Stop();
  }
  void OnError(const std::string&, const Status&) override { ++count_; }
  void set_walk(TreeWalk* walk) { walk_ = walk; }
  size_t count() const { return count_.load(); }

 private:
  TreeWalk* walk_ = nullptr;
  std::atomic<size_t> count_{0};
};

TEST_F(TreeWalkTest, StopsAfterWhatIsUnderWay) {
  for (int i = 0; i < 1000; ++i) mem_.Put("d/f" + std::to_string(i), "x");
  Stopper stopper;
  TreeWalk walk(faults_, {"d"}, stopper);
  stopper.set_walk(&walk);
  walk.Run();
  EXPECT_GE(stopper.count(), 10u);
  EXPECT_LT(stopper.count(), 10 + TreeWalk::kWalkers);
}

TEST_F(TreeWalkTest, StoppedBeforeItRunsItVisitsNothing) {
  mem_.Put("f", "x");
  TreeWalk walk(faults_, {""}, seen_);
  walk.Stop();
  walk.Run();
  EXPECT_THAT(seen_.entries(), IsEmpty());
}

}  // namespace
}  // namespace stoker
