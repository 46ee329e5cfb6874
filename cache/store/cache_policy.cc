#include "cache/store/cache_policy.h"

#include <array>

#include "cache/store/auto_policy.h"
#include "cache/store/queue_policy.h"

namespace stoker {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"retain", "lru", "s3fifo", "auto"};

}  // namespace

std::string_view PolicyName(CachePolicy policy) {
  return kNames[static_cast<size_t>(policy)];
}

std::optional<CachePolicy> ParsePolicy(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<CachePolicy>(i);
  }
  return std::nullopt;
}

std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(CachePolicy policy, uint64_t seed) {
  if (policy == CachePolicy::kAuto) return std::make_unique<AutoPolicy>(seed);
  return std::make_unique<QueuePolicy>(policy);
}

}  // namespace stoker
