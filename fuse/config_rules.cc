#include "fuse/config_rules.h"

#include <yaml-cpp/yaml.h>

#include <utility>

#include "cache/base/spelling.h"
#include "cache/base/units.h"

namespace stoker {
namespace {

constexpr size_t kMaxRules = 256;  // each new name is compared with them one by one
constexpr std::chrono::nanoseconds kMaxTtl = std::chrono::hours(24 * 3650);

Result<PathRule> ParseRule(const YAML::Node& node) {
  const auto invalid = [](std::string message) { return Status(Code::kInvalidArgument, std::move(message)); };
  if (!node.IsMap()) return invalid("every item must be {path: GLOB, class: immutable|revalidate|skip}");
  PathRule rule;
  bool has_path = false;
  bool has_class = false;
  for (const auto& item : node) {
    const std::string name = item.first.IsScalar() ? item.first.Scalar() : "";
    if (!item.second.IsScalar()) return invalid("'" + name + "' must have one plain value");
    const std::string& value = item.second.Scalar();
    if (name == "path") {
      if (std::exchange(has_path, true)) return invalid("path is given twice: keep one of the two");
      if (const Status glob = CheckGlob(value); !glob.ok()) return invalid("path: " + glob.message());
      rule.glob = value;
    } else if (name == "class") {
      if (std::exchange(has_class, true)) return invalid("class is given twice: keep one of the two");
      Result<PathClass> path_class = ParsePathClass(value);
      if (!path_class.ok()) return invalid("class: " + path_class.status().message());
      rule.path_class = *path_class;
    } else if (name == "ttl") {
      if (rule.ttl) return invalid("ttl is given twice: keep one of the two");
      Result<std::chrono::nanoseconds> ttl = ParseDuration(value);
      if (!ttl.ok()) return invalid("ttl: " + ttl.status().message());
      if (*ttl > kMaxTtl) return invalid("ttl: '" + value + "' is too long: use class: immutable");
      rule.ttl = *ttl;
    } else {
      const std::string nearest = NearestSpelling(name, {"path", "class", "ttl"});
      return invalid(
          "unknown key '" + name +
          "': " + (nearest.empty() ? "a rule has path, class and ttl" : "did you mean '" + nearest + "'?"));
    }
  }
  if (!has_path) return invalid("the rule has no path: add path: GLOB");
  if (!has_class) {
    return invalid("the rule for '" + rule.glob + "' has no class: add class: immutable, revalidate or skip");
  }
  if (rule.ttl && rule.path_class != PathClass::kRevalidate) {
    return invalid("the rule for '" + rule.glob + "' has a ttl, which only revalidate takes: remove the ttl" +
                   " or write class: revalidate");
  }
  return rule;
}

}  // namespace

Result<std::vector<PathRule>> ParseRules(const std::string& file, const std::string& key,
                                         const YAML::Node& list) {
  std::vector<PathRule> rules;
  for (const auto& node : list) {
    const std::string where = file + ":" + std::to_string(node.Mark().line + 1) + ": " + key + ": ";
    if (rules.size() == kMaxRules) {
      return Status(Code::kInvalidArgument,
                    where + "more than " + std::to_string(kMaxRules) + " rules: use wider globs");
    }
    Result<PathRule> rule = ParseRule(node);
    if (!rule.ok()) return Status(Code::kInvalidArgument, where + rule.status().message());
    rules.push_back(std::move(rule).value());
  }
  return rules;
}

}  // namespace stoker
