// StoreCore: what people ask for by name: listing, looking, evicting.

#include <algorithm>

#include "cache/store/store_core.h"

namespace stoker {
namespace {

/// Sealing a batch takes as long as the disk takes to sync it.
constexpr auto kSealPatience = std::chrono::seconds(30);
constexpr auto kSealWait = std::chrono::milliseconds(50);

}  // namespace

Result<std::vector<StoredObject>> StoreCore::List(const ObjectId* after, size_t limit) {
  auto rows = index_->GetObjectsAfter(after, limit);
  if (!rows.ok()) return Failed(rows.status());
  std::vector<StoredObject> page;
  page.reserve(rows->size());
  for (auto& [id, record] : rows.value()) {
    page.push_back({id, record ? std::move(record->name_hint) : std::string()});
  }
  return page;
}

Result<ObjectRef> StoreCore::Peek(const ObjectId& id) {
  std::shared_ptr<ObjectState> state;
  ASSIGN_OR_RETURN(state, Hold(id, nullptr, "", 0, /*create=*/false));
  return ObjectRef(std::move(state));
}

Result<EvictReport> StoreCore::Evict(const std::vector<ObjectId>& ids) {
  EvictReport report;
  Going victims;
  const auto deadline = std::chrono::steady_clock::now() + kSealPatience;
  {
    MutexLock lock(mu_);
    // First, so that nothing is marked while we wait: whoever wants a marked object waits for us.
    const auto sealing = [&](const ObjectId& id)
                             REQUIRES(mu_) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
    while (std::any_of(sealing_ids_.begin(), sealing_ids_.end(), sealing) &&
           std::chrono::steady_clock::now() < deadline) {
      changed_.WaitFor(mu_, kSealWait);
    }
    for (const ObjectId& id : ids) {
      const auto it = table_.find(id);
      if (it == table_.end() || it->second.going) continue;
      Entry& entry = it->second;
      if (entry.broken) {
        report.kept.emplace_back(id, EvictReport::Kept::kDamaged);
      } else if (entry.active != nullptr) {
        report.kept.emplace_back(id, EvictReport::Kept::kOpen);
      } else if (entry.protectors > 0) {
        report.kept.emplace_back(id, EvictReport::Kept::kWarming);
      } else {
        LetGoLocked(entry, victims);
      }
    }
  }
  if (victims.objects.empty()) return report;
  RETURN_IF_ERROR(RemoveGoing(victims));
  for (const Removed& one : victims.objects) {
    ++report.objects;
    report.bytes += one.charged;
  }
  return report;
}

}  // namespace stoker
