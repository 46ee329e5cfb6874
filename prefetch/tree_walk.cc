#include "prefetch/tree_walk.h"

#include <pthread.h>
#include <sys/stat.h>

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "cache/base/log.h"

namespace stoker {
namespace {

/// Entries taken from one listing at a time.
constexpr size_t kPageEntries = 256;
/// Directories kept open while what is below them is walked. Deeper ones are read whole and closed, so that a
/// deep tree does not use up the descriptors.
constexpr size_t kMaxOpenDirs = 128;

std::string Join(const std::string& dir, const std::string& name) {
  return dir.empty() ? name : dir + "/" + name;
}

}  // namespace

/// One directory, or the roots. `dir` is listed by one walker at a time and asked for attributes by any; the
/// rest belongs to TreeWalk::mu_.
struct TreeWalk::Level {
  std::string path;
  std::unique_ptr<UfsDir> dir;  // null: the names are all there are, and are asked for by path
  bool roots = false;
  std::vector<std::string> names;
  size_t next = 0;
  bool whole = false;    // no more names will come
  bool listing = false;  // somebody is fetching more
};

TreeWalk::TreeWalk(Ufs& ufs, std::vector<std::string> roots, Visitor& visitor)
    : ufs_(ufs), visitor_(visitor) {
  auto level = std::make_shared<Level>();
  level->roots = true;
  level->names = std::move(roots);
  level->whole = true;
  levels_.push_back(std::move(level));
}

TreeWalk::~TreeWalk() = default;

void TreeWalk::Run() {
  std::vector<std::thread> walkers;
  try {
    while (walkers.size() + 1 < kWalkers) {
      walkers.emplace_back([this] {
        pthread_setname_np(pthread_self(), "stoker-walk");
        Walk();
      });
    }
  } catch (const std::system_error& error) {
    LogWarn("prefetch", "walking with " + std::to_string(walkers.size() + 1) +
                            " threads, no more could be started: " + error.what());
  }
  Walk();
  for (std::thread& walker : walkers) walker.join();
}

void TreeWalk::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  changed_.NotifyAll();
}

void TreeWalk::Walk() {
  std::shared_ptr<Level> level;
  std::optional<std::string> name;
  while (Take(&level, &name)) {
    if (name.has_value()) {
      Visit(*level, *name);
    } else {
      List(*level);
    }
    level.reset();  // closes the directory if we are the last, outside the mutex
    MutexLock lock(mu_);
    --busy_;
    changed_.NotifyAll();
  }
}

bool TreeWalk::Take(std::shared_ptr<Level>* level, std::optional<std::string>* name) {
  std::vector<std::shared_ptr<Level>> ended;  // declared first: closed after the mutex is free
  MutexLock lock(mu_);
  while (!stopped_) {
    for (size_t i = levels_.size(); i-- > 0;) {
      Level& deepest = *levels_[i];
      if (deepest.next < deepest.names.size()) {
        *name = std::move(deepest.names[deepest.next++]);
      } else if (deepest.whole) {
        ended.push_back(std::move(levels_[i]));
        levels_.erase(levels_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      } else if (deepest.listing) {
        continue;  // one above it has something to do meanwhile, perhaps
      } else {
        deepest.listing = true;
        *name = std::nullopt;
      }
      *level = levels_[i];
      ++busy_;
      return true;
    }
    if (busy_ == 0) return false;  // nobody brings more, and whoever waits has been told
    changed_.Wait(mu_);
  }
  return false;
}

void TreeWalk::List(Level& level) {
  std::vector<UfsDirEntry> page;
  const Status status = level.dir->Next(kPageEntries, page);
  if (!status.ok()) visitor_.OnError(level.path, status);
  MutexLock lock(mu_);
  level.listing = false;
  level.names.clear();
  level.next = 0;
  for (UfsDirEntry& entry : page) level.names.push_back(std::move(entry.name));
  level.whole = !status.ok() || level.names.empty();
}

void TreeWalk::Visit(const Level& level, const std::string& name) {
  const std::string path = Join(level.path, name);
  const Result<UfsAttr> attr = level.dir != nullptr ? level.dir->StatEntry(name) : ufs_.Stat(path);
  if (!attr.ok()) {
    // Gone between the listing and now: it is not there to be visited.
    if (level.roots || attr.status().code() != Code::kNotFound) visitor_.OnError(path, attr.status());
    return;
  }
  if (S_ISDIR(attr->mode)) return Open(path);
  visitor_.OnEntry(path, *attr);
}

void TreeWalk::Open(const std::string& path) {
  Result<std::unique_ptr<UfsDir>> dir = ufs_.OpenDir(path);
  if (!dir.ok()) return visitor_.OnError(path, dir.status());
  auto level = std::make_shared<Level>();
  level->path = path;
  level->dir = std::move(dir).value();
  bool read_whole;
  {
    MutexLock lock(mu_);
    read_whole = levels_.size() >= kMaxOpenDirs;
  }
  if (read_whole) {
    std::vector<UfsDirEntry> entries;
    while (true) {
      const size_t before = entries.size();
      const Status status = level->dir->Next(kPageEntries, entries);
      if (!status.ok()) visitor_.OnError(path, status);
      if (!status.ok() || entries.size() == before) break;
    }
    for (UfsDirEntry& entry : entries) level->names.push_back(std::move(entry.name));
    level->whole = true;
    level->dir.reset();
  }
  MutexLock lock(mu_);
  levels_.push_back(std::move(level));
  changed_.NotifyAll();
}

}  // namespace stoker
