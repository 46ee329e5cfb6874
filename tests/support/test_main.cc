#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/support/seed.h"

namespace stoker::testing {

uint64_t TestSeed() {
  static const uint64_t seed = [] {
    if (const char* text = std::getenv("TEST_SEED")) return std::strtoull(text, nullptr, 10);
    std::random_device device;
    return (static_cast<unsigned long long>(device()) << 20) ^ device();
  }();
  return seed;
}

namespace {
class SeedPrinter final : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) {
      std::printf("seed: run again with TEST_SEED=%llu\n", static_cast<unsigned long long>(TestSeed()));
    }
  }
};
}  // namespace

}  // namespace stoker::testing

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
/// The packaged RocksDB is not instrumented: what its own threads do is none of ours. Its group commit, which
/// our writers run inside the library, is left out where it is called (cache/store/index.cc).
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:librocksdb.so\n"
         "race:librocksdb.so\n"
         "race:rocksdb::\n";
}
#endif
#endif

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::printf("TEST_SEED=%llu\n", static_cast<unsigned long long>(stoker::testing::TestSeed()));
  ::testing::UnitTest::GetInstance()->listeners().Append(new stoker::testing::SeedPrinter);
  return RUN_ALL_TESTS();
}
