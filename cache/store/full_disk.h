#pragma once

#include "cache/store/object_store.h"

namespace stoker {

/// The disk had no room (ENOSPC) for what was reserved: others fill it too. Evicts now what that takes. True
/// when there is room by now and the write is worth another try. REQUIRES: the reservation is not empty. Any
/// thread; may wait on the disk.
bool MakeRoomOnFullDisk(const SpaceReservation& reservation);

}  // namespace stoker
