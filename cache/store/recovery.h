#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/ids.h"
#include "cache/base/result.h"
#include "cache/store/disk.h"
#include "cache/store/index.h"

namespace stoker {

/// An object that outlived the last run.
struct RecoveredObject {
  ObjectId id;
  uint64_t charged_bytes = 0;
  uint64_t used_at_us = 0;
  ObjectPhase phase = ObjectPhase::kIncomplete;
  bool suspect = false;
  bool unsynced = false;  // unsealed, and left by a run that did not end cleanly: in the page cache at best
};

/// Names the boot of this machine: what was written before a reboot without being synced may be lost, what
/// was written in this boot is in the page cache at least. STOKER_BOOT_ID, for tests, stands in for it.
std::string CurrentBootId();

/// Brings index and files together after whatever ended the last run, and opens a new run (not clean until
/// said otherwise): finishes removals, drops objects without parts or file, measures those whose size was not
/// final, and, when the machine went down in between, marks all that was not sealed as suspect. The work is
/// proportional to what was not sealed, apart from one pass over the object rows.
Result<std::vector<RecoveredObject>> Recover(Index& index, const Disk& disk, const std::string& boot_id);

}  // namespace stoker
