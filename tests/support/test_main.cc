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
/// RocksDB is built without ThreadSanitizer, which therefore does not see how it orders its group commit: one
/// writer appends the batches of the others. The calls lie below std::string::append, often without a frame
/// of the library itself.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:librocksdb.so\n"
         "race:rocksdb::\n"
         "race:std::__cxx11::basic_string*::_M_append\n";
}
#endif
#endif

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::printf("TEST_SEED=%llu\n", static_cast<unsigned long long>(stoker::testing::TestSeed()));
  ::testing::UnitTest::GetInstance()->listeners().Append(new stoker::testing::SeedPrinter);
  return RUN_ALL_TESTS();
}
