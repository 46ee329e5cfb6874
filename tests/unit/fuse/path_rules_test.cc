#include "fuse/path_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/base/random.h"
#include "tests/support/seed.h"

namespace stoker {
namespace {

TEST(GlobFits, AsDocumented) {
  struct Case {
    const char* glob;
    const char* path;
    bool fits;
  };
  const std::vector<Case> cases = {
      // without a slash: the last name, anywhere
      {"*.tmp", "a.tmp", true},
      {"*.tmp", "x/y/a.tmp", true},
      {"*.tmp", "x.tmp/y", false},
      {"a", "b/a", true},
      {"a", "a/b", false},
      {"*", "x/y", true},
      // with one: the whole path
      {"/a", "a", true},
      {"/a", "b/a", false},
      {"a/b", "a/b", true},
      {"a/b", "x/a/b", false},
      {"a/b", "a/b/c", false},
      {"a/*", "a/b", true},
      {"a/*", "a/b/c", false},
      {"a/*", "a", false},
      // directories
      {"a/**", "a/b", true},
      {"a/**", "a/b/c/d", true},
      {"a/**", "a", false},
      {"a/**", "b/a/c", false},
      {"**/a", "a", true},
      {"**/a", "x/y/a", true},
      {"**/a", "x/a/y", false},
      {"a/**/b", "a/b", true},
      {"a/**/b", "a/x/y/b", true},
      {"a/**/b", "a/x/y/c", false},
      {"a/**/b/**/c", "a/b/b/x/c", true},
      {"a/**/*.bin", "a/x/y.bin", true},
      {"**", "a/b", true},
      {"**", "", true},
      {"*", "", false},
      {"**/**", "a", true},
      {"a/**/**/b", "a/b", true},
      // characters
      {"?", "a", true},
      {"?", "ab", false},
      {"a?c", "abc", true},
      {"[a-c]x", "bx", true},
      {"[a-c]x", "dx", false},
      {"[!a-c]x", "dx", true},
      {"[!a-c]x", "ax", false},
      {"[]]", "]", true},
      {"[a-]", "-", true},
      {"\\*", "*", true},
      {"\\*", "a", false},
      {"a*b*c", "aXbYbZc", true},
      {"a*b*c", "aXbYbZd", false},
      {"\xff*", "\xff\xfe", true},
      {"A", "a", false},
  };
  for (const Case& c : cases) EXPECT_EQ(GlobFits(c.glob, c.path), c.fits) << c.glob << " on " << c.path;
}

TEST(GlobFits, ManyStarsTakeNoForever) {
  std::string stars;
  for (int i = 0; i < 200; ++i) stars += "a*";
  EXPECT_FALSE(GlobFits(stars + "b", std::string(4000, 'a')));
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "**/a/";
  std::string path;
  for (int i = 0; i < 1000; ++i) path += "a/";
  EXPECT_FALSE(GlobFits(deep + "b", path + "c"));
}

/// The definition, tried out in every way.
bool Naive(std::string_view glob, std::string_view path) {
  if (glob.empty()) return path.empty();
  if (glob == "**") return !path.empty();
  if (glob.substr(0, 3) == "**/") {
    if (Naive(glob.substr(3), path)) return true;
    const size_t slash = path.find('/');
    return slash != std::string_view::npos && Naive(glob, path.substr(slash + 1));
  }
  if (glob[0] == '*') {
    if (Naive(glob.substr(1), path)) return true;
    return !path.empty() && path[0] != '/' && Naive(glob, path.substr(1));
  }
  return !path.empty() && (glob[0] == path[0] || (glob[0] == '?' && path[0] != '/')) &&
         Naive(glob.substr(1), path.substr(1));
}

TEST(GlobFits, AgreesWithTheDefinition) {
  const uint64_t seed = testing::TestSeed();
  Random random(seed);
  const std::vector<std::string> parts = {"a", "b", "ab", "*", "a*", "*b", "?", "**", "a?"};
  int fitting = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string glob;
    std::string path;
    for (uint64_t i = 0; i < 2 + random.Below(3); ++i) {
      glob += (i == 0 ? "" : "/") + parts[random.Below(parts.size())];
    }
    for (uint64_t i = 0; i < 1 + random.Below(4); ++i) {
      path += (i == 0 ? "" : "/") + parts[random.Below(3)];
    }
    const bool fits = GlobFits(glob, path);
    EXPECT_EQ(fits, Naive(glob, path)) << glob << " on " << path << ", seed " << seed;
    fitting += fits ? 1 : 0;
  }
  EXPECT_GT(fitting, 1000);
}

TEST(CheckGlob, RefusesWhatCannotFit) {
  for (const char* const good : {"a", "/a", "**", "a/**", "**/a", "*.x", "[a]", "[]]", "\\[", "a\\\\"}) {
    EXPECT_TRUE(CheckGlob(good).ok()) << good;
  }
  for (const char* const bad :
       {"", "/", "a/", "a//b", "//a", "./a", "a/../b", "a**", "**a/b", "[a", "a[", "[a/b]", "a\\"}) {
    const Status status = CheckGlob(bad);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find(":"), std::string::npos) << "without a remedy: " << status.message();
  }
  EXPECT_FALSE(CheckGlob(std::string(5000, 'a')).ok());
  EXPECT_FALSE(CheckGlob(std::string("a\0b", 3)).ok());
}

TEST(FindRule, TheFirstThatFitsCounts) {
  const std::vector<PathRule> rules = {{"a/keep", PathClass::kImmutable}, {"a/**", PathClass::kSkip}};
  EXPECT_EQ(FindRule(rules, "a/keep"), &rules[0]);
  EXPECT_EQ(FindRule(rules, "a/other"), &rules[1]);
  EXPECT_EQ(FindRule(rules, "b"), nullptr);
}

}  // namespace
}  // namespace stoker
