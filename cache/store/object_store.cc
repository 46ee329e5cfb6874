#include "cache/store/object_store.h"

#include <utility>

#include "cache/store/eviction_policy.h"
#include "cache/store/store_core.h"

namespace stoker {
namespace {

/// Object ids are hashes already: any seed gives a fair sample, and a fixed one the same decisions each time.
constexpr uint64_t kPolicySeed = 0x73746f6b6572;
constexpr uint64_t kMaxPartLength = kGiB;  // a part's row holds its length in 32 bits

Status CheckOptions(const ObjectStoreOptions& options) {
  const uint64_t part = options.part_length;
  if (part == 0 || part % kPageBytes != 0 || part > kMaxPartLength) {
    return {Code::kInvalidArgument, "prefetch.part_length " + FormatBytesExact(part) +
                                        ": must be a multiple of 4KiB, from 4KiB to 1GiB"};
  }
  if (options.limit_bytes < part + kPageBytes) {
    return {Code::kInvalidArgument, "cache.size " + FormatBytesExact(options.limit_bytes) +
                                        " does not hold one part (prefetch.part_length " +
                                        FormatBytesExact(part) + "): give it at least " +
                                        FormatBytesExact(part + kPageBytes)};
  }
  if (!(options.low_watermark > 0 && options.low_watermark <= 1)) {
    return {Code::kInvalidArgument, "cache low watermark " + std::to_string(options.low_watermark) +
                                        ": must be above 0 and at most 1"};
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> ObjectStore::Open(const ObjectStoreOptions& options, Metrics& metrics,
                                                       Clock& clock) {
  std::unique_ptr<StoreCore> core;
  ASSIGN_OR_RETURN(core, StoreCore::Open(options, metrics, clock));
  return std::unique_ptr<ObjectStore>(std::move(core));
}

Result<std::unique_ptr<StoreCore>> StoreCore::Open(const ObjectStoreOptions& options, Metrics& metrics,
                                                   Clock& clock) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<Disk> disk;
  ASSIGN_OR_RETURN(disk, Disk::Open(options.dir));
  std::unique_ptr<Index> index;
  ASSIGN_OR_RETURN(index, Index::Open(disk->index_dir()));
  std::string boot_id = CurrentBootId();
  std::vector<RecoveredObject> objects;
  ASSIGN_OR_RETURN(objects, Recover(*index, *disk, boot_id));
  auto core = std::make_unique<StoreCore>(options, std::move(disk), std::move(index),
                                          MakeEvictionPolicy(options.policy, kPolicySeed), std::move(boot_id),
                                          metrics, clock);
  core->Start(objects);
  return core;
}

const ObjectId& ObjectRef::id() const {
  return state_->id;
}
uint64_t ObjectRef::size() const {
  return state_->parts->size();
}
uint64_t ObjectRef::part_length() const {
  return state_->parts->part_length();
}
uint32_t ObjectRef::part_count() const {
  return state_->parts->count();
}
ByteRange ObjectRef::PartRange(PartIndex part) const {
  return state_->parts->Range(part);
}
PartIndex ObjectRef::PartAt(uint64_t offset) const {
  return state_->parts->At(offset);
}
bool ObjectRef::IsResident(PartIndex part) const {
  return state_->parts->Has(part);
}
bool ObjectRef::IsResident(ByteRange range) const {
  return state_->parts->Has(range);
}
bool ObjectRef::complete() const {
  return state_->parts->complete();
}
uint64_t ObjectRef::resident_bytes() const {
  return state_->parts->resident_bytes();
}
Result<std::shared_ptr<const Fd>> ObjectRef::File() const {
  return state_->core.OpenFile(*state_);
}

SpaceReservation::~SpaceReservation() {
  if (state_ != nullptr) state_->core.Unreserve(*state_, bytes_);
}

SpaceReservation::SpaceReservation(SpaceReservation&& other) noexcept
    : state_(std::move(other.state_)), bytes_(std::exchange(other.bytes_, 0)) {}

SpaceReservation& SpaceReservation::operator=(SpaceReservation&& other) noexcept {
  SpaceReservation taken(std::move(other));  // what this one held is given back when `taken` goes
  std::swap(state_, taken.state_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

}  // namespace stoker
