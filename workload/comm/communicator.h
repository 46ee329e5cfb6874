#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/base/clock.h"
#include "cache/base/result.h"

namespace stoker::bench {

/// How the processes of one run, on one host or many, speak with each other. A *process* is counted from 0
/// and may hold several ranks (accelerators). Barrier, Gather, Broadcast, Split, MeasureClocks and Finish are
/// collective: every process calls them, in the same order, one at a time. Every wait is bounded.
///
/// Barrier, Stop and News: any thread. The rest: the thread that made it.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual uint64_t rank() const = 0;
  virtual uint64_t size() const = 0;
  /// How messages call the processes, e.g. "process 1 on host b (ranks 4-7)"; [size]. Until then "process 1".
  virtual void SetNames(std::vector<std::string> names) = 0;
  virtual std::string NameOf(uint64_t process) const = 0;
  /// The library and its version, for the record; "" when alone.
  virtual std::string Library() const = 0;

  /// Ok when every process has come. kDeadlineExceeded after `timeout`: the message names the missing
  /// processes. kCancelled: somebody called Stop(). After either no barrier works any more.
  virtual Status Barrier(Nanos timeout) = 0;

  /// Ends the barriers here and everywhere; the first reason stays. kCancelled as reason means an
  /// interruption, anything else a failure. Does not wait.
  virtual void Stop(const Status& why) = 0;
  /// Ok, or the reason that another process gave to Stop(), with its name in front. To be asked several times
  /// a second: it also answers the others.
  virtual Status News() = 0;

  /// Everybody's bytes at process 0: [size], nothing where a process sent none within `timeout`. Elsewhere an
  /// empty vector, once process 0 has the bytes. Works after Stop() as well. Errors: kDeadlineExceeded when
  /// process 0 does not take ours, kUnavailable when the library fails.
  virtual Result<std::vector<std::optional<std::string>>> Gather(std::string bytes, Nanos timeout) = 0;
  /// Process 0's bytes everywhere. Works after Stop() as well. kDeadlineExceeded: they did not come.
  virtual Result<std::string> Broadcast(std::string bytes, Nanos timeout) = 0;

  /// A process's clocks less process 0's, seconds; good to half a round trip between the two.
  struct Clocks {
    double steady_s = 0;  // SteadyNow()
    double wall_s = 0;
  };
  /// [size] at process 0, empty elsewhere. kDeadlineExceeded: a process does not answer.
  virtual Result<std::vector<Clocks>> MeasureClocks(Nanos timeout) = 0;

  /// The processes that gave the same number, in their order, as a communicator of their own. To be ended by
  /// Finish() before this one.
  virtual Result<std::unique_ptr<Communicator>> Split(uint64_t number) = 0;

  /// Leaves in good order: all processes come, unfinished barriers are completed. Not ok (kDeadlineExceeded)
  /// when some do not come within `timeout`: then only Abort() ends everybody.
  virtual Status Finish(Nanos timeout) = 0;
  /// Ends every process at once, with this exit status.
  [[noreturn]] virtual void Abort(int exit_status) = 0;
};

/// One process alone: every call returns at once.
std::unique_ptr<Communicator> MakeSoloCommunicator();

}  // namespace stoker::bench
