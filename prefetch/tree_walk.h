#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/base/mutex.h"
#include "cache/base/result.h"
#include "cache/ufs/ufs.h"

namespace stoker {

/// Visits everything at and below some UFS paths, once. On a UFS where each question takes a round trip, one
/// question at a time is what limits a tree of small files; here several threads ask, and visit, side by
/// side.
///
/// Bounded memory, whatever the tree: the deepest directory that has entries left goes first, so that what is
/// known and not yet visited is some pages of names per thread and level. Symlinks are not followed.
///
/// Run() once, by one thread; Stop() any thread.
class TreeWalk {
 public:
  /// Threads that ask at once, Run()'s caller among them: at 1 ms a round trip it is 8000 files a second,
  /// more than one engine brings in; a metadata server that serves many nodes should not get more from each.
  static constexpr size_t kWalkers = 8;

  /// Called by several threads at once, without a lock. A visitor that waits slows the walk down.
  class Visitor {
   public:
    /// Anything that is no directory.
    virtual void OnEntry(const std::string& path, const UfsAttr& attr) = 0;
    /// The path cannot be looked at, or the directory not be listed (further). What has gone between its
    /// listing and now is not told.
    virtual void OnError(const std::string& path, const Status& why) = 0;

   protected:
    ~Visitor() = default;
  };

  TreeWalk(Ufs& ufs, std::vector<std::string> roots, Visitor& visitor);
  ~TreeWalk();
  TreeWalk(const TreeWalk&) = delete;
  TreeWalk& operator=(const TreeWalk&) = delete;

  /// Returns when all is visited, or soon after Stop(): then what is being asked or visited is still ended.
  void Run() EXCLUDES(mu_);
  void Stop() EXCLUDES(mu_);

 private:
  struct Level;

  void Walk() EXCLUDES(mu_);
  /// The deepest level with something to do, and its next name, or none: it is to be listed further, by us.
  /// Waits while others may bring more; false when all is done.
  bool Take(std::shared_ptr<Level>* level, std::optional<std::string>* name) EXCLUDES(mu_);
  void List(Level& level) EXCLUDES(mu_);
  void Visit(const Level& level, const std::string& name) EXCLUDES(mu_);
  void Open(const std::string& path) EXCLUDES(mu_);

  Ufs& ufs_;
  Visitor& visitor_;
  Mutex mu_;
  CondVar changed_;
  std::vector<std::shared_ptr<Level>> levels_ GUARDED_BY(mu_);  // deeper ones later
  size_t busy_ GUARDED_BY(mu_) = 0;                             // walkers that may bring more
  bool stopped_ GUARDED_BY(mu_) = false;
};

}  // namespace stoker
