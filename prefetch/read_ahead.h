#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cache/base/mutex.h"
#include "cache/base/units.h"
#include "prefetch/fetch_engine.h"

namespace stoker {

struct ReadAheadOptions {
  bool enabled = true;
  uint32_t max_parts = 4;  // prefetch.max_parts: parts one open file may have ahead of its reader
};

/// Read-ahead for one open handle: sees each read, tells the engine which parts to bring in next
/// (access_pattern and window decide, both pure). Any thread; reads of one handle may come out of order, as
/// the kernel's readahead sends them.
class ReadAhead {
 public:
  ReadAhead(ReadAheadOptions options, FetchEngine& engine, std::shared_ptr<FetchFile> file, Metrics& metrics);
  /// Cancels what has not started and counts what nobody read as wasted.
  ~ReadAhead();
  /// Call for each READ, before it is answered. `stalled`: it has to wait for a fetch.
  void OnRead(ByteRange range, bool stalled) EXCLUDES(mu_);

 private:
  struct State;
  Mutex mu_;
  std::unique_ptr<State> state_ PT_GUARDED_BY(mu_);
};

}  // namespace stoker
