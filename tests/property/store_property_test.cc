// Random work on a store and on a model of it (a map): what the store says is resident must be what was put
// there, pins hold, the books equal the disk, and nothing is there that the model does not know.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/store/store_support.h"

namespace stoker {
namespace {

using testing::RandomBytes;
using testing::ReadPart;
using testing::StorePart;

constexpr uint64_t kPart = 16 * kKiB;
constexpr uint64_t kMaxParts = 6;
constexpr uint64_t kNames = 12;

/// How often to repeat: STOKER_PROPERTY_STEPS for a long night.
int Steps() {
  const char* text = std::getenv("STOKER_PROPERTY_STEPS");
  return text != nullptr ? std::atoi(text) : 2000;
}

/// What the model knows of one object: the bytes that were last committed for each part. The store may have
/// forgotten any of them, never anything else.
struct ModelObject {
  FileVersion version;
  std::map<uint32_t, std::vector<std::byte>> parts;
};

/// What all refs to one object of one time share: parts that must stay as long as one of them lives.
struct Snapshot {
  std::map<uint32_t, std::vector<std::byte>> resident;
  bool attached = true;  // not invalidated yet
};
struct Held {
  ObjectRef object;
  std::shared_ptr<Snapshot> snapshot;
};

class StoreProperty : public ::testing::Test {
 public:
  void Open() {
    auto opened = ObjectStore::Open({.dir = dir_ / "cache",
                                     .limit_bytes = limit_,
                                     .part_length = kPart,
                                     .low_watermark = 0.8,
                                     .policy = policy_,
                                     .max_open_files = 3},
                                    metrics_, Clock::Real());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(opened).value();
  }
  void Settle() { ASSERT_TRUE(store_->Flush(std::chrono::seconds(30)).ok()); }

  ModelObject& PickObject() {
    // A third of the picks go to two hot names.
    const uint64_t name = random_.OneIn(3) ? random_.Below(2) : random_.Below(kNames);
    ModelObject& object = model_[name];
    if (object.version.token.empty()) {
      object.version = testing::Version("p-" + std::to_string(name), random_.Below(kMaxParts * kPart));
    }
    return object;
  }
  Held* PickHeld() { return held_.empty() ? nullptr : &held_[random_.Below(held_.size())]; }

  void CheckHeld(const Held& held) {
    const auto& resident = held.snapshot->resident;
    for (uint32_t part = 0; part < held.object.part_count(); ++part) {
      const auto index = static_cast<PartIndex>(part);
      ASSERT_EQ(held.object.IsResident(index), resident.contains(part)) << "part " << part;
      if (!resident.contains(part)) continue;
      ASSERT_EQ(ReadPart(held.object, index), resident.at(part));
    }
    ASSERT_EQ(held.object.complete(), resident.size() == held.object.part_count());
  }

  void Acquire() {
    if (held_.size() >= 4) return;
    ModelObject& object = PickObject();
    auto acquired = store_->Acquire(object.version, "property", 0);
    ASSERT_TRUE(acquired.ok()) << acquired.status().ToString();
    Held held{std::move(acquired).value(), nullptr};
    for (const Held& other : held_) {
      if (other.snapshot->attached && other.object.id() == held.object.id()) held.snapshot = other.snapshot;
    }
    if (held.snapshot == nullptr) {
      held.snapshot = std::make_shared<Snapshot>();
      for (uint32_t part = 0; part < held.object.part_count(); ++part) {
        if (!held.object.IsResident(static_cast<PartIndex>(part))) continue;
        ASSERT_TRUE(object.parts.contains(part)) << "resident, but never committed";
        held.snapshot->resident[part] = object.parts.at(part);
      }
    }
    CheckHeld(held);
    held_.push_back(std::move(held));
  }
  void Release() {
    if (held_.empty()) return;
    const auto it = held_.begin() + static_cast<ptrdiff_t>(random_.Below(held_.size()));
    CheckHeld(*it);
    held_.erase(it);
  }
  void Commit() {
    Held* held = PickHeld();
    if (held == nullptr || held->object.part_count() == 0) return;
    const auto part = static_cast<uint32_t>(random_.Below(held->object.part_count()));
    if (held->snapshot->resident.contains(part)) return;  // resident bytes are never rewritten
    const auto index = static_cast<PartIndex>(part);
    const uint64_t size = held->object.PartRange(index).size();
    const auto bytes = random_.OneIn(8) ? std::vector<std::byte>(size) : RandomBytes(random_, size);
    const Status stored = StorePart(*store_, held->object, index, bytes);
    if (stored.code() == Code::kNoSpace) return;
    ASSERT_TRUE(stored.ok()) << stored.ToString();
    held->snapshot->resident[part] = bytes;
    if (held->snapshot->attached) ByToken(held->object.id()).parts[part] = bytes;
  }
  /// The fetch that was given up half way: bytes in the file, no commit.
  void Abandon() {
    Held* held = PickHeld();
    if (held == nullptr || held->object.part_count() == 0) return;
    const auto index = static_cast<PartIndex>(random_.Below(held->object.part_count()));
    if (held->object.IsResident(index)) return;
    const ByteRange range = held->object.PartRange(index);
    const auto reservation = store_->Reserve(held->object, range.size());
    if (!reservation.ok()) return;
    const auto file = held->object.File();
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    const auto bytes = RandomBytes(random_, 1 + random_.Below(range.size()));
    ASSERT_EQ(::pwrite(file.value()->get(), bytes.data(), bytes.size(), static_cast<off_t>(range.begin)),
              static_cast<ssize_t>(bytes.size()));
  }
  void Invalidate() {
    ModelObject& object = PickObject();
    const ObjectId id = MakeObjectId(object.version);
    store_->Invalidate(id);
    Detach(id);
  }
  void Detach(const ObjectId& id) {
    ByToken(id).parts.clear();
    for (Held& held : held_) {
      if (held.object.id() == id) held.snapshot->attached = false;
    }
  }
  void Drop() {
    Held* held = PickHeld();
    if (held == nullptr || held->snapshot->resident.empty()) return;
    const uint32_t part = held->snapshot->resident.begin()->first;
    const bool whole = held->object.complete();
    const ObjectId id = held->object.id();
    store_->DropDamaged(held->object, static_cast<PartIndex>(part));
    held->snapshot->resident.erase(part);
    if (!held->snapshot->attached) return;
    if (whole) {
      Detach(id);
    } else {
      ByToken(id).parts.erase(part);
    }
  }
  void VerifyOne() {
    Held* held = PickHeld();
    if (held == nullptr || held->snapshot->resident.empty()) return;
    const uint32_t part = held->snapshot->resident.rbegin()->first;
    const Status verified = store_->Verify(held->object, static_cast<PartIndex>(part));
    if (held->snapshot->attached) {
      ASSERT_TRUE(verified.ok()) << verified.ToString();
    } else {
      ASSERT_EQ(verified.code(), Code::kStale);
    }
  }
  void Reopen() {
    for (const Held& held : held_) CheckHeld(held);
    held_.clear();
    store_.reset();
    // Sometimes with another limit or policy, sometimes after a reboot: the shutdown was clean, so nothing is
    // lost.
    if (random_.OneIn(2)) limit_ = (8 + random_.Below(40)) * kPart;
    if (random_.OneIn(2)) policy_ = static_cast<CachePolicy>(random_.Below(4));
    ::setenv("STOKER_BOOT_ID", ("boot-" + std::to_string(random_.Below(3))).c_str(), 1);
    Open();
    Settle();  // what is over a smaller limit goes in the background
  }
  ModelObject& ByToken(const ObjectId& id) {
    for (auto& [name, object] : model_) {
      if (!object.version.token.empty() && MakeObjectId(object.version) == id) return object;
    }
    ADD_FAILURE() << "an object that the model does not know";
    return model_[0];
  }

  /// Everything at rest: the books against the disk, every object against the model.
  void CheckAll() {
    for (const Held& held : held_) CheckHeld(held);
    held_.clear();
    Settle();
    uint64_t bytes = 0, files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "cache/objects")) {
      struct stat info = {};
      if (!entry.is_regular_file() || ::stat(entry.path().c_str(), &info) != 0) continue;
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
      ++files;
    }
    const StoreUsage usage = store_->Usage();
    ASSERT_EQ(usage.used_bytes, bytes);
    ASSERT_EQ(usage.objects, files);
    ASSERT_EQ(usage.reserved_bytes, 0u);
    ASSERT_LE(usage.used_bytes, limit_);
    ASSERT_EQ(metrics_.cache_used_bytes.value(), static_cast<int64_t>(bytes));
    ASSERT_EQ(metrics_.cache_pinned_objects.value(), 0);
    uint64_t known = 0, complete = 0;
    for (auto& [name, object] : model_) {
      const auto found = store_->Find(object.version);
      if (!found.ok()) {
        object.parts.clear();
        continue;
      }
      ++known;
      complete += found.value().complete();
      std::map<uint32_t, std::vector<std::byte>> left;
      for (uint32_t part = 0; part < found.value().part_count(); ++part) {
        const auto index = static_cast<PartIndex>(part);
        if (!found.value().IsResident(index)) continue;
        ASSERT_TRUE(object.parts.contains(part));
        ASSERT_EQ(ReadPart(found.value(), index), object.parts.at(part));
        ASSERT_TRUE(store_->Verify(found.value(), index).ok());
        left[part] = object.parts.at(part);
      }
      object.parts = std::move(left);
    }
    ASSERT_EQ(metrics_.cache_complete_objects.value(), static_cast<int64_t>(usage.complete_objects));
    ASSERT_EQ(usage.complete_objects, complete);
    ASSERT_GE(files, known);
  }

  testing::TempDir dir_;
  Metrics metrics_;
  Random random_{testing::TestSeed()};
  uint64_t limit_ = 30 * kPart;
  CachePolicy policy_ = static_cast<CachePolicy>(random_.Below(4));
  std::unique_ptr<ObjectStore> store_;
  std::map<uint64_t, ModelObject> model_;
  std::vector<Held> held_;
};

TEST_F(StoreProperty, AgreesWithAModelWhateverIsDone) {
  Open();
  using Action = void (StoreProperty::*)();
  struct Choice {
    Action act;
    uint64_t weight;
  };
  std::vector<Choice> choices = {
      {&StoreProperty::Acquire, 20},   {&StoreProperty::Release, 12},   {&StoreProperty::Commit, 60},
      {&StoreProperty::Abandon, 4},    {&StoreProperty::Invalidate, 3}, {&StoreProperty::Drop, 4},
      {&StoreProperty::VerifyOne, 10}, {&StoreProperty::CheckAll, 2},   {&StoreProperty::Reopen, 1}};
  // Some runs do without some kinds of work: what hides behind a frequent action comes out that way.
  for (size_t i = 3; i < choices.size(); ++i) {
    if (random_.OneIn(4)) choices[i].weight = 0;
  }
  uint64_t total = 0;
  for (const Choice& choice : choices) total += choice.weight;
  const int steps = Steps();
  for (int step = 0; step < steps; ++step) {
    uint64_t drawn = random_.Below(total);
    for (const Choice& choice : choices) {
      if (drawn >= choice.weight) {
        drawn -= choice.weight;
        continue;
      }
      (this->*choice.act)();
      break;
    }
    if (HasFatalFailure()) FAIL() << "at step " << step;
    const StoreUsage usage = store_->Usage();
    ASSERT_LE(usage.used_bytes + usage.reserved_bytes, limit_ + kMaxParts * kPart * 4) << "step " << step;
  }
  CheckAll();
  if (HasFatalFailure()) return;
  EXPECT_GT(metrics_.cache_committed_parts.value(), 0u);
  ::unsetenv("STOKER_BOOT_ID");
}

}  // namespace
}  // namespace stoker
