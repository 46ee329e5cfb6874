// A child works on a store and is killed, at a named point or at a random moment; the parent opens what is
// left. A part whose commit had returned is there, what is there is right, and no file is left that the index
// does not know.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/store/store_support.h"

extern char** environ;

namespace stoker {
namespace {

using testing::StorePart;

constexpr uint64_t kPart = 16 * kKiB;
constexpr uint64_t kNames = 20;

#if defined(STOKER_SYNC_POINTS)
/// Where work is interrupted in builds that have the points.
constexpr const char* kPoints[] = {"store.file.created",        "store.part.before_index",
                                   "store.part.committed",      "store.object.before_seal",
                                   "store.object.sealed",       "store.evict.before_index",
                                   "store.evict.before_unlink", "store.evict.done"};
#endif

uint64_t SizeOf(uint64_t name) {
  return (name % 5) * kPart + name * 37;
}
FileVersion VersionOf(uint64_t name) {
  return testing::Version("crash-" + std::to_string(name), SizeOf(name));
}
/// What every run stores for this part.
std::vector<std::byte> BytesOf(uint64_t name, uint32_t part, uint64_t size) {
  Random random(name * 1000 + part);
  return testing::RandomBytes(random, size);
}
ObjectStoreOptions Options(const std::string& dir) {
  return {
      .dir = dir, .limit_bytes = 25 * kPart, .part_length = kPart, .low_watermark = 0.7, .max_open_files = 4};
}

/// The child's side: works until it is killed, and writes a line before and after each thing it does.
TEST(StoreCrashChild, Works) {
  const char* dir = std::getenv("STOKER_CRASH_DIR");
  if (dir == nullptr) GTEST_SKIP() << "started by the tests below only";
  Metrics metrics;
  auto opened = ObjectStore::Open(Options(dir), metrics, Clock::Real());
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  ObjectStore& store = *opened.value();
  Random random(testing::TestSeed());
  const int journal = ::open(std::getenv("STOKER_CRASH_JOURNAL"), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(journal, 0);
  const auto note = [&](const std::string& line) {
    ASSERT_EQ(::write(journal, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  };
  while (true) {
    const uint64_t name = random.Below(kNames);
    if (random.OneIn(15)) {
      store.Invalidate(MakeObjectId(VersionOf(name)));
      continue;
    }
    auto acquired = store.Acquire(VersionOf(name), "crash", 0);
    ASSERT_TRUE(acquired.ok()) << acquired.status().ToString();
    const ObjectRef& object = acquired.value();
    // Held for good while noted: neither evicted nor invalidated between this line and the end of the
    // process.
    for (uint32_t part = 0; part < object.part_count(); ++part) {
      const auto index = static_cast<PartIndex>(part);
      if (object.IsResident(index) || random.OneIn(4)) continue;
      const Status stored =
          StorePart(store, object, index, BytesOf(name, part, object.PartRange(index).size()));
      if (stored.code() == Code::kNoSpace) continue;
      ASSERT_TRUE(stored.ok()) << stored.ToString();
      note("held " + std::to_string(name) + " " + std::to_string(part) + "\n");
    }
    if (object.part_count() == 0) {
      ASSERT_TRUE(object.File().ok());
    }
    note("released\n");
  }
}

class StoreCrash : public ::testing::Test {
 protected:
  struct Ended {
    int signal = 0;
    int status = 0;
  };
  /// Runs the child until it ends; kills it after `kill_after` unless that is zero.
  Ended RunChild(const std::string& kill_point, std::chrono::microseconds kill_after) {
    std::ofstream(journal_, std::ios::trunc);
    std::vector<std::string> env;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const std::string text = *variable;
      if (text.rfind("TEST_SEED=", 0) != 0 && text.rfind("STOKER_", 0) != 0) env.push_back(text);
    }
    env.push_back("TEST_SEED=" + std::to_string(random_.Next() >> 1));
    env.push_back("STOKER_CRASH_DIR=" + (dir_ / "cache"));
    env.push_back("STOKER_CRASH_JOURNAL=" + journal_);
    if (!kill_point.empty()) env.push_back("STOKER_KILL_POINT=" + kill_point);
    std::vector<char*> env_pointers;
    for (std::string& one : env) env_pointers.push_back(one.data());
    env_pointers.push_back(nullptr);
    std::string self = std::filesystem::read_symlink("/proc/self/exe");
    std::string filter = "--gtest_filter=StoreCrashChild.Works";
    char* args[] = {self.data(), filter.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const std::string output = dir_ / "child.log";
    ::posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child = 0;
    EXPECT_EQ(::posix_spawn(&child, self.c_str(), &actions, nullptr, args, env_pointers.data()), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    if (kill_after.count() > 0) {
      // From its first line of work on: a random moment of work, not of starting up.
      const auto started_by = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (std::filesystem::file_size(journal_) == 0 && std::chrono::steady_clock::now() < started_by) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::this_thread::sleep_for(kill_after);
      ::kill(child, SIGKILL);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    Ended ended;
    if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
    if (WIFEXITED(status)) ended.status = WEXITSTATUS(status);
    if (ended.signal != SIGKILL) {
      std::stringstream said;
      said << std::ifstream(output).rdbuf();
      ADD_FAILURE() << "the child ended by itself, status " << ended.status << ", signal " << ended.signal
                    << "\n"
                    << said.str();
    }
    return ended;
  }

  /// Opens what the child left and holds it against what it said.
  void CheckWhatIsLeft() {
    Metrics metrics;
    auto opened = ObjectStore::Open(Options(dir_ / "cache"), metrics, Clock::Real());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    ObjectStore& store = *opened.value();
    // What its last object had when it was still held.
    std::set<std::pair<uint64_t, uint32_t>> committed;
    std::ifstream journal(journal_);
    for (std::string line; std::getline(journal, line);) {
      if (line == "released") {
        committed.clear();
        continue;
      }
      std::istringstream fields(line);
      std::string word;
      uint64_t name = 0;
      uint32_t part = 0;
      if (fields >> word >> name >> part) committed.emplace(name, part);
    }
    uint64_t resident = 0;
    for (uint64_t name = 0; name < kNames; ++name) {
      const auto found = store.Find(VersionOf(name));
      if (!found.ok()) {
        for (const auto& [lost, part] : committed)
          ASSERT_NE(lost, name) << "part " << part << " was committed";
        continue;
      }
      const ObjectRef& object = found.value();
      for (uint32_t part = 0; part < object.part_count(); ++part) {
        const auto index = static_cast<PartIndex>(part);
        if (!object.IsResident(index)) {
          ASSERT_FALSE(committed.contains({name, part})) << name << " " << part << " was committed";
          continue;
        }
        ++resident;
        ASSERT_EQ(testing::ReadPart(object, index), BytesOf(name, part, object.PartRange(index).size()));
        ASSERT_TRUE(store.Verify(object, index).ok());
      }
    }
    resident_ += resident;
    ASSERT_TRUE(store.Flush(std::chrono::seconds(30)).ok());
    uint64_t files = 0, bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "cache/objects")) {
      struct stat info = {};
      if (!entry.is_regular_file() || ::stat(entry.path().c_str(), &info) != 0) continue;
      ++files;
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    ASSERT_EQ(store.Usage().objects, files) << "a file without a row, or a row without a file";
    ASSERT_EQ(store.Usage().used_bytes, bytes);
    ASSERT_EQ(metrics.cache_damaged_parts.value(), 0u);
  }

  testing::TempDir dir_;
  const std::string journal_ = dir_ / "journal";
  Random random_{testing::TestSeed()};
  uint64_t resident_ = 0;  // parts found after all crashes together
};

TEST_F(StoreCrash, KilledAtRandomMomentsTheStoreIsWholeEachTime) {
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    RunChild("", std::chrono::microseconds(1 + random_.Below(60'000)));
    CheckWhatIsLeft();
    if (HasFailure()) return;
  }
  EXPECT_GT(resident_, 0u);
}

#if defined(STOKER_SYNC_POINTS)
TEST_F(StoreCrash, KilledAtEachNamedPointTheStoreIsWholeEachTime) {
  for (int round = 0; round < 2; ++round) {
    for (const char* point : kPoints) {
      SCOPED_TRACE(point);
      // The first passing in one round, a later one in the other.
      RunChild(std::string(point) + ":" + std::to_string(1 + round * (1 + random_.Below(5))), {});
      CheckWhatIsLeft();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(resident_, 0u);
}
#endif

}  // namespace
}  // namespace stoker
