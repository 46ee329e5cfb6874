// Random operations on engine, store and UFS against a model: what each version of each file holds.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cache/base/random.h"
#include "prefetch/fetch_engine.h"
#include "prefetch/read_ahead.h"
#include "tests/support/fetch_rig.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

using testing::FetchRig;
using testing::PatternBytes;
constexpr uint64_t kPart = FetchRig::kPart;

struct Pending {
  std::shared_ptr<FetchFile> file;
  ByteRange range;
  std::future<Result<std::string>> got;
  uint64_t ticket;
};

/// Content with holes, as MemUfs wants them.
std::pair<std::string, std::vector<ByteRange>> RandomContent(Random& random) {
  std::string content = PatternBytes(random.Below(5 * kPart), random.Next());
  std::vector<ByteRange> holes;
  if (random.OneIn(3) && content.size() > kPart) {
    const uint64_t begin = AlignDown(random.Below(content.size()), 4096);
    const uint64_t end =
        std::min<uint64_t>(content.size(), begin + AlignUp(random.Below(3 * kPart) + 1, 4096));
    content.replace(begin, end - begin, end - begin, '\0');
    holes.push_back({begin, end});
  }
  return {content, holes};
}

void RunOnce(uint64_t seed, int operations) {
  Random random(seed);
  FetchEngineOptions options = FetchRig::DefaultOptions();
  options.threads = 1 + random.Below(6);
  options.budget_bytes = kPart * (1 + random.Below(8));
  const uint64_t limit = random.OneIn(2) ? 256 * kMiB : kPart * (4 + random.Below(10));
  FetchRig rig(options, limit);
  // Swarm: each run leaves some kinds of operation out.
  const bool with_changes = !random.OneIn(3);
  const bool with_cancels = !random.OneIn(3);
  const bool with_invalidate = !random.OneIn(3);

  std::map<std::string, std::string> model;  // version token → content
  std::vector<std::string> paths = {"a", "b", "c", "d"};
  const auto put = [&](const std::string& path) {
    auto [content, holes] = RandomContent(random);
    rig.mem.Put(path, content, holes);
    model[rig.mem.Stat(path)->version.token] = content;
  };
  for (const std::string& path : paths) put(path);
  std::vector<std::shared_ptr<FetchFile>> open;
  std::vector<Pending> pending;
  std::vector<std::future<Status>> wishes;
  const auto settle = [&](Pending& read) {
    ASSERT_EQ(read.got.wait_for(std::chrono::seconds(30)), std::future_status::ready) << "a reader hangs";
    const Result<std::string> got = read.got.get();
    const std::string& content = model.at(read.file->version().token);
    if (got.ok()) {
      const uint64_t end = std::min<uint64_t>(read.range.end, content.size());
      ASSERT_EQ(*got, read.range.begin < end ? content.substr(read.range.begin, end - read.range.begin) : "");
    } else if (got.status().code() == Code::kCancelled) {
      ASSERT_TRUE(with_cancels);
    } else {
      ASSERT_EQ(got.status().code(), Code::kStale) << got.status().ToString();
      ASSERT_TRUE(with_changes);
    }
  };
  for (int i = 0; i < operations; ++i) {
    const std::string& path = paths[random.Below(random.OneIn(2) ? 1 : paths.size())];
    switch (random.Below(12)) {
      case 0:
        if (open.size() < 8) open.push_back(rig.Open(path));
        break;
      case 1:
        if (!open.empty()) open.erase(open.begin() + static_cast<std::ptrdiff_t>(random.Below(open.size())));
        break;
      case 2:
        if (with_changes) {
          if (random.OneIn(2)) {
            put(path);
          } else {
            const std::string content = PatternBytes(random.Below(3 * kPart), random.Next());
            rig.mem.Overwrite(path, content);
            model[rig.mem.Stat(path)->version.token] = content;
          }
        }
        break;
      case 3:
        if (with_cancels && !pending.empty()) {
          rig.engine->CancelRead(pending[random.Below(pending.size())].ticket);
        }
        break;
      case 4:
        if (with_invalidate && !open.empty())
          rig.store->Invalidate(open[random.Below(open.size())]->object().id());
        break;
      case 5:
        if (!open.empty()) {
          rig.engine->Forget(*open[random.Below(open.size())],
                             static_cast<FetchPriority>(1 + random.Below(3)));
        }
        break;
      case 6:
      case 7:
        if (!open.empty()) {
          const auto& file = open[random.Below(open.size())];
          if (file->object().part_count() == 0) break;
          wishes.push_back(rig.WantLater(file,
                                         static_cast<uint32_t>(random.Below(file->object().part_count())),
                                         static_cast<FetchPriority>(random.Below(4))));
        }
        break;
      case 8:
        rig.clock.Advance(std::chrono::seconds(random.Below(3)));
        break;
      default:
        if (!open.empty()) {
          const auto& file = open[random.Below(open.size())];
          const uint64_t begin = random.Below(file->object().size() + 10);
          Pending read{file, {begin, begin + 1 + random.Below(random.OneIn(3) ? 2 * kPart : 20000)}, {}, 0};
          read.got = rig.ReadLater(read.file, read.range, &read.ticket);
          pending.push_back(std::move(read));
        }
    }
    while (pending.size() > 12) {
      settle(pending.front());
      if (::testing::Test::HasFatalFailure()) return;
      pending.erase(pending.begin());
    }
  }
  for (Pending& read : pending) {
    settle(read);
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (std::future<Status>& wish : wishes) {
    ASSERT_EQ(wish.wait_for(std::chrono::seconds(30)), std::future_status::ready) << "a wish hangs";
  }
  ASSERT_TRUE(rig.Idle(true));
  for (const auto& file : open) {
    const std::string& content = model.at(file->version().token);
    for (uint32_t part = 0; part < file->object().part_count(); ++part) {
      if (!file->object().IsResident(PartIndex{part})) continue;
      const ByteRange range = file->object().PartRange(PartIndex{part});
      ASSERT_EQ(rig.Read(file, range).value(), content.substr(range.begin, range.size()));
    }
  }
}

TEST(EnginePropertyTest, EveryByteIsOfTheVersionThatWasOpened) {
  for (uint64_t round = 0; round < 20; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    RunOnce(testing::TestSeed() * 31 + round, 300);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace stoker
