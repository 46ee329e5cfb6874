#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace stoker::testing {

/// A private directory, removed with all below it at the end. STOKER_TEST_TMP says where (default: the
/// system's).
class TempDir {
 public:
  TempDir() {
    const char* base = std::getenv("STOKER_TEST_TMP");
    std::string pattern =
        (base != nullptr ? std::string(base) : std::filesystem::temp_directory_path().string()) +
        "/stoker-test-XXXXXX";
    const char* made = ::mkdtemp(pattern.data());
    EXPECT_NE(made, nullptr);
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;  // nothing to be done about it, and the test has ended
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace stoker::testing
