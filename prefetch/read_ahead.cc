#include "prefetch/read_ahead.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "cache/base/mutex.h"
#include "prefetch/access_pattern.h"
#include "prefetch/window.h"

namespace stoker {

struct ReadAhead::State : std::enable_shared_from_this<ReadAhead::State> {
  /// A part that we asked for and that nobody has read yet.
  struct Ahead {
    uint64_t stream = 0;  // that it was wanted for
    bool landed = false;  // brought in; else still on its way
    bool wanted = false;  // a reader came before it had landed
  };

  State(ReadAheadOptions o, FetchEngine& e, std::shared_ptr<FetchFile> f, Metrics& m)
      : options(o), engine(e), metrics(m), file(std::move(f)) {}

  void OnRead(ByteRange range, bool stalled) EXCLUDES(mu);
  void Close() EXCLUDES(mu);
  void OnDone(PartIndex part, const Status& status) EXCLUDES(mu);
  uint64_t PartBytes(uint32_t part) const { return file->object().PartRange(PartIndex{part}).size(); }

  const ReadAheadOptions options;
  FetchEngine& engine;
  Metrics& metrics;
  const std::shared_ptr<FetchFile> file;
  Mutex mu;
  AccessPattern pattern GUARDED_BY(mu);
  std::unordered_map<uint64_t, Window> windows GUARDED_BY(mu);  // by stream
  std::unordered_map<uint32_t, Ahead> ahead GUARDED_BY(mu);     // by part
  bool closed GUARDED_BY(mu) = false;
};

void ReadAhead::State::OnRead(ByteRange range, bool stalled) {
  const ObjectRef& object = file->object();
  range.end = std::min(range.end, object.size());
  if (range.empty()) return;
  std::vector<uint32_t> targets;
  bool forget = false;
  {
    MutexLock lock(mu);
    const uint32_t first = ToInt(object.PartAt(range.begin));
    const uint32_t last = ToInt(object.PartAt(range.end - 1));
    for (uint32_t part = first; part <= last; ++part) {
      const auto found = ahead.find(part);
      if (found == ahead.end()) continue;
      if (found->second.landed) {
        metrics.prefetch_useful_bytes.Add(PartBytes(part));
        ahead.erase(found);
      } else {
        found->second.wanted = true;
      }
    }
    const AccessPattern::Seen seen = pattern.Observe(range);
    for (const uint64_t stream : seen.ended) {
      windows.erase(stream);
      for (const auto& [part, entry] : ahead)
        forget |= entry.stream == stream && !entry.landed && !entry.wanted;
    }
    const uint32_t at = ToInt(object.PartAt(seen.frontier - 1));
    Window& window = windows.try_emplace(seen.stream, options.max_parts).first->second;
    window.OnRead(seen.sequential, at, stalled);
    // What lies ahead of living streams counts against the limit of the handle. What a stream left behind
    // does not: it holds no budget any more, only its bytes in the cache.
    size_t held = 0;
    for (const auto& [part, entry] : ahead) {
      if (windows.count(entry.stream) != 0 && !(entry.stream == seen.stream && part <= at)) ++held;
    }
    for (uint64_t part = uint64_t{at} + 1;
         part <= uint64_t{at} + window.parts() && part < object.part_count(); ++part) {
      const auto index = static_cast<uint32_t>(part);
      if (ahead.count(index) != 0 || object.IsResident(PartIndex{index})) continue;
      if (held >= options.max_parts) break;
      ahead[index].stream = seen.stream;
      targets.push_back(index);
      ++held;
    }
  }
  if (forget) engine.Forget(*file, FetchPriority::kReadAhead);
  for (const uint32_t part : targets) {
    const Status status = engine.Want(file, PartIndex{part}, FetchPriority::kReadAhead,
                                      [self = shared_from_this(), part](const Status& done, FetchedFor) {
                                        self->OnDone(PartIndex{part}, done);
                                      });
    if (!status.ok()) OnDone(PartIndex{part}, status);
  }
}

void ReadAhead::State::OnDone(PartIndex part, const Status& status) {
  MutexLock lock(mu);
  const auto found = ahead.find(ToInt(part));
  if (found == ahead.end()) return;
  // Without room in the cache the bytes came too, and linger in memory for the reader.
  if (!status.ok() && status.code() != Code::kNoSpace) {
    ahead.erase(found);  // asked for again when the reader comes nearer
    return;
  }
  metrics.prefetch_parts.Add();
  if (found->second.wanted) {
    metrics.prefetch_useful_bytes.Add(PartBytes(ToInt(part)));
    ahead.erase(found);
  } else if (closed) {
    metrics.prefetch_wasted_bytes.Add(PartBytes(ToInt(part)));
    ahead.erase(found);
  } else {
    found->second.landed = true;
  }
}

void ReadAhead::State::Close() {
  MutexLock lock(mu);
  closed = true;
  for (auto it = ahead.begin(); it != ahead.end();) {
    if (it->second.landed) {
      metrics.prefetch_wasted_bytes.Add(PartBytes(it->first));
      it = ahead.erase(it);
    } else {
      ++it;
    }
  }
  const bool left = !ahead.empty();
  lock.Unlock();
  if (left) engine.Forget(*file, FetchPriority::kReadAhead);
}

ReadAhead::ReadAhead(ReadAheadOptions options, FetchEngine& engine, std::shared_ptr<FetchFile> file,
                     Metrics& metrics) {
  if (!options.enabled || options.max_parts == 0) return;
  state_ = std::make_shared<State>(options, engine, std::move(file), metrics);
}

ReadAhead::~ReadAhead() {
  if (state_ != nullptr) state_->Close();
}

void ReadAhead::OnRead(ByteRange range, bool stalled) {
  if (state_ != nullptr) state_->OnRead(range, stalled);
}

}  // namespace stoker
