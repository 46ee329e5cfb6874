// The rules of the test disk: which operation on which file goes wrong, when, and how.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <random>
#include <set>
#include <string>

namespace stoker::testing {

/// What happens to an operation.
struct Verdict {
  enum class Kind {
    kPass,   ///< nothing: the backing file system's own answer
    kError,  ///< `error` is returned, nothing is done
    kShort,  ///< read, write: half of the bytes, and an answer that says so
    kTorn,   ///< write: half of the bytes land, the answer is `error`
    kLose,   ///< write: no byte lands, the answer says all did
    kFlip,   ///< read: one bit of the answer is another
  };
  Kind kind = Kind::kPass;
  int error = 0;
  uint64_t random = 0;  ///< seeded by the rule; for kFlip: which bit
};

/// Rules, in the order they were added; the first that fires decides. Any thread.
class Rules {
 public:
  /// Adds the rule "op=read,write glob=objects/* do=eio nth=3 count=2 p=0.5 seed=7 ms=20". All but `do` may
  /// be left out: every operation, every file, from the first call, for ever, always. `op` is a list of names
  /// of the operations of fault_fs.cc, or `all`, or `modify` (whatever changes the disk). `nth` counts the
  /// calls that match. `do`: an errno as eio, enospc, erofs; short, torn, lose, flip; slow (waits `ms`); hang
  /// (waits until the rule is gone, then goes on). Returns the rule's number, or 0 with the reason in *why.
  int Add(const std::string& text, std::string* why);
  /// Takes one rule away, or with 0 all of them. What hangs because of it goes on.
  void Remove(int id);
  /// Like Remove(0), and no rule is ever added again: for the end.
  void Close();
  /// JSON: [{"id":1,"rule":"…","matched":3,"fired":1,"waiting":0},…]
  [[nodiscard]] std::string Report() const;

  /// Asks what becomes of this call. Waits here when a rule says so.
  [[nodiscard]] Verdict Ask(const char* op, const std::string& path);

 private:
  struct Rule {
    int id = 0;
    std::string text, action = "";
    std::set<std::string> ops;
    std::string glob = "*";
    uint64_t nth = 1, count = 0, ms = 0;
    double probability = 1;
    std::mt19937_64 random;
    Verdict verdict;
    uint64_t matched = 0, fired = 0, waiting = 0;
  };
  [[nodiscard]] bool Exists(int id) const;  // caller holds mutex_

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Rule> rules_;
  int last_id_ = 0;
  bool closed_ = false;
};

}  // namespace stoker::testing
