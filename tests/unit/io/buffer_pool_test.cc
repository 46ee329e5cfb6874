#include "cache/io/buffer_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cache/base/units.h"

namespace stoker {
namespace {

TEST(BufferPool, BuffersAreAlignedDistinctAndOfTheAskedSize) {
  BufferPool pool(10'000, 4);  // not a multiple of a page
  std::vector<BufferPool::Buffer> held;
  std::set<std::byte*> seen;
  for (int i = 0; i < 8; ++i) {
    held.push_back(pool.Get());
    const std::span<std::byte> bytes = held.back().bytes();
    ASSERT_TRUE(held.back());
    EXPECT_EQ(bytes.size(), 10'000u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % kPageBytes, 0u);
    std::memset(bytes.data(), i, bytes.size());
    EXPECT_TRUE(seen.insert(bytes.data()).second);
  }
  for (int i = 0; i < 8; ++i) EXPECT_EQ(held[i].bytes()[9'999], static_cast<std::byte>(i));
}

TEST(BufferPool, MemoryIsUsedAgain) {
  BufferPool pool(kPageBytes, 1);
  std::byte* first = nullptr;
  {
    const BufferPool::Buffer buffer = pool.Get();
    first = buffer.bytes().data();
  }
  const BufferPool::Buffer again = pool.Get();
  EXPECT_EQ(again.bytes().data(), first);
}

TEST(BufferPool, MovingLeavesAnEmptyBufferAndGivesTheOverwrittenOneBack) {
  BufferPool pool(kPageBytes, 1);
  BufferPool::Buffer a = pool.Get();
  BufferPool::Buffer b = pool.Get();
  std::byte* const a_data = a.bytes().data();
  std::byte* const b_data = b.bytes().data();
  a = std::move(b);
  EXPECT_FALSE(b);  // NOLINT: the state after a move is what is tested
  EXPECT_EQ(a.bytes().data(), b_data);
  const BufferPool::Buffer c = pool.Get();
  EXPECT_EQ(c.bytes().data(), a_data);
}

TEST(BufferPool, ManyThreadsNeverShareABuffer) {
  BufferPool pool(kPageBytes, 2);
  std::vector<std::thread> threads;
  std::atomic<int> mixed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const BufferPool::Buffer buffer = pool.Get();
        std::memset(buffer.bytes().data(), t, buffer.bytes().size());
        for (const std::byte byte : buffer.bytes()) mixed += byte != static_cast<std::byte>(t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mixed.load(), 0);
}

}  // namespace
}  // namespace stoker
