// A reader with as little of its own as possible, so that what is timed is the file system under it.
//   read_bench seq FILE BLOCK              whole file in order, BLOCK bytes a read, one reused buffer
//   read_bench random FILE BLOCK COUNT SEED    COUNT buffered preads at random aligned offsets
//   read_bench files DIR THREADS           open + read whole + close of every file in DIR (sorted, dealt
//   round-robin) read_bench touch BYTES                 makes the host back that much memory, then frees it
// Prints one JSON object: seconds, bytes, ops, user and system CPU seconds, and a checksum of what was read.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Totals {
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> ops{0};
  std::atomic<uint64_t> sum{0};  // one word of every page: proof that the data came, almost free
};

[[noreturn]] void Die(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

uint64_t Sample(const char* data, size_t size) {
  uint64_t sum = 0;
  for (size_t at = 0; at + 8 <= size; at += 4096) {
    uint64_t word;
    std::memcpy(&word, data + at, 8);
    sum += word * 0x9e3779b97f4a7c15ULL + at;
  }
  return sum;
}

char* Buffer(size_t size) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, 4096, size) != 0) Die("posix_memalign");
  std::memset(memory, 0, size);
  return static_cast<char*>(memory);
}

void Sequential(const char* path, size_t block, Totals& totals) {
  char* buffer = Buffer(block);
  const int fd = ::open(path, O_RDONLY);
  if (fd < 0) Die(path);
  while (true) {
    const ssize_t n = ::read(fd, buffer, block);
    if (n < 0) Die(path);
    if (n == 0) break;
    totals.bytes += static_cast<uint64_t>(n);
    totals.ops += 1;
    totals.sum += Sample(buffer, static_cast<size_t>(n));
  }
  ::close(fd);
}

void RandomReads(const char* path, size_t block, uint64_t count, uint64_t seed, Totals& totals) {
  char* buffer = Buffer(block);
  const int fd = ::open(path, O_RDONLY);
  if (fd < 0) Die(path);
  struct stat info;
  if (::fstat(fd, &info) != 0) Die(path);
  const uint64_t blocks = static_cast<uint64_t>(info.st_size) / block;
  if (blocks == 0) Die("the file is smaller than a block");
  for (uint64_t i = 0; i < count; ++i) {
    seed += 0x9e3779b97f4a7c15ULL;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    const uint64_t offset = ((z ^ (z >> 31)) % blocks) * block;
    const ssize_t n = ::pread(fd, buffer, block, static_cast<off_t>(offset));
    if (n != static_cast<ssize_t>(block)) Die(path);
    totals.bytes += block;
    totals.ops += 1;
    totals.sum += Sample(buffer, block);
  }
  ::close(fd);
}

void Files(const std::vector<std::string>& paths, size_t first, size_t step, Totals& totals) {
  constexpr size_t kBlock = 1 << 20;
  char* buffer = Buffer(kBlock);
  for (size_t i = first; i < paths.size(); i += step) {
    const int fd = ::open(paths[i].c_str(), O_RDONLY);
    if (fd < 0) Die(paths[i]);
    while (true) {
      const ssize_t n = ::read(fd, buffer, kBlock);
      if (n < 0) Die(paths[i]);
      totals.bytes += static_cast<uint64_t>(n);
      totals.sum += Sample(buffer, static_cast<size_t>(n));
      if (n < static_cast<ssize_t>(kBlock))
        break;  // a short read of a regular file is its end: spare the last call
    }
    ::close(fd);
    totals.ops += 1;
  }
}

void Touch(uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Die("mmap");
  for (uint64_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
  ::munmap(memory, bytes);
}

double Seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

uint64_t Number(const char* text) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value == 0) {
    std::fprintf(stderr, "read_bench: '%s' is not a number above 0\n", text);
    std::exit(2);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  Totals totals;
  std::vector<std::string> paths;
  if (mode == "files" && argc == 4) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
      if (entry.is_regular_file()) paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
  }
  rusage before;
  ::getrusage(RUSAGE_SELF, &before);
  const auto start = std::chrono::steady_clock::now();
  if (mode == "seq" && argc == 4) {
    Sequential(argv[2], Number(argv[3]), totals);
  } else if (mode == "random" && argc == 6) {
    RandomReads(argv[2], Number(argv[3]), Number(argv[4]), Number(argv[5]), totals);
  } else if (mode == "files" && argc == 4) {
    const size_t threads = Number(argv[3]);
    std::vector<std::thread> readers;
    for (size_t i = 0; i < threads; ++i) {
      readers.emplace_back([&, i] { Files(paths, i, threads, totals); });
    }
    for (auto& reader : readers) reader.join();
  } else if (mode == "touch" && argc == 3) {
    Touch(Number(argv[2]));
  } else {
    std::fprintf(stderr,
                 "usage: read_bench seq FILE BLOCK | random FILE BLOCK COUNT SEED | files DIR THREADS | "
                 "touch BYTES\n");
    return 2;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  rusage after;
  ::getrusage(RUSAGE_SELF, &after);
  std::printf(
      "{\"seconds\": %.6f, \"bytes\": %llu, \"ops\": %llu, \"user\": %.6f, \"system\": %.6f, \"sum\": "
      "\"%016llx\"}\n",
      seconds, static_cast<unsigned long long>(totals.bytes.load()),
      static_cast<unsigned long long>(totals.ops.load()), Seconds(after.ru_utime) - Seconds(before.ru_utime),
      Seconds(after.ru_stime) - Seconds(before.ru_stime), static_cast<unsigned long long>(totals.sum.load()));
  return 0;
}
