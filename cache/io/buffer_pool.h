#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/base/mutex.h"

namespace stoker {

/// Page-aligned buffers of one size, made when first needed and used again (fresh memory costs a page fault
/// per page). How many may exist at once is the Budget's business; the pool keeps at most `max_idle` unused
/// ones. Any thread. The pool must outlive its buffers.
class BufferPool {
 public:
  /// Gives its memory back to the pool when destroyed. Move-only.
  class Buffer {
   public:
    Buffer() = default;
    ~Buffer();
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    std::span<std::byte> bytes() const { return {data_, size_}; }
    explicit operator bool() const { return data_ != nullptr; }

   private:
    friend class BufferPool;
    Buffer(BufferPool* pool, std::byte* data, size_t size) : pool_(pool), data_(data), size_(size) {}
    BufferPool* pool_ = nullptr;
    std::byte* data_ = nullptr;
    size_t size_ = 0;
  };

  BufferPool(size_t buffer_bytes, size_t max_idle);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  Buffer Get() EXCLUDES(mu_);
  size_t buffer_bytes() const { return buffer_bytes_; }

 private:
  void Put(std::byte* data) EXCLUDES(mu_);

  const size_t buffer_bytes_;
  const size_t max_idle_;
  Mutex mu_;
  std::vector<std::byte*> idle_ GUARDED_BY(mu_);
};

}  // namespace stoker
