#pragma once

#include <memory>

#include "workload/comm/communicator.h"
#include "workload/comm/transport.h"

namespace stoker::bench {

/// The Communicator of several processes, on top of messages and one barrier that does not wait. What the
/// library would leave to luck is bounded here: each wait asks again and again, at first at once, then after
/// an eighth of the time waited, at most every 0.25 ms; so looking costs little and adds at most an eighth to
/// a wait that others caused.
///
/// Who waits long at a barrier tells the others; whoever has not told when the time is over is missing.
std::unique_ptr<Communicator> MakeMessageCommunicator(std::unique_ptr<Transport> transport);

}  // namespace stoker::bench
