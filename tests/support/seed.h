#pragma once

#include <cstdint>

namespace stoker::testing {

/// The one seed of this test run: TEST_SEED, or a fresh one. test_main prints it with the line that runs it
/// again.
uint64_t TestSeed();

}  // namespace stoker::testing
