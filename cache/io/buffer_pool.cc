#include "cache/io/buffer_pool.h"

#include <cstdlib>
#include <utility>

#include "cache/base/check.h"
#include "cache/base/units.h"

namespace stoker {

BufferPool::Buffer::~Buffer() {
  if (data_ != nullptr) pool_->Put(data_);
}

BufferPool::Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

BufferPool::Buffer& BufferPool::Buffer::operator=(Buffer&& other) noexcept {
  // By way of a temporary: what this buffer held goes back to its pool, also when `other` is this one.
  Buffer taken(std::move(other));
  std::swap(pool_, taken.pool_);
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  return *this;
}

BufferPool::BufferPool(size_t buffer_bytes, size_t max_idle)
    : buffer_bytes_(buffer_bytes), max_idle_(max_idle) {
  STOKER_CHECK(buffer_bytes_ > 0);
}

BufferPool::~BufferPool() {
  for (std::byte* data : idle_) std::free(data);
}

BufferPool::Buffer BufferPool::Get() {
  {
    MutexLock lock(mu_);
    if (!idle_.empty()) {
      // The one that came back last: its memory is the likeliest to be in the processor's cache.
      std::byte* data = idle_.back();
      idle_.pop_back();
      return Buffer(this, data, buffer_bytes_);
    }
  }
  void* fresh = std::aligned_alloc(kPageBytes, AlignUp(buffer_bytes_, kPageBytes));
  STOKER_CHECK(fresh != nullptr);  // the budget bounds what is asked for; without memory nothing can go on
  return Buffer(this, static_cast<std::byte*>(fresh), buffer_bytes_);
}

void BufferPool::Put(std::byte* data) {
  {
    MutexLock lock(mu_);
    if (idle_.size() < max_idle_) {
      idle_.push_back(data);
      return;
    }
  }
  std::free(data);
}

}  // namespace stoker
