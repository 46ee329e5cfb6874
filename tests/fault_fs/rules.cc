#include "tests/fault_fs/rules.h"

#include <fnmatch.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <sstream>

namespace stoker::testing {

namespace {

const std::map<std::string, int> kErrors = {{"eio", EIO},       {"enospc", ENOSPC}, {"erofs", EROFS},
                                            {"eacces", EACCES}, {"edquot", EDQUOT}, {"enodev", ENODEV},
                                            {"emfile", EMFILE}};
const std::set<std::string> kOps = {"lookup",  "getattr",  "setattr",   "open",     "create", "read",
                                    "write",   "fsync",    "fallocate", "lseek",    "mkdir",  "unlink",
                                    "rmdir",   "rename",   "symlink",   "readlink", "link",   "opendir",
                                    "readdir", "fsyncdir", "statfs"};
const std::set<std::string> kModify = {"setattr", "create", "write",  "fallocate", "mkdir",
                                       "unlink",  "rmdir",  "rename", "symlink",   "link"};

bool ParseOps(const std::string& list, std::set<std::string>* ops, std::string* why) {
  std::istringstream words(list);
  for (std::string op; std::getline(words, op, ',');) {
    if (op == "all") {
      ops->insert(kOps.begin(), kOps.end());
    } else if (op == "modify") {
      ops->insert(kModify.begin(), kModify.end());
    } else if (kOps.contains(op)) {
      ops->insert(op);
    } else {
      *why = "there is no operation '" + op + "'";
      return false;
    }
  }
  return true;
}

}  // namespace

int Rules::Add(const std::string& text, std::string* why) {
  Rule rule;
  rule.text = text;
  uint64_t seed = 1;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    try {
      if (key == "op") {
        if (!ParseOps(value, &rule.ops, why)) return 0;
      } else if (key == "glob") {
        rule.glob = value;
      } else if (key == "do") {
        rule.action = value;
      } else if (key == "nth") {
        rule.nth = std::stoull(value);
      } else if (key == "count") {
        rule.count = std::stoull(value);
      } else if (key == "p") {
        rule.probability = std::stod(value);
      } else if (key == "seed") {
        seed = std::stoull(value);
      } else if (key == "ms") {
        rule.ms = std::stoull(value);
      } else {
        *why = "there is no key '" + key + "'";
        return 0;
      }
    } catch (const std::exception&) {
      *why = "'" + word + "' is no number";
      return 0;
    }
  }
  const auto error = kErrors.find(rule.action);
  using Kind = Verdict::Kind;
  if (error != kErrors.end()) {
    rule.verdict = {Kind::kError, error->second};
  } else if (rule.action == "short") {
    rule.verdict.kind = Kind::kShort;
  } else if (rule.action == "torn") {
    rule.verdict = {Kind::kTorn, EIO};
  } else if (rule.action == "lose") {
    rule.verdict.kind = Kind::kLose;
  } else if (rule.action == "flip") {
    rule.verdict.kind = Kind::kFlip;
  } else if (rule.action != "slow" && rule.action != "hang") {
    *why = "there is no do='" + rule.action + "'";
    return 0;
  }
  if (rule.ops.empty()) rule.ops = kOps;
  rule.random.seed(seed);
  const std::lock_guard lock(mutex_);
  if (closed_) {
    *why = "the disk is being unmounted";
    return 0;
  }
  rule.id = ++last_id_;
  rules_.push_back(std::move(rule));
  return last_id_;
}

void Rules::Remove(int id) {
  const std::lock_guard lock(mutex_);
  rules_.remove_if([id](const Rule& rule) { return id == 0 || rule.id == id; });
  changed_.notify_all();
}

void Rules::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  Remove(0);
}

std::string Rules::Report() const {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  out << "[";
  for (const Rule& rule : rules_) {
    out << (&rule == &rules_.front() ? "" : ",") << R"({"id":)" << rule.id << R"(,"rule":")" << rule.text
        << R"(","matched":)" << rule.matched << R"(,"fired":)" << rule.fired << R"(,"waiting":)"
        << rule.waiting << "}";
  }
  out << "]";
  return out.str();
}

bool Rules::Exists(int id) const {
  for (const Rule& rule : rules_) {
    if (rule.id == id) return true;
  }
  return false;
}

Verdict Rules::Ask(const char* op, const std::string& path) {
  std::unique_lock lock(mutex_);
  for (Rule& rule : rules_) {
    if (!rule.ops.contains(op) || ::fnmatch(rule.glob.c_str(), path.c_str(), 0) != 0) continue;
    if (++rule.matched < rule.nth || (rule.count != 0 && rule.fired >= rule.count)) continue;
    const uint64_t drawn = rule.random();
    if (static_cast<double>(drawn >> 11) * 0x1p-53 >= rule.probability) continue;
    ++rule.fired;
    Verdict verdict = rule.verdict;
    verdict.random = drawn;
    if (rule.action != "slow" && rule.action != "hang") return verdict;
    // The rule may be gone when the wait ends: after it only its number is used.
    const int id = rule.id;
    ++rule.waiting;
    if (rule.action == "hang") {
      changed_.wait(lock, [&] { return !Exists(id); });
    } else {
      changed_.wait_for(lock, std::chrono::milliseconds(rule.ms), [&] { return !Exists(id); });
      for (Rule& still : rules_) {
        if (still.id == id) --still.waiting;
      }
    }
    return {};
  }
  return {};
}

}  // namespace stoker::testing
