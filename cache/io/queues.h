#pragma once

#include <cstddef>
#include <memory>

#include "cache/io/io_queue.h"

namespace stoker {

// The two kinds behind MakeIoQueue, for the room itself and its tests.

/// The most bytes one operation moves; the kernel cuts longer ones itself (MAX_RW_COUNT, 2 GiB less a page).
inline constexpr size_t kMaxOperationBytes = 0x7ffff000;

/// Operations run inside Wait(), one a call, in the order they were queued, so that the first bytes are
/// handed on before the next are read.
std::unique_ptr<IoQueue> MakePreadQueue(unsigned depth);

/// A ring of its own. The status carries the errno with which the kernel refused it.
Result<std::unique_ptr<IoQueue>> MakeRingQueue(unsigned depth);

/// Asks the kernel whether a ring can be made that reads and writes; empty when it can.
std::string ProbeRing();

}  // namespace stoker
