#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cache/base/fd.h"
#include "cache/base/ids.h"
#include "cache/base/mutex.h"
#include "cache/store/part_map.h"
#include "cache/store/records.h"

namespace stoker {

class StoreCore;

/// What is kept in memory of one object while somebody holds it: ObjectRefs and reservations share it, the
/// last of them unpins the object. Made unready (kLoading), filled in by one thread, then ready or failed for
/// good.
///
/// An object is *attached* while its name and rows belong to this state; once evicted, invalidated or lost it
/// is *detached*: a nameless snapshot that touches the index no more. Rows and names are changed by *writers*
/// only, counted while attached, so that whoever detaches can wait until none is left.
struct ObjectState : std::enable_shared_from_this<ObjectState> {
  ObjectState(StoreCore& owner, const ObjectId& object_id) : core(owner), id(object_id) {}

  StoreCore& core;
  const ObjectId id;
  /// Set before ready, constant afterwards.
  std::unique_ptr<PartMap> parts;
  std::string token;
  std::string name_hint;

  enum class Load : uint8_t { kLoading, kReady, kFailed };

  mutable Mutex mu;
  CondVar cv;  // load, opening and writers changed
  Load load GUARDED_BY(mu) = Load::kLoading;
  Status load_error GUARDED_BY(mu);
  bool detached GUARDED_BY(mu) = false;
  /// The file is gone or not ours: nothing resident, File() and Commit() fail. Implies detached.
  bool lost GUARDED_BY(mu) = false;
  bool recorded GUARDED_BY(mu) = false;  // object row and named file exist; meaningful while attached
  uint32_t writers GUARDED_BY(mu) = 0;
  uint32_t reservations GUARDED_BY(mu) = 0;
  ObjectPhase phase GUARDED_BY(mu) = ObjectPhase::kIncomplete;  // of the row
  bool suspect GUARDED_BY(mu) = false;                          // of the row
  uint64_t inode GUARDED_BY(mu) = 0;                            // of the row, 0 unless sealed
  /// What Space counts for this object. INVARIANT: at or under the file's allocated bytes at the last look.
  uint64_t charged GUARDED_BY(mu) = 0;
  bool written GUARDED_BY(mu) = false;  // the file was open while incomplete: blocks may have come uncounted
  bool opening GUARDED_BY(mu) = false;  // one thread is opening the file
  std::weak_ptr<const Fd> file GUARDED_BY(mu);
  std::shared_ptr<const Fd> kept_file GUARDED_BY(mu);  // detached: no name leads to it any more
};

}  // namespace stoker
