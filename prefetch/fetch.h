#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/clock.h"
#include "cache/base/ids.h"
#include "cache/base/units.h"
#include "prefetch/fetch_engine.h"
#include "prefetch/part_buffer.h"
#include "prefetch/part_progress.h"

// What the engine's pieces hand each other: readers, wishes, and the fetches that serve both. Plain records
// without locks; the engine's mutex (Core::mu) covers all their fields unless said otherwise.

namespace stoker::fetch {

/// One reader's wish, over one or more parts. Fields belong to Core::mu unless said otherwise.
struct ReadRequest {
  struct Slice {
    PartIndex part{};
    ByteRange range;        // of the file
    bool ready = false;     // its bytes are in `bytes`, or `resident`
    bool resident = false;  // in the object file
  };

  uint64_t ticket = 0;
  std::shared_ptr<FetchFile> file;
  ByteRange range;
  FetchEngine::ReadCallback done;
  Nanos deadline{0};
  std::vector<Slice> slices;
  size_t missing = 0;     // slices that are not ready
  int damaged = 0;        // how often resident bytes could not be read back
  bool finished = false;  // the callback has run, or is about to
  /// One slice: its bytes where they were fetched, and what keeps them there.
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;
  /// Several slices: copied here as they come, so that no part waits in memory for another one (with a budget
  /// of one part it would wait for ever). Written outside the mutex, each slice by whoever fetched it.
  std::shared_ptr<std::vector<std::byte>> copy;
};

struct Waiter {
  std::shared_ptr<ReadRequest> request;
  size_t slice = 0;
};

struct Wish {
  std::shared_ptr<FetchFile> file;
  FetchPriority priority = FetchPriority::kWarm;
  FetchEngine::DoneCallback done;
  uint64_t ticket = 0;       // demand only: for the deadline
  bool began_fetch = false;  // nobody fetched the part when it came
};

/// One part on its way, and everyone who wants it. Fields belong to Core::mu unless said otherwise.
struct Fetch {
  Fetch(PartKey k, PartIndex p, ByteRange r) : key(k), part(p), range(r), progress(r.size()) {}

  const PartKey key;
  const PartIndex part;
  const ByteRange range;            // of the file
  std::shared_ptr<FetchFile> file;  // whose UFS file is read
  FetchPriority priority = FetchPriority::kWarm;
  uint64_t sequence = 0;
  bool running = false;
  bool counted_low = false;  // running, and counted in FetchQueue::low_running()
  std::vector<Waiter> waiters;
  std::vector<Wish> wishes;
  PartProgress progress;
  std::shared_ptr<PartBuffer> buffer;  // set before it runs; the worker uses the bytes without the mutex
  CancelToken cancel;                  // any thread
};

}  // namespace stoker::fetch
