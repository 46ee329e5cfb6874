#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stoker {

/// cache.policy: what happens when the cache is full and something else is read.
enum class CachePolicy : uint8_t {
  kRetain = 0,  // what is there stays; what is new streams through
  kLru = 1,     // what was used longest ago goes
  kS3Fifo = 2,  // what was used once goes early, what came back stays
  kAuto = 3,    // whichever of the three does best on what is being read
};
inline constexpr size_t kFixedPolicies = 3;

/// "retain", "lru", "s3fifo", "auto": as in the configuration.
std::string_view PolicyName(CachePolicy policy);
std::optional<CachePolicy> ParsePolicy(std::string_view name);

/// For people, and for status pages.
struct PolicyReport {
  CachePolicy configured = CachePolicy::kAuto;
  CachePolicy deciding = CachePolicy::kRetain;  // the same unless `configured` is kAuto
  std::string reason;                           // one line; why kAuto has chosen that
  uint64_t switches = 0;                        // how often the choice has changed
};

}  // namespace stoker
