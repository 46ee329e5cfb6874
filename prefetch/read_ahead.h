#pragma once

#include <cstdint>
#include <memory>

#include "cache/base/metrics.h"
#include "cache/base/units.h"
#include "prefetch/fetch_engine.h"

namespace stoker {

struct ReadAheadOptions {
  bool enabled = true;
  uint32_t max_parts = 4;  // prefetch.max_parts: parts one open file may have ahead of its reader
};

/// Read-ahead for one open handle: sees each read, tells the engine which parts to bring in next
/// (access_pattern and window decide, both pure). Any thread; reads of one handle may come out of order, as
/// the kernel's readahead sends them. All streams of the handle together have at most max_parts ahead.
class ReadAhead {
 public:
  ReadAhead(ReadAheadOptions options, FetchEngine& engine, std::shared_ptr<FetchFile> file, Metrics& metrics);
  /// Cancels what has not started and counts what nobody read as wasted.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  /// Call for each READ, before it is answered. `stalled`: it has to wait for a fetch.
  void OnRead(ByteRange range, bool stalled);

 private:
  struct State;
  // Shared with the callbacks of fetches that outlive the handle: they still count what was wasted.
  std::shared_ptr<State> state_;
};

}  // namespace stoker
