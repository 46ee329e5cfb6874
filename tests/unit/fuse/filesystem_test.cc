#include "fuse/filesystem.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/random.h"
#include "tests/support/fetch_rig.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using std::chrono::seconds;
using testing::FaultUfs;
using testing::FetchRig;
using testing::PatternBytes;

/// The kernel's side of passthrough: keeps what was registered, and lets a test read through it.
class FakeDevice final : public BackingDevice {
 public:
  Result<int32_t> Register(int fd) override {
    MutexLock lock(mu_);
    if (refuse_) return Status::FromErrno(EPERM, "register");
    files_.emplace(++last_, Fd(::dup(fd)));
    return last_;
  }
  void Unregister(int32_t id) override {
    MutexLock lock(mu_);
    EXPECT_EQ(files_.erase(id), 1U);
  }
  /// The whole file behind an id, or nothing when it is not registered.
  std::optional<std::string> Read(int32_t id, size_t size) {
    MutexLock lock(mu_);
    const auto it = files_.find(id);
    if (it == files_.end()) return std::nullopt;
    std::string bytes(size, '\0');
    if (::pread(it->second.get(), bytes.data(), size, 0) != static_cast<ssize_t>(size)) return std::nullopt;
    return bytes;
  }
  size_t open() {
    MutexLock lock(mu_);
    return files_.size();
  }
  void Refuse(bool refuse) {
    MutexLock lock(mu_);
    refuse_ = refuse;
  }

 private:
  Mutex mu_;
  std::map<int32_t, Fd> files_ GUARDED_BY(mu_);
  int32_t last_ GUARDED_BY(mu_) = 0;
  bool refuse_ GUARDED_BY(mu_) = false;
};

class FakeKernel final : public KernelSide {
 public:
  void InvalidateEntry(const NodeName& name) override {
    MutexLock lock(mu_);
    names_.insert(name.name);
    changed_.NotifyAll();
  }
  /// Waits until the name was invalidated (at most ten seconds) and forgets that it was.
  bool WaitFor(const std::string& name) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(10);
    MutexLock lock(mu_);
    while (names_.count(name) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      changed_.WaitFor(mu_, std::chrono::milliseconds(100));
    }
    names_.erase(name);
    return true;
  }
  size_t count() {
    MutexLock lock(mu_);
    return names_.size();
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::set<std::string> names_ GUARDED_BY(mu_);
};

/// Runs an asynchronous call and waits for its reply.
template <typename T, typename Call>
Result<T> Await(const Call& call) {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> future = promise->get_future();
  call([promise](Result<T> result) { promise->set_value(std::move(result)); });
  return future.get();
}

class FilesystemTest : public ::testing::Test {
 protected:
  FilesystemTest() { Make({}); }
  ~FilesystemTest() override {
    rig_.engine->Stop(seconds(10));
    rig_.faults.Release();
    fs_.reset();
    EXPECT_EQ(rig_.metrics.open_handles.value(), 0);
    EXPECT_EQ(rig_.metrics.open_dirs.value(), 0);
    EXPECT_EQ(rig_.metrics.inodes.value(), 0);
    EXPECT_EQ(rig_.metrics.read_waiting.value(), 0);
    EXPECT_EQ(rig_.metrics.meta_queued.value(), 0);
    EXPECT_EQ(rig_.metrics.backing_ids.value(), 0);
    EXPECT_EQ(device_->open(), 0U);
  }
  void Make(FilesystemOptions options, bool passthrough = true) {
    fs_.reset();
    options.metadata_threads = 4;
    options.open_fetch_bytes = 2 * FetchRig::kPart;
    fs_ = std::make_unique<Filesystem>(options, rig_.faults, *rig_.store, *rig_.engine, rig_.metrics,
                                       rig_.clock);
    fs_->AttachKernel(&kernel_, passthrough ? device_ : nullptr);
  }

  Result<NodeAttr> Lookup(const std::string& name, NodeId parent = kRootNode) {
    return Await<NodeAttr>([&](auto reply) { fs_->Lookup(parent, name, {}, reply); });
  }
  NodeId Node(const std::string& name, NodeId parent = kRootNode) {
    const Result<NodeAttr> found = Lookup(name, parent);
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    return found.ok() ? found->node : 0;
  }
  Result<NodeAttr> GetAttr(NodeId node) {
    return Await<NodeAttr>([&](auto reply) { fs_->GetAttr(node, {}, reply); });
  }
  Result<OpenedFile> Open(NodeId node, int flags = O_RDONLY) {
    return Await<OpenedFile>([&](auto reply) { fs_->Open(node, flags, {}, reply); });
  }
  static Result<std::string> Bytes(const Result<ReadReply>& reply) {
    if (!reply.ok()) return reply.status();
    std::string bytes;
    if (reply->file != nullptr) {
      bytes.resize(reply->range.size());
      const ssize_t got =
          ::pread(reply->file->get(), bytes.data(), bytes.size(), static_cast<off_t>(reply->range.begin));
      if (got != static_cast<ssize_t>(bytes.size())) return Status(Code::kCorruption, "short cache file");
    }
    for (const auto piece : reply->pieces)
      bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return bytes;
  }
  Result<std::string> Read(HandleId handle, uint64_t offset, size_t size) {
    return Bytes(Await<ReadReply>([&](auto reply) { fs_->Read(handle, offset, size, {}, reply); }));
  }
  /// All bytes through the daemon, in small reads.
  Result<std::string> ReadAll(HandleId handle) {
    std::string all;
    while (true) {
      ASSIGN_OR_RETURN(const std::string piece, Read(handle, all.size(), 100'000));
      if (piece.empty()) return all;
      all += piece;
    }
  }
  struct Listed {
    std::string name;
    uint64_t next = 0;
    NodeId node = 0;
  };
  Result<std::vector<Listed>> List(HandleId dir, uint64_t cookie, size_t max, bool with_attr) {
    auto listed = std::make_shared<std::vector<Listed>>();
    const Result<std::vector<NodeId>> counted = Await<std::vector<NodeId>>([&](auto reply) {
      fs_->ReadDir(
          dir, cookie, with_attr,
          [listed, max](const ListedEntry& entry) {
            if (listed->size() == max) return false;
            listed->push_back(
                {std::string(entry.name), entry.next, entry.attr != nullptr ? entry.attr->node : 0});
            return true;
          },
          {}, reply);
    });
    if (!counted.ok()) return counted.status();
    return *listed;
  }

  FetchRig rig_;
  FakeKernel kernel_;
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::unique_ptr<Filesystem> fs_;
};

TEST_F(FilesystemTest, WhatIsFreshIsAnsweredWithoutTheUfs) {
  rig_.mem.Put("d/f", PatternBytes(1000, 1));
  const NodeId d = Node("d");
  const NodeId f = Node("f", d);
  const size_t asked = rig_.faults.Count(FaultUfs::Op::kStat, "d/f");
  EXPECT_EQ(Node("f", d), f);
  EXPECT_EQ(GetAttr(f)->attr.st_size, 1000);
  EXPECT_EQ(rig_.faults.Count(FaultUfs::Op::kStat, "d/f"), asked);
  rig_.clock.Advance(seconds(61));
  EXPECT_EQ(Node("f", d), f);
  EXPECT_EQ(rig_.faults.Count(FaultUfs::Op::kStat, "d/f"), asked + 1);
}

TEST_F(FilesystemTest, MissingNamesAreToldForTheNegativeTtlOtherErrorsAreNotCached) {
  const Result<NodeAttr> missing = Lookup("f");
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(missing->node, 0U);
  EXPECT_EQ(missing->ttl, Nanos(seconds(5)));
  rig_.faults.Add({.op = FaultUfs::Op::kStat, .path = "g", .error = Status::FromErrno(EIO, "g")});
  EXPECT_EQ(Lookup("g").status().os_errno(), EIO);
  rig_.mem.Put("g", "x");
  EXPECT_NE(Node("g"), 0U);
}

TEST_F(FilesystemTest, AbsenceIsBelievedFromTheQuestionOn) {
  rig_.faults.Add(
      {.op = FaultUfs::Op::kStat, .path = "f", .before = [&] { rig_.clock.Advance(seconds(3)); }});
  EXPECT_EQ(Lookup("f")->ttl, Nanos(seconds(2)));
  rig_.faults.Add(
      {.op = FaultUfs::Op::kStat, .path = "g", .before = [&] { rig_.clock.Advance(seconds(9)); }});
  EXPECT_EQ(Lookup("g")->ttl, Nanos(0));
}

TEST_F(FilesystemTest, ALateAnswerThatANameIsMissingDoesNotHideWhatAppearedSince) {
  NodeId appeared = 0;
  rig_.faults.Add(
      {.op = FaultUfs::Op::kStat, .path = "f", .error = Status::FromErrno(ENOENT, "f"), .before = [&] {
         rig_.mem.Put("f", "x");
         rig_.clock.Advance(seconds(1));
         appeared = Node("f");
       }});
  EXPECT_EQ(Node("f"), appeared);
  EXPECT_NE(appeared, 0U);
}

TEST_F(FilesystemTest, ALateAnswerThatAFileIsMissingDoesNotEndANodeFoundSince) {
  rig_.mem.Put("f", "x");
  const NodeId node = Node("f");
  rig_.clock.Advance(seconds(61));
  rig_.faults.Add(
      {.op = FaultUfs::Op::kStat, .path = "f", .error = Status::FromErrno(ENOENT, "f"), .before = [&] {
         rig_.clock.Advance(seconds(1));
         EXPECT_EQ(Node("f"), node);
       }});
  const Result<NodeAttr> attr = GetAttr(node);
  ASSERT_TRUE(attr.ok()) << attr.status().ToString();
  EXPECT_GT(attr->ttl, Nanos(0));
  EXPECT_EQ(Node("f"), node);
}

TEST_F(FilesystemTest, OnlyAnAnswerEndsAFileNotAnError) {
  rig_.mem.Put("f", "x");
  const NodeId node = Node("f");
  for (const int error : {EIO, EACCES, ETIMEDOUT, ELOOP, EINTR, ENOMEM, ENOTCONN}) {
    rig_.clock.Advance(seconds(61));
    rig_.faults.Add({.op = FaultUfs::Op::kStat, .path = "f", .error = Status::FromErrno(error, "f")});
    EXPECT_EQ(Lookup("f").status().os_errno(), error);
    rig_.faults.Add({.op = FaultUfs::Op::kStat, .path = "f", .error = Status::FromErrno(error, "f")});
    EXPECT_EQ(GetAttr(node).status().os_errno(), error);
    EXPECT_EQ(Node("f"), node) << error;
  }
}

TEST_F(FilesystemTest, OpensOfFreshCachedFilesAskTheUfsNothing) {
  rig_.mem.Put("f", PatternBytes(1000, 1));
  const NodeId node = Node("f");
  fs_->Release(Open(node)->handle);
  const size_t asked = rig_.faults.Log().size();
  for (int i = 0; i < 10; ++i) fs_->Release(Open(node)->handle);
  EXPECT_EQ(rig_.faults.Log().size(), asked);
}

TEST_F(FilesystemTest, RulesDecideHowLongAPathIsBelieved) {
  FilesystemOptions options;
  options.rules = {{"still/**", PathClass::kImmutable}, {"*.live", PathClass::kRevalidate, seconds(1)}};
  Make(options);
  rig_.mem.Put("still/f", "x");
  rig_.mem.Put("f.live", "x");
  rig_.mem.Put("f", "x");
  const NodeId still = Node("f", Node("still"));
  const NodeId live = Node("f.live");
  const NodeId plain = Node("f");
  const auto asked = [&](const char* path) { return rig_.faults.Count(FaultUfs::Op::kStat, path); };
  rig_.clock.Advance(seconds(2));
  EXPECT_EQ(GetAttr(live)->ttl, Nanos(seconds(1)));
  EXPECT_EQ(asked("f.live"), 2U);
  EXPECT_TRUE(GetAttr(plain).ok());
  EXPECT_EQ(asked("f"), 1U);
  rig_.clock.Advance(std::chrono::hours(24 * 365));
  EXPECT_TRUE(GetAttr(still).ok());
  fs_->Release(Open(still)->handle);
  EXPECT_EQ(asked("still/f"), 1U);
  EXPECT_TRUE(GetAttr(plain).ok());
  EXPECT_EQ(asked("f"), 2U);
}

TEST_F(FilesystemTest, SkippedFilesAreReadFromTheUfsAndNeverStored) {
  FilesystemOptions options;
  options.rules = {{"*.tmp", PathClass::kSkip}};
  Make(options);
  const std::string bytes = PatternBytes(3 * FetchRig::kPart, 5);
  rig_.mem.Put("f.tmp", bytes);
  const Result<OpenedFile> opened = Open(Node("f.tmp"));
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(opened->backing_id, 0);
  EXPECT_EQ(*ReadAll(opened->handle), bytes);
  EXPECT_EQ(rig_.store->Usage().objects, 0U);
  rig_.mem.Put("f.tmp", PatternBytes(100, 6));
  // The old file was replaced, not written to: it may still be read, but never as another version.
  const Result<std::string> late = Read(opened->handle, 0, 100);
  EXPECT_TRUE(late.ok() ? *late == bytes.substr(0, 100) : late.status().code() == Code::kStale);
  fs_->Release(opened->handle);
  // Within metadata.ttl the name still stands for the old file; an open finds out, and the kernel looks it up
  // anew.
  if (late.ok()) {
    EXPECT_EQ(Open(Node("f.tmp")).status().code(), Code::kStale);
  }
  const Result<OpenedFile> again = Open(Node("f.tmp"));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(*ReadAll(again->handle), PatternBytes(100, 6));
  fs_->Release(again->handle);
}

TEST_F(FilesystemTest, ASkippedFileThatChangedIsNotOpenedAsWhatItWas) {
  FilesystemOptions options;
  options.rules = {{"*.tmp", PathClass::kSkip}};
  Make(options);
  rig_.mem.Put("f.tmp", "old");
  const NodeId node = Node("f.tmp");
  rig_.mem.Put("f.tmp", "newer");
  EXPECT_EQ(Open(node).status().code(), Code::kStale);
  const Result<OpenedFile> opened = Open(Node("f.tmp"));
  EXPECT_EQ(*ReadAll(opened->handle), "newer");
  fs_->Release(opened->handle);
}

TEST_F(FilesystemTest, SmallFilesAreFetchedInsideOpen) {
  const std::string bytes = PatternBytes(FetchRig::kPart + 100, 2);
  rig_.mem.Put("f", bytes);
  const Result<OpenedFile> opened = Open(Node("f"));
  ASSERT_TRUE(opened.ok());
  ASSERT_GT(opened->backing_id, 0);
  EXPECT_EQ(device_->Read(opened->backing_id, bytes.size()), bytes);
  // posix_fadvise(WILLNEED) sends the daemon a READ all the same.
  EXPECT_EQ(*ReadAll(opened->handle), bytes);
  const Result<OpenedFile> again = Open(Node("f"));
  EXPECT_EQ(again->backing_id, opened->backing_id);
  fs_->Release(opened->handle);
  fs_->Release(again->handle);
  EXPECT_EQ(device_->open(), 1U) << "kept for the next open";
}

TEST_F(FilesystemTest, LargeFilesAreServedColdAndTurnHotUnderANewNode) {
  const std::string bytes = PatternBytes(5 * FetchRig::kPart + 7, 3);
  rig_.mem.Put("f", bytes);
  const NodeId cold = Node("f");
  const Result<OpenedFile> opened = Open(cold);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->backing_id, 0);
  EXPECT_EQ(*ReadAll(opened->handle), bytes);
  ASSERT_TRUE(kernel_.WaitFor("f"));
  const NodeId hot = Node("f");
  EXPECT_NE(hot, cold);
  EXPECT_EQ(GetAttr(hot)->attr.st_ino, GetAttr(cold)->attr.st_ino);
  const Result<OpenedFile> fast = Open(hot);
  ASSERT_GT(fast->backing_id, 0);
  EXPECT_EQ(device_->Read(fast->backing_id, bytes.size()), bytes);
  const Result<OpenedFile> late = Open(cold);
  EXPECT_EQ(late->backing_id, 0) << "the kernel answers EIO to a mix of modes";
  for (const HandleId handle : {opened->handle, fast->handle, late->handle}) fs_->Release(handle);
  EXPECT_GT(Open(cold)->backing_id, 0) << "without opens the node may take the mode that fits";
}

TEST_F(FilesystemTest, WithoutPassthroughOrWhenRefusedTheDaemonServes) {
  const std::string bytes = PatternBytes(1000, 4);
  rig_.mem.Put("f", bytes);
  device_->Refuse(true);
  Result<OpenedFile> opened = Open(Node("f"));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->backing_id, 0);
  EXPECT_EQ(*ReadAll(opened->handle), bytes);
  device_->Refuse(false);
  Make({}, false);
  opened = Open(Node("f"));
  EXPECT_EQ(opened->backing_id, 0);
  EXPECT_EQ(*ReadAll(opened->handle), bytes);
}

TEST_F(FilesystemTest, EmptyFilesNeedNoObject) {
  rig_.mem.Put("f", "");
  const Result<OpenedFile> opened = Open(Node("f"));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(*ReadAll(opened->handle), "");
  EXPECT_EQ(rig_.store->Usage().objects, 0U);
}

TEST_F(FilesystemTest, WritingIsErofs) {
  rig_.mem.Put("f", "x");
  const NodeId f = Node("f");
  for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC}) {
    EXPECT_EQ(Open(f, flags).status().os_errno(), EROFS);
  }
}

TEST_F(FilesystemTest, ANewVersionIsANewNodeAndTheOldOneIsStale) {
  rig_.mem.Put("f", PatternBytes(1000, 5));
  const NodeId old = Node("f");
  rig_.mem.Put("f", PatternBytes(2000, 6));
  EXPECT_EQ(GetAttr(old)->attr.st_size, 1000) << "within the TTL";
  rig_.clock.Advance(seconds(61));
  EXPECT_EQ(GetAttr(old).status().code(), Code::kStale);
  EXPECT_TRUE(kernel_.WaitFor("f"));
  EXPECT_EQ(Open(old).status().code(), Code::kStale);
  const NodeId fresh = Node("f");
  EXPECT_NE(fresh, old);
  EXPECT_EQ(GetAttr(fresh)->attr.st_size, 2000);
}

TEST_F(FilesystemTest, AnOpenIsRevalidatedAfterTheTtl) {
  rig_.mem.Put("f", PatternBytes(1000, 5));
  const NodeId old = Node("f");
  rig_.clock.Advance(seconds(61));
  Result<OpenedFile> opened = Open(old);
  ASSERT_TRUE(opened.ok());
  fs_->Release(opened->handle);
  rig_.mem.Put("f", PatternBytes(1000, 6));
  rig_.clock.Advance(seconds(61));
  EXPECT_EQ(Open(old).status().code(), Code::kStale);
  EXPECT_TRUE(kernel_.WaitFor("f"));
  rig_.mem.Remove("f");
  rig_.clock.Advance(seconds(61));
  const Result<NodeAttr> gone = Lookup("f");
  ASSERT_TRUE(gone.ok());
  EXPECT_EQ(gone->node, 0U);
}

TEST_F(FilesystemTest, OldHandlesKeepTheirSnapshotAndMissingPartsAreStale) {
  const std::string bytes = PatternBytes(8 * FetchRig::kPart, 7);
  rig_.mem.Put("f", bytes);
  FilesystemOptions options;
  options.read_ahead.enabled = false;
  Make(options);
  const NodeId old = Node("f");
  const Result<OpenedFile> opened = Open(old);
  EXPECT_EQ(*Read(opened->handle, 0, 100), bytes.substr(0, 100));
  ASSERT_TRUE(rig_.Idle());
  rig_.mem.Overwrite("f", PatternBytes(FetchRig::kPart, 8));
  // The TTL has a minute to go: only the fetch finds out.
  EXPECT_EQ(Read(opened->handle, 7 * FetchRig::kPart, 100).status().code(), Code::kStale);
  EXPECT_TRUE(kernel_.WaitFor("f"));
  EXPECT_EQ(*Read(opened->handle, 50, 100), bytes.substr(50, 100));
  EXPECT_EQ(GetAttr(old)->attr.st_size, static_cast<off_t>(bytes.size())) << "fstat of an open handle";
  EXPECT_NE(Node("f"), old);
  fs_->Release(opened->handle);
  EXPECT_EQ(GetAttr(old).status().code(), Code::kStale);
}

TEST_F(FilesystemTest, AReplacedFileStaysReadableThroughOldHandles) {
  const std::string bytes = PatternBytes(8 * FetchRig::kPart, 7);
  rig_.mem.Put("f", bytes);
  const Result<OpenedFile> opened = Open(Node("f"));
  EXPECT_EQ(*Read(opened->handle, 0, 100), bytes.substr(0, 100));
  rig_.mem.Put("f", PatternBytes(100, 8));  // another inode under the name; the old one is still open
  EXPECT_EQ(*ReadAll(opened->handle), bytes);
}

TEST_F(FilesystemTest, AnOpenThatFindsTheVersionGoneSaysStaleSoThatThePathIsLookedUpAgain) {
  rig_.mem.Put("f", PatternBytes(1000, 9));
  const NodeId node = Node("f");
  rig_.mem.Put("f", PatternBytes(1000, 10));
  EXPECT_EQ(Open(node).status().code(), Code::kStale);
  EXPECT_TRUE(kernel_.WaitFor("f"));
  EXPECT_TRUE(Open(Node("f")).ok());
}

TEST_F(FilesystemTest, EvictionClosesUnusedIdsAndLeavesUsedOnes) {
  const std::string bytes = PatternBytes(1000, 11);
  rig_.mem.Put("a", bytes);
  rig_.mem.Put("b", bytes);
  const NodeId a = Node("a");
  const NodeId b = Node("b");
  const Result<OpenedFile> used = Open(a);
  const Result<OpenedFile> unused = Open(b);
  fs_->Release(unused->handle);
  ASSERT_EQ(device_->open(), 2U);
  rig_.store->Invalidate(MakeObjectId(rig_.mem.Stat("a")->version));
  rig_.store->Invalidate(MakeObjectId(rig_.mem.Stat("b")->version));
  ASSERT_TRUE(kernel_.WaitFor("a"));
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  while (device_->open() != 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(device_->Read(used->backing_id, bytes.size()), bytes) << "a snapshot, though its name is gone";
  const Result<OpenedFile> late = Open(a);
  EXPECT_EQ(late->backing_id, used->backing_id) << "another id would be EIO";
  const NodeId fresh = Node("a");
  EXPECT_NE(fresh, a);
  const Result<OpenedFile> again = Open(fresh);
  EXPECT_GT(again->backing_id, 0);
  EXPECT_NE(again->backing_id, used->backing_id);
  for (const HandleId handle : {used->handle, late->handle, again->handle}) fs_->Release(handle);
}

TEST_F(FilesystemTest, ACacheFileThatLostItsBytesCostsTheApplicationNothing) {
  const std::string bytes = PatternBytes(3 * FetchRig::kPart, 12);
  rig_.mem.Put("f", bytes);
  Make({}, false);
  const Result<OpenedFile> opened = Open(Node("f"));
  EXPECT_EQ(*ReadAll(opened->handle), bytes);
  ASSERT_TRUE(rig_.Idle());
  const Result<ReadReply> hit =
      Await<ReadReply>([&](auto reply) { fs_->Read(opened->handle, 1000, 5000, {}, reply); });
  ASSERT_TRUE(hit.ok());
  ASSERT_NE(hit->file, nullptr);
  const ByteRange range = hit->range;
  EXPECT_EQ(*Bytes(Await<ReadReply>([&](auto reply) { fs_->ReadSalvage(opened->handle, range, {}, reply); })),
            bytes.substr(1000, 5000));
  EXPECT_EQ(rig_.metrics.cache_damaged_parts.value(), 1U);
  EXPECT_EQ(*ReadAll(opened->handle), bytes);
}

TEST_F(FilesystemTest, ACacheFileThatWasTakenAwayIsCachedAnew) {
  const std::string bytes = PatternBytes(1000, 19);
  rig_.mem.Put("f", bytes);
  fs_->Release(Open(Node("f"))->handle);
  ASSERT_TRUE(rig_.Idle());
  ASSERT_TRUE(rig_.store->Flush(seconds(10)).ok());
  Make({});  // forgets the backing id; the store opens the file again
  const ObjectId id = MakeObjectId(rig_.mem.Stat("f")->version);
  const std::string hex = id.ToHex();
  ASSERT_EQ(::unlink((rig_.dir_ / ("cache/objects/" + hex.substr(0, 2) + "/" + hex)).c_str()), 0);
  for (int i = 0; i < 3; ++i) {
    const Result<OpenedFile> opened = Open(Node("f"));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    EXPECT_EQ(*ReadAll(opened->handle), bytes);
    ASSERT_TRUE(rig_.Idle());
    fs_->Release(opened->handle);
  }
  EXPECT_EQ(rig_.store->Usage().complete_objects, 1U);
}

TEST_F(FilesystemTest, UfsTroubleIsAnErrorOnceAndWorksAgainAfterwards) {
  rig_.mem.Put("f", PatternBytes(4 * FetchRig::kPart, 13));
  FilesystemOptions options;
  options.read_ahead.enabled = false;
  Make(options);
  const Result<OpenedFile> opened = Open(Node("f"));
  rig_.faults.Add(
      {.op = FaultUfs::Op::kRead, .path = "f", .times = 1000, .error = Status::FromErrno(EIO, "disk")});
  EXPECT_FALSE(Read(opened->handle, 0, 10).ok());
  EXPECT_EQ(rig_.metrics.read_errors.value(), 1U);
  rig_.faults.Release();
  EXPECT_EQ(*Read(opened->handle, 0, 10), rig_.mem.Content("f").substr(0, 10));
}

TEST_F(FilesystemTest, ReadsAreCutAtTheEndAndCounted) {
  const std::string bytes = PatternBytes(1000, 14);
  rig_.mem.Put("f", bytes);
  Make({}, false);
  const Result<OpenedFile> opened = Open(Node("f"));
  EXPECT_EQ(*Read(opened->handle, 900, 4096), bytes.substr(900));
  EXPECT_EQ(rig_.metrics.read_misses.value(), 1U);
  ASSERT_TRUE(rig_.Idle());
  EXPECT_EQ(*Read(opened->handle, 0, 4096), bytes);
  EXPECT_EQ(*Read(opened->handle, 1000, 4096), "");
  EXPECT_EQ(*Read(opened->handle, 1 << 20, 4096), "");
  EXPECT_EQ(rig_.metrics.read_hits.value(), 3U);
  EXPECT_EQ(rig_.metrics.read_requests.value(), 4U);
  EXPECT_EQ(Read(99, 0, 1).status().os_errno(), EBADF);
}

TEST_F(FilesystemTest, AnInterruptAnswersAtOnceAndTheLateResultIsUndone) {
  rig_.mem.Put("f", PatternBytes(1000, 15));
  rig_.faults.Add({.op = FaultUfs::Op::kStat, .path = "f", .hang = true});
  std::promise<WaitId> waiting;
  std::promise<Result<NodeAttr>> answer;
  Caller caller;
  caller.on_wait = [&](WaitId id) { waiting.set_value(id); };
  fs_->Lookup(kRootNode, "f", caller, [&](Result<NodeAttr> result) { answer.set_value(std::move(result)); });
  ASSERT_TRUE(rig_.faults.WaitForHanging(1));
  fs_->Interrupt(waiting.get_future().get());
  EXPECT_EQ(answer.get_future().get().status().code(), Code::kCancelled);
  rig_.faults.Release();
  fs_->Forget(Node("f"), 1);
  const auto deadline = std::chrono::steady_clock::now() + seconds(10);
  while (rig_.metrics.inodes.value() != 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(rig_.metrics.inodes.value(), 0) << "the late result counted a lookup that the kernel never saw";
}

TEST_F(FilesystemTest, AnInterruptedReadLeavesOthersOfThePartAlone) {
  const std::string bytes = PatternBytes(4 * FetchRig::kPart, 16);
  rig_.mem.Put("f", bytes);
  FilesystemOptions options;
  options.read_ahead.enabled = false;
  Make(options);
  const Result<OpenedFile> opened = Open(Node("f"));
  std::promise<void> go;
  rig_.faults.Add({.op = FaultUfs::Op::kRead, .path = "f", .before = [&] { go.get_future().wait(); }});
  std::promise<WaitId> waiting;
  std::promise<Result<ReadReply>> first;
  std::promise<Result<ReadReply>> second;
  Caller caller;
  caller.on_wait = [&](WaitId id) { waiting.set_value(id); };
  fs_->Read(opened->handle, 0, 100, caller,
            [&](Result<ReadReply> result) { first.set_value(std::move(result)); });
  fs_->Read(opened->handle, 100, 100, {},
            [&](Result<ReadReply> result) { second.set_value(std::move(result)); });
  EXPECT_EQ(rig_.metrics.read_waiting.value(), 2);
  fs_->Interrupt(waiting.get_future().get());
  EXPECT_EQ(first.get_future().get().status().code(), Code::kCancelled);
  go.set_value();
  EXPECT_EQ(*Bytes(second.get_future().get()), bytes.substr(100, 100));
  EXPECT_EQ(rig_.metrics.read_errors.value(), 0U);
}

TEST_F(FilesystemTest, ShutdownAnswersEveryoneAndRefusesTheRest) {
  rig_.mem.Put("f", PatternBytes(4 * FetchRig::kPart, 17));
  rig_.mem.Put("g", "x");
  const Result<OpenedFile> opened = Open(Node("f"));
  rig_.faults.Add({.op = FaultUfs::Op::kStat, .path = "g", .hang = true});
  std::promise<void> go;
  rig_.faults.Add({.op = FaultUfs::Op::kRead, .path = "f", .before = [&] { go.get_future().wait(); }});
  std::promise<Result<NodeAttr>> lookup;
  std::promise<Result<ReadReply>> read;
  fs_->Lookup(kRootNode, "g", {}, [&](Result<NodeAttr> result) { lookup.set_value(std::move(result)); });
  fs_->Read(opened->handle, 0, 100, {}, [&](Result<ReadReply> result) { read.set_value(std::move(result)); });
  ASSERT_TRUE(rig_.faults.WaitForHanging(1));
  fs_->Shutdown();
  EXPECT_EQ(lookup.get_future().get().status().os_errno(), ENOTCONN);
  EXPECT_EQ(read.get_future().get().status().os_errno(), ENOTCONN);
  EXPECT_TRUE(fs_->stuck());
  EXPECT_EQ(Lookup("h").status().os_errno(), ENOTCONN);
  go.set_value();
  rig_.faults.Release();
}

TEST_F(FilesystemTest, ListingsHaveStablePositionsAndStartOverFresh) {
  for (int i = 0; i < 50; ++i) rig_.mem.Put("d/f" + std::to_string(i), "x");
  const NodeId d = Node("d");
  const HandleId dir = Await<OpenedDir>([&](auto reply) { fs_->OpenDir(d, {}, reply); })->handle;
  const std::vector<Listed> all = *List(dir, 0, 1000, false);
  ASSERT_EQ(all.size(), 52U);
  EXPECT_EQ(all[0].name, ".");
  EXPECT_EQ(all[1].name, "..");
  for (const size_t from : {51U, 0U, 30U, 2U}) {
    const std::vector<Listed> rest = *List(dir, from == 0 ? 0 : all[from - 1].next, 3, true);
    for (size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].name, all[from + i].name);
    for (const Listed& entry : rest) {
      if (entry.node != 0) fs_->Forget(entry.node, 1);
    }
  }
  EXPECT_TRUE(List(dir, all.back().next, 10, false)->empty());
  rig_.mem.Put("d/new", "x");
  EXPECT_EQ(List(dir, all[9].next, 1000, false)->size(), 42U) << "a listing under way does not move";
  EXPECT_EQ(List(dir, 0, 1000, false)->size(), 53U) << "rewinddir shows what is there now";
  fs_->ReleaseDir(dir);
}

TEST_F(FilesystemTest, ListedEntriesWithAttributesCountAsLookups) {
  rig_.mem.Put("d/a", PatternBytes(10, 1));
  rig_.mem.Put("d/b", PatternBytes(20, 1));
  const NodeId d = Node("d");
  const HandleId dir = Await<OpenedDir>([&](auto reply) { fs_->OpenDir(d, {}, reply); })->handle;
  const std::vector<Listed> entries = *List(dir, 0, 10, true);
  for (const Listed& entry : entries) {
    if (entry.node == 0) continue;
    EXPECT_EQ(Node(entry.name, d), entry.node);
    EXPECT_EQ(GetAttr(entry.node)->attr.st_size, entry.name == "a" ? 10 : 20);
    fs_->Forget(entry.node, 2);
    EXPECT_EQ(GetAttr(entry.node).status().code(), Code::kStale) << "all lookups given back";
  }
  fs_->ReleaseDir(dir);
}

TEST_F(FilesystemTest, HolesAreTheUfssAndPositionsBehindTheEndAreEnxio) {
  std::string bytes = PatternBytes(4 * FetchRig::kPart, 18);
  std::fill(bytes.begin(), bytes.begin() + static_cast<long>(FetchRig::kPart), '\0');
  rig_.mem.Put("f", bytes, {{0, FetchRig::kPart}});
  const HandleId handle = Open(Node("f"))->handle;
  const auto seek = [&](uint64_t at, SeekTarget target) {
    return Await<uint64_t>([&](auto reply) { fs_->Seek(handle, at, target, {}, reply); });
  };
  EXPECT_EQ(*seek(0, SeekTarget::kData), FetchRig::kPart);
  EXPECT_EQ(*seek(0, SeekTarget::kHole), 0U);
  EXPECT_EQ(*seek(FetchRig::kPart, SeekTarget::kHole), bytes.size());
  EXPECT_EQ(seek(bytes.size(), SeekTarget::kData).status().os_errno(), ENXIO);
}

/// Random histories of applications, a changing UFS and a forgetful cache, against the kernel's rules and the
/// UFS's bytes: every read gives bytes of the handle's version or kStale; opens of one node that live
/// together have one mode and one registered id; everything is given back at the end.
TEST_F(FilesystemTest, RandomHistoriesGiveRightBytesAndOneModePerNode) {
  Random random(testing::TestSeed());
  struct KernelOpen {
    HandleId handle;
    int32_t backing_id;
    std::string bytes;  // of the version that was current when the node was looked up
  };
  struct KernelNode {
    uint64_t lookups = 0;
    std::string name;
    std::string bytes;
    std::vector<KernelOpen> opens;
  };
  std::map<NodeId, KernelNode> kernel;
  const std::vector<std::string> names = {"a", "b", "c"};
  uint64_t serial = 100;
  const auto change = [&](const std::string& name) {
    // Small ones are fetched inside OPEN, large ones turn hot later.
    const uint64_t size = random.OneIn(8) ? 0 : 1 + random.Below(4 * FetchRig::kPart);
    rig_.mem.Put(name, PatternBytes(size, ++serial));
  };
  for (const std::string& name : names) change(name);
  uint64_t reads = 0, stale = 0, hot = 0, cold = 0;
  for (int step = 0; step < 3000 && !HasFailure(); ++step) {
    const std::string& name = names[random.Below(names.size())];
    const uint64_t kind = random.Below(100);
    if (kind < 20) {
      const Result<NodeAttr> found = Lookup(name);
      if (!found.ok() || found->node == 0) continue;
      KernelNode& node = kernel[found->node];
      if (node.lookups++ == 0) {
        node.name = name;
        // Which version the node is, is known by size and serial: content is compared on reads. The UFS
        // changes only in this thread, so a fresh stat saw what is there now; older nodes were recorded when
        // they were new.
        node.bytes = rig_.mem.Content(name);
      }
    } else if (kind < 45) {
      if (kernel.empty()) continue;
      auto it = kernel.begin();
      std::advance(it, static_cast<long>(random.Below(kernel.size())));
      const Result<OpenedFile> opened = Open(it->first);
      if (!opened.ok()) {
        ASSERT_EQ(opened.status().code(), Code::kStale) << opened.status().ToString();
        continue;
      }
      for (const KernelOpen& other : it->second.opens) {
        ASSERT_EQ(other.backing_id, opened->backing_id) << "the kernel would answer EIO";
      }
      opened->backing_id > 0 ? ++hot : ++cold;
      it->second.opens.push_back({opened->handle, opened->backing_id, it->second.bytes});
    } else if (kind < 80) {
      std::vector<const KernelOpen*> opens;
      for (const auto& [id, node] : kernel) {
        for (const KernelOpen& open : node.opens) opens.push_back(&open);
      }
      if (opens.empty()) continue;
      const KernelOpen& open = *opens[random.Below(opens.size())];
      ++reads;
      if (open.backing_id > 0 && random.OneIn(2)) {
        ASSERT_EQ(device_->Read(open.backing_id, open.bytes.size()), open.bytes);
        continue;
      }
      const uint64_t at = random.Below(open.bytes.size() + 1);
      const size_t size = 1 + random.Below(FetchRig::kPart);
      const Result<std::string> got = Read(open.handle, at, size);
      if (got.ok()) {
        ASSERT_TRUE(*got == open.bytes.substr(at, size)) << "wrong bytes";
      } else {
        ASSERT_EQ(got.status().code(), Code::kStale) << got.status().ToString();
        ++stale;
      }
    } else if (kind < 90) {
      if (kernel.empty()) continue;
      auto it = kernel.begin();
      std::advance(it, static_cast<long>(random.Below(kernel.size())));
      if (!it->second.opens.empty()) {
        fs_->Release(it->second.opens.back().handle);
        it->second.opens.pop_back();
      } else {
        fs_->Forget(it->first, it->second.lookups);
        kernel.erase(it);
      }
    } else if (kind < 93) {
      change(name);
      rig_.clock.Advance(seconds(61));  // what was known is not fresh any more
    } else if (kind < 96) {
      const Result<UfsAttr> attr = rig_.mem.Stat(name);
      rig_.store->Invalidate(MakeObjectId(attr->version));
    } else {
      rig_.clock.Advance(seconds(random.Below(40)));
    }
  }
  EXPECT_GT(reads, 100U);
  EXPECT_GT(hot, 0U);
  EXPECT_GT(cold, 0U);
  for (auto& [id, node] : kernel) {
    for (const KernelOpen& open : node.opens) fs_->Release(open.handle);
    fs_->Forget(id, node.lookups);
  }
  kernel.clear();
  EXPECT_EQ(rig_.metrics.open_handles.value(), 0);
  EXPECT_EQ(rig_.metrics.inodes.value(), 0);
  EXPECT_EQ(rig_.metrics.read_errors.value(), stale);
}

}  // namespace
}  // namespace stoker
