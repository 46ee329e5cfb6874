#include "prefetch/read_ahead.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cache/base/random.h"
#include "tests/support/fetch_rig.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using testing::FaultUfs;
using testing::FetchRig;
using testing::PatternBytes;
constexpr uint64_t kPart = FetchRig::kPart;

/// One open handle as the daemon uses it: tells the read-ahead, then reads.
class Handle {
 public:
  Handle(FetchRig& rig, std::shared_ptr<FetchFile> file, ReadAheadOptions options = {})
      : rig_(rig),
        file_(std::move(file)),
        ahead_(std::make_unique<ReadAhead>(options, *rig.engine, file_, rig.metrics)) {}
  std::string Read(ByteRange range) {
    range.end = std::min(range.end, file_->object().size());
    ahead_->OnRead(range, !file_->object().IsResident(range));
    return rig_.Read(file_, range).value();
  }
  void Close() { ahead_.reset(); }

 private:
  FetchRig& rig_;
  std::shared_ptr<FetchFile> file_;
  std::unique_ptr<ReadAhead> ahead_;
};

TEST(ReadAheadTest, ASequentialReaderFetchesEveryPartOnceAndNothingElse) {
  FetchRig rig;
  const std::string content = PatternBytes(40 * kPart + 777, 1);
  rig.mem.Put("f", content);
  Handle handle(rig, rig.Open("f"));
  std::string got;
  for (uint64_t at = 0; at < content.size(); at += 128 * kKiB) got += handle.Read({at, at + 128 * kKiB});
  EXPECT_EQ(got, content);
  ASSERT_TRUE(rig.Idle());
  handle.Close();
  EXPECT_EQ(rig.faults.BytesRead("f"), content.size());
  EXPECT_EQ(rig.metrics.fetch_parts.value(), 41u);
  EXPECT_GE(rig.metrics.prefetch_parts.value(), 39u);
  EXPECT_EQ(rig.metrics.prefetch_wasted_bytes.value(), 0u);
  EXPECT_GE(rig.metrics.prefetch_useful_bytes.value(), 38 * kPart);
  EXPECT_LE(rig.metrics.prefetch_useful_bytes.value(), content.size());
}

TEST(ReadAheadTest, NeverMoreThanMaxPartsAhead) {
  FetchRig rig;
  rig.mem.Put("f", PatternBytes(64 * kPart, 2));
  const auto file = rig.Open("f");
  Handle handle(rig, file, {.enabled = true, .max_parts = 4});
  for (uint64_t part = 0; part < 10; ++part) {
    handle.Read({part * kPart, (part + 1) * kPart});
    ASSERT_TRUE(rig.Idle());
    for (uint64_t p = part + 5; p < 64; ++p) {
      EXPECT_FALSE(file->object().IsResident(PartIndex{static_cast<uint32_t>(p)})) << part << " " << p;
    }
  }
  EXPECT_TRUE(file->object().IsResident(PartIndex{13}));
}

TEST(ReadAheadTest, RandomReadsBringNothingAhead) {
  FetchRig rig;
  const std::string content = PatternBytes(200 * kPart, 3);
  rig.mem.Put("f", content);
  Handle handle(rig, rig.Open("f"));
  Random random(testing::TestSeed());
  for (int i = 0; i < 50; ++i) {
    const uint64_t at = random.Below(content.size() / 4096) * 4096;
    EXPECT_EQ(handle.Read({at, at + 4096}), content.substr(at, 4096));
  }
  ASSERT_TRUE(rig.Idle());
  EXPECT_LE(rig.metrics.prefetch_parts.value(), 2u);
}

TEST(ReadAheadTest, SwitchedOff) {
  for (const ReadAheadOptions options : {ReadAheadOptions{.enabled = false, .max_parts = 4},
                                         ReadAheadOptions{.enabled = true, .max_parts = 0}}) {
    FetchRig rig;
    rig.mem.Put("f", PatternBytes(10 * kPart, 4));
    Handle handle(rig, rig.Open("f"), options);
    for (uint64_t part = 0; part < 5; ++part) handle.Read({part * kPart, (part + 1) * kPart});
    ASSERT_TRUE(rig.Idle());
    EXPECT_EQ(rig.metrics.prefetch_parts.value(), 0u);
    EXPECT_EQ(rig.metrics.fetch_parts.value(), 5u);
  }
}

TEST(ReadAheadTest, WhatNobodyReadIsWastedOnce) {
  FetchRig rig;
  rig.mem.Put("f", PatternBytes(20 * kPart, 5));
  Handle handle(rig, rig.Open("f"));
  handle.Read({0, kPart});          // wants part 1
  handle.Read({kPart, 2 * kPart});  // uses it; wants 2 and 3
  ASSERT_TRUE(rig.Idle());
  EXPECT_EQ(rig.metrics.prefetch_useful_bytes.value(), kPart);
  EXPECT_EQ(rig.metrics.prefetch_wasted_bytes.value(), 0u);
  handle.Close();
  EXPECT_EQ(rig.metrics.prefetch_wasted_bytes.value(), 2 * kPart);
}

TEST(ReadAheadTest, ClosingCancelsWhatHasNotStarted) {
  FetchEngineOptions options = FetchRig::DefaultOptions();
  options.threads = 2;  // one of them for readers only
  FetchRig rig(options);
  rig.mem.Put("hold", "x");
  rig.mem.Put("f", PatternBytes(20 * kPart, 6));
  rig.faults.Add({.op = FaultUfs::Op::kOpen, .path = "hold", .hang = true});
  const auto hold = rig.WantLater(rig.Open("hold"), 0);
  ASSERT_TRUE(rig.faults.WaitForHanging(1));
  Handle handle(rig, rig.Open("f"));
  handle.Read({0, kPart});
  EXPECT_EQ(rig.metrics.fetch_queued.value(), 1);
  handle.Close();
  EXPECT_EQ(rig.metrics.fetch_queued.value(), 0);
  rig.faults.Release();
  ASSERT_TRUE(rig.Idle());
  EXPECT_EQ(rig.faults.BytesRead("f"), kPart);
  EXPECT_EQ(rig.metrics.prefetch_wasted_bytes.value(), 0u);
}

TEST(ReadAheadTest, WithoutRoomAReaderStillRunsAheadFromMemory) {
  FetchRig rig(FetchRig::DefaultOptions(), 4 * kPart);
  const std::string content = PatternBytes(40 * kPart, 7);
  rig.mem.Put("f", content);
  Handle handle(rig, rig.Open("f"));
  std::string got;
  for (uint64_t at = 0; at < content.size(); at += 128 * kKiB) got += handle.Read({at, at + 128 * kKiB});
  EXPECT_EQ(got, content);
  EXPECT_GT(rig.metrics.fetch_bypassed.value(), 30u);
  EXPECT_LE(rig.faults.BytesRead("f"), content.size() + content.size() / 50);
}

TEST(ReadAheadTest, TwoHandlesOfOneFileShareTheFetches) {
  FetchRig rig;
  const std::string content = PatternBytes(20 * kPart, 8);
  rig.mem.Put("f", content);
  const auto file = rig.Open("f");
  Handle a(rig, file);
  Handle b(rig, file);
  for (uint64_t part = 0; part < 20; ++part) {
    EXPECT_EQ(a.Read({part * kPart, (part + 1) * kPart}), content.substr(part * kPart, kPart));
    EXPECT_EQ(b.Read({part * kPart, (part + 1) * kPart}), content.substr(part * kPart, kPart));
  }
  ASSERT_TRUE(rig.Idle());
  EXPECT_EQ(rig.faults.BytesRead("f"), content.size());
}

}  // namespace
}  // namespace stoker
