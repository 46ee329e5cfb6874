#pragma once

#include <memory>
#include <utility>

#include "prefetch/part_memory.h"

namespace stoker::fetch {

struct PartBuffer;

/// Who lent a block and takes it back.
class PartBufferOwner {
 public:
  virtual void GiveBack(PartBuffer& buffer) = 0;

 protected:
  ~PartBufferOwner() = default;
};

/// One part's bytes in memory. The block and its budget are given back with the last holder: the fetch, the
/// replies made from it, the bytes that linger. Keeps its owner alive, so a reply that is still being sent
/// may outlive the engine. Which thread may touch the bytes is the holder's matter; the last holder may be
/// any thread, which must not hold the engine's mutex then.
struct PartBuffer {
  PartBuffer(std::shared_ptr<PartBufferOwner> lender, PartMemory::Block memory)
      : owner(std::move(lender)), block(memory) {}
  ~PartBuffer() {
    if (block.bytes != 0) owner->GiveBack(*this);
  }
  PartBuffer(const PartBuffer&) = delete;
  PartBuffer& operator=(const PartBuffer&) = delete;

  const std::shared_ptr<PartBufferOwner> owner;
  PartMemory::Block block;
  uint64_t delivered = 0;  // bytes that readers got from it; the engine's mutex covers it
};

}  // namespace stoker::fetch
