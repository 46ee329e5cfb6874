#include "cache/store/space.h"

#include <algorithm>

#include "cache/base/check.h"

namespace stoker {

uint64_t Space::LimitLocked() const {
  return std::min(limit_bytes_, disk_limit_);
}

void Space::ChargeLocked(int64_t delta) {
  STOKER_CHECK(delta >= 0 || used_ >= static_cast<uint64_t>(-delta));
  used_ += static_cast<uint64_t>(delta);
  used_gauge_.Add(delta);
}

bool Space::TryReserve(uint64_t bytes) {
  MutexLock lock(mu_);
  const uint64_t limit = LimitLocked();
  const uint64_t taken = used_ + reserved_;
  if (taken > limit || bytes > limit - taken) return false;
  reserved_ += bytes;
  return true;
}

void Space::Unreserve(uint64_t bytes) {
  MutexLock lock(mu_);
  STOKER_CHECK(reserved_ >= bytes);
  reserved_ -= bytes;
}

void Space::Charge(int64_t delta) {
  MutexLock lock(mu_);
  ChargeLocked(delta);
}

void Space::Convert(uint64_t reserved, int64_t charged) {
  MutexLock lock(mu_);
  STOKER_CHECK(reserved_ >= reserved);
  reserved_ -= reserved;
  ChargeLocked(charged);
}

void Space::SetDiskRoom(uint64_t used_bytes, uint64_t free_bytes, uint64_t min_free_bytes) {
  MutexLock lock(mu_);
  const uint64_t all = used_bytes + free_bytes;
  disk_limit_ = all > min_free_bytes ? all - min_free_bytes : 0;
}

uint64_t Space::Shortage(uint64_t bytes, double ratio) const {
  MutexLock lock(mu_);
  const auto goal = static_cast<uint64_t>(static_cast<double>(LimitLocked()) * ratio);
  const uint64_t wanted = used_ - std::min(used_, evicting_) + reserved_ + bytes;
  return wanted > goal ? wanted - goal : 0;
}

void Space::BeginEviction(uint64_t bytes) {
  MutexLock lock(mu_);
  evicting_ += bytes;
}

void Space::EndEviction(uint64_t bytes) {
  MutexLock lock(mu_);
  STOKER_CHECK(evicting_ >= bytes);
  evicting_ -= bytes;
}

uint64_t Space::evicting() const {
  MutexLock lock(mu_);
  return evicting_;
}
uint64_t Space::capacity_bytes() const {
  MutexLock lock(mu_);
  return LimitLocked();
}
uint64_t Space::used() const {
  MutexLock lock(mu_);
  return used_;
}
uint64_t Space::reserved() const {
  MutexLock lock(mu_);
  return reserved_;
}

}  // namespace stoker
