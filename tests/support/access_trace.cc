#include "tests/support/access_trace.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "cache/base/check.h"
#include "cache/base/random.h"
#include "cache/store/name_cache.h"

namespace stoker::testing {
namespace {

constexpr uint32_t kNever = UINT32_MAX;

/// Puts a trace together from datasets and the ways to read them.
class Builder {
 public:
  explicit Builder(const TraceSpec& spec) : spec_(spec), random_(spec.seed) {}

  /// Objects that together are `times` the cache. A dataset is a list of objects.
  std::vector<uint32_t> Dataset(double times) {
    const auto count = static_cast<size_t>(std::lround(times * static_cast<double>(spec_.cache_objects)));
    std::vector<uint32_t> objects(count);
    std::iota(objects.begin(), objects.end(), static_cast<uint32_t>(trace_.sizes.size()));
    for (size_t i = 0; i < count; ++i) trace_.sizes.push_back(Size());
    return objects;
  }
  void Read(const std::vector<uint32_t>& objects) {
    trace_.accesses.insert(trace_.accesses.end(), objects.begin(), objects.end());
  }
  void Epochs(std::vector<uint32_t> objects, int epochs) {
    for (int epoch = 0; epoch < epochs; ++epoch) {
      random_.Shuffle(objects);
      Read(objects);
    }
  }
  /// `count` reads, the object of rank r with weight r^-alpha.
  void Zipf(const std::vector<uint32_t>& objects, double alpha, size_t count) {
    std::vector<double> sums;
    double sum = 0;
    for (size_t rank = 1; rank <= objects.size(); ++rank) {
      sums.push_back(sum += std::pow(static_cast<double>(rank), -alpha));
    }
    for (size_t i = 0; i < count; ++i) {
      const auto at = std::upper_bound(sums.begin(), sums.end(), random_.Uniform() * sum) - sums.begin();
      trace_.accesses.push_back(objects[std::min<size_t>(static_cast<size_t>(at), objects.size() - 1)]);
    }
  }
  /// Two jobs at once: `other` is read between the reads that are there from `from` on, in the same
  /// proportion all along.
  void Mix(size_t from, const std::vector<uint32_t>& other) {
    const std::vector<uint32_t> one(trace_.accesses.begin() + static_cast<ptrdiff_t>(from),
                                    trace_.accesses.end());
    trace_.accesses.resize(from);
    size_t i = 0;
    for (size_t n = 0; n < one.size(); ++n) {
      trace_.accesses.push_back(one[n]);
      for (; i < other.size() && i * one.size() < (n + 1) * other.size(); ++i)
        trace_.accesses.push_back(other[i]);
    }
  }
  /// The reads that `work` adds, taken out again.
  template <typename F>
  std::vector<uint32_t> Apart(F work) {
    const size_t before = trace_.accesses.size();
    work();
    std::vector<uint32_t> added(trace_.accesses.begin() + static_cast<ptrdiff_t>(before),
                                trace_.accesses.end());
    trace_.accesses.resize(before);
    return added;
  }
  size_t now() const { return trace_.accesses.size(); }
  size_t objects(double times) const {
    return static_cast<size_t>(times * static_cast<double>(spec_.cache_objects));
  }
  Random& random() { return random_; }
  AccessTrace& trace() { return trace_; }

 private:
  uint64_t Size() {
    if (spec_.sizes == TraceSizes::kEqual) return kTraceObjectBytes;
    // 0.93 is the mean of the usual ones that, with the large ones, makes the mean what it should be.
    if (random_.OneIn(100)) return 8 * kTraceObjectBytes;
    return static_cast<uint64_t>(static_cast<double>(kTraceObjectBytes) * 0.93 * (0.5 + random_.Uniform()));
  }

  const TraceSpec spec_;
  Random random_;
  AccessTrace trace_;
};

struct Recipe {
  std::string_view name;
  std::string_view what;
  void (*make)(Builder& b);
};

void Cyclic(Builder& b) {
  const auto data = b.Dataset(2);
  for (int epoch = 0; epoch < 6; ++epoch) b.Read(data);
}

void Reshuffled(Builder& b) {
  const auto data = b.Dataset(2);
  b.Epochs(data, 5);
  b.trace().counted_from = data.size();  // epochs 2 to 5
}

void Zipf(Builder& b) {
  b.Zipf(b.Dataset(10), 0.9, b.objects(30));
}

void Moved(Builder& b) {
  for (int set = 0; set < 4; ++set) b.Epochs(b.Dataset(0.75), 6);
}

void TwoJobs(Builder& b) {
  const auto large = b.Dataset(2);
  const auto small = b.Dataset(0.3);
  b.Epochs(large, 1);
  const size_t second = b.now();
  b.Epochs(large, 5);
  b.Mix(second, b.Apart([&] { b.Epochs(small, 10); }));
}

void Reread(Builder& b) {
  for (int group = 0; group < 40; ++group) {
    const auto data = b.Dataset(0.3);
    b.Read(data);
    b.Read(data);
  }
}

void CyclicLarge(Builder& b) {
  const auto data = b.Dataset(8);
  for (int epoch = 0; epoch < 5; ++epoch) b.Read(data);
}

void ReshuffledSmall(Builder& b) {
  b.Epochs(b.Dataset(1.2), 6);
}

void ReshuffledLarge(Builder& b) {
  b.Epochs(b.Dataset(5), 5);
}

void NextDataset(Builder& b) {
  b.Epochs(b.Dataset(2), 5);
  b.Epochs(b.Dataset(2), 5);
}

void SmallAfterLarge(Builder& b) {
  b.Epochs(b.Dataset(2), 5);
  b.Epochs(b.Dataset(0.8), 8);
}

void LargeAfterSmall(Builder& b) {
  b.Epochs(b.Dataset(0.8), 8);
  b.Epochs(b.Dataset(2), 5);
}

void Validation(Builder& b) {
  const auto train = b.Dataset(0.7);
  const auto check = b.Dataset(0.8);
  for (int round = 0; round < 5; ++round) {
    b.Epochs(train, 3);
    b.Read(check);
  }
}

void ZipfDrift(Builder& b) {
  auto data = b.Dataset(6);
  for (int phase = 0; phase < 6; ++phase) {
    b.random().Shuffle(data);
    b.Zipf(data, 1.0, b.objects(6));
  }
}

void ZipfAndScan(Builder& b) {
  const auto hot = b.Dataset(3);
  const auto scan = b.Dataset(4);
  b.Zipf(hot, 1.0, b.objects(16));
  b.Mix(0, b.Apart([&] {
    for (int epoch = 0; epoch < 4; ++epoch) b.Read(scan);
  }));
}

void OnceOnly(Builder& b) {
  b.Read(b.Dataset(10));
}

constexpr std::array kRecipes = {
    Recipe{"cyclic", "2 caches in the same order, 6 times", Cyclic},
    Recipe{"reshuffled", "2 caches in a new order each time; times 2 to 5 (F8)", Reshuffled},
    Recipe{"zipf", "10 caches, rank^-0.9, 30 caches read", Zipf},
    Recipe{"moved", "4 sets of 0.75, 6 times each", Moved},
    Recipe{"two_jobs", "2 reshuffled 6 times; from the second on 0.3, 10 times, beside it", TwoJobs},
    Recipe{"reread", "40 groups of 0.3, each read twice in order", Reread},
    Recipe{"cyclic_8", "8 caches in the same order, 5 times", CyclicLarge},
    Recipe{"reshuffled_1.2", "1.2 reshuffled 6 times", ReshuffledSmall},
    Recipe{"reshuffled_5", "5 reshuffled 5 times", ReshuffledLarge},
    Recipe{"next_dataset", "2 reshuffled 5 times, then another 2", NextDataset},
    Recipe{"small_after_large", "2 reshuffled 5 times, then 0.8, 8 times", SmallAfterLarge},
    Recipe{"large_after_small", "0.8 reshuffled 8 times, then 2, 5 times", LargeAfterSmall},
    Recipe{"validation", "0.7 reshuffled 3 times, then 0.8 once; all that 5 times", Validation},
    Recipe{"zipf_drift", "6 caches, rank^-1, all ranks new after every 6 caches read", ZipfDrift},
    Recipe{"zipf_and_scan", "3 caches, rank^-1, beside 4 in the same order, 4 times", ZipfAndScan},
    Recipe{"once", "10 caches, each object once", OnceOnly},
};

ObjectId IdOf(uint32_t object) {
  return MakeObjectId({.size = object, .token = "trace"});
}

/// Adds up what is counted.
class Tally {
 public:
  explicit Tally(const AccessTrace& trace) : trace_(trace) {}
  void Add(size_t at, bool hit) {
    if (at < trace_.counted_from || at >= trace_.counted_to) return;
    const uint64_t size = trace_.sizes[trace_.accesses[at]];
    ++uses_;
    bytes_ += size;
    if (!hit) return;
    ++hits_;
    hit_bytes_ += size;
  }
  HitRatio Ratio() const {
    STOKER_CHECK(uses_ > 0);
    return {static_cast<double>(hit_bytes_) / static_cast<double>(bytes_),
            static_cast<double>(hits_) / static_cast<double>(uses_)};
  }

 private:
  const AccessTrace& trace_;
  uint64_t uses_ = 0, hits_ = 0, bytes_ = 0, hit_bytes_ = 0;
};

}  // namespace

const std::vector<std::string>& TraceNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Recipe& recipe : kRecipes) all.emplace_back(recipe.name);
    return all;
  }();
  return names;
}

AccessTrace MakeTrace(std::string_view name, const TraceSpec& spec) {
  for (const Recipe& recipe : kRecipes) {
    if (recipe.name != name) continue;
    Builder builder(spec);
    recipe.make(builder);
    AccessTrace trace = std::move(builder.trace());
    trace.name = recipe.name;
    trace.what = recipe.what;
    return trace;
  }
  STOKER_CHECK(false);
  return {};
}

HitRatio Replay(const AccessTrace& trace, EvictionPolicy& policy, uint64_t capacity, double low_watermark) {
  std::vector<ObjectId> ids;
  for (uint32_t object = 0; object < trace.sizes.size(); ++object) ids.push_back(IdOf(object));
  NameCache cache(policy);
  Tally tally(trace);
  for (size_t at = 0; at < trace.accesses.size(); ++at) {
    const uint32_t object = trace.accesses[at];
    tally.Add(at, cache.Use(ids[object], trace.sizes[object], capacity, low_watermark));
  }
  return tally.Ratio();
}

HitRatio ReplayBelady(const AccessTrace& trace, uint64_t capacity) {
  std::vector<uint32_t> next(trace.accesses.size());
  std::vector<uint32_t> upcoming(trace.sizes.size(), kNever);
  for (size_t at = trace.accesses.size(); at-- > 0;) {
    next[at] = std::exchange(upcoming[trace.accesses[at]], static_cast<uint32_t>(at));
  }
  std::vector<uint32_t> held(trace.sizes.size(),
                             0);                    // 0: not here; else its next use, which is never access 0
  std::set<std::pair<uint32_t, uint32_t>> by_next;  // next use, object
  uint64_t used = 0;
  Tally tally(trace);
  for (size_t at = 0; at < trace.accesses.size(); ++at) {
    const uint32_t object = trace.accesses[at];
    const uint64_t size = trace.sizes[object];
    const bool hit = held[object] != 0;
    tally.Add(at, hit);
    if (hit) {
      by_next.erase({held[object], object});
      used -= size;
      held[object] = 0;
    }
    if (next[at] == kNever || size > capacity) continue;
    // Who would have to go, from the one used last; nobody goes when one of them is used before this one.
    uint64_t gained = 0;
    auto it = by_next.end();
    while (used - gained + size > capacity && it != by_next.begin() && std::prev(it)->first > next[at]) {
      --it;
      gained += trace.sizes[it->second];
    }
    if (used - gained + size > capacity) continue;
    for (auto victim = it; victim != by_next.end(); ++victim) held[victim->second] = 0;
    by_next.erase(it, by_next.end());
    used = used - gained + size;
    held[object] = next[at];
    by_next.emplace(next[at], object);
  }
  return tally.Ratio();
}

}  // namespace stoker::testing
