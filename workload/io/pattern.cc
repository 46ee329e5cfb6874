#include "workload/io/pattern.h"

#include <sys/mman.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "cache/base/check.h"
#include "cache/base/random.h"
#include "cache/base/units.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kBaseSeed = 573;  // the words themselves are the same in every test; the stamps are not

uint64_t Stamp(uint64_t signature, uint64_t file, uint64_t offset) {
  uint64_t z = signature * 0x9e3779b97f4a7c15ULL + file * 0xd1342543de82ef95ULL + offset;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t WordAt(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

void Note(Mismatch& mismatch, uint64_t offset, uint64_t expected, uint64_t found) {
  if (expected == found) return;
  if (mismatch.words++ == 0) {
    mismatch.first_offset = offset;
    mismatch.expected = expected;
    mismatch.found = found;
  }
}

}  // namespace

TransferBuffer::~TransferBuffer() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

TransferBuffer::TransferBuffer(TransferBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

TransferBuffer& TransferBuffer::operator=(TransferBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<TransferBuffer> TransferBuffer::Allocate(uint64_t bytes, bool huge_pages) {
  TransferBuffer buffer;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(Code::kBusy,
                  "no memory for a buffer of " + FormatBytes(bytes) + ": use a smaller -t or fewer tasks",
                  errno);
  }
  ::madvise(memory, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // a wish
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.size_ = bytes;
  return buffer;
}

Pattern::Pattern() {
  Random random(kBaseSeed);
  words_.resize(kPeriodBytes / 8);
  for (uint64_t& word : words_) word = random.Next();
}

void Pattern::Fill(const TransferBuffer& buffer) const {
  for (uint64_t at = 0; at < buffer.size(); at += kPeriodBytes) {
    std::memcpy(buffer.data() + at, words_.data(), std::min(kPeriodBytes, buffer.size() - at));
  }
}

std::byte* Pattern::Prepare(const TransferBuffer& buffer, uint64_t signature, uint64_t file, uint64_t offset,
                            uint64_t bytes) {
  std::byte* const data = buffer.data() + offset % kPeriodBytes;
  STOKER_CHECK(offset % kPeriodBytes + bytes <= buffer.size());
  for (uint64_t at = AlignUp(offset, kStampBytes); at < offset + bytes; at += kStampBytes) {
    const uint64_t stamp = Stamp(signature, file, at);
    std::memcpy(data + (at - offset), &stamp, sizeof stamp);
  }
  return data;
}

std::byte* Pattern::PrepareRead(const TransferBuffer& buffer, uint64_t offset, uint64_t bytes) {
  std::byte* const data = buffer.data() + offset % kPeriodBytes;
  STOKER_CHECK(offset % kPeriodBytes + bytes <= buffer.size());
  for (uint64_t at = 0; at < bytes; at += 512) std::memset(data + at, 0, 8);
  return data;
}

Mismatch Pattern::Check(const std::byte* data, uint64_t signature, uint64_t file, uint64_t offset,
                        uint64_t bytes) const {
  Mismatch mismatch;
  const uint64_t end = offset + bytes;
  for (uint64_t at = offset; at < end;) {
    const std::byte* const here = data + (at - offset);
    if (at % kStampBytes == 0) {
      Note(mismatch, at, Stamp(signature, file, at), WordAt(here));
      at += 8;
      continue;
    }
    const uint64_t stop = std::min(end, AlignUp(at, kStampBytes));
    const uint64_t* const expected = &words_[at % kPeriodBytes / 8];
    if (std::memcmp(here, expected, stop - at) != 0) {
      for (uint64_t i = 0; i < (stop - at) / 8; ++i)
        Note(mismatch, at + i * 8, expected[i], WordAt(here + i * 8));
    }
    at = stop;
  }
  return mismatch;
}

}  // namespace stoker::bench
