// stoker-bench: a training job's storage side, judged from outside. Signals and exit status; the rest is in
// the verbs.

#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "cache/base/standard_streams.h"
#include "workload/base/console.h"
#include "workload/cli/cli.h"
#include "workload/comm/launcher.h"

namespace {

/// Launchers pass on what the terminal has sent to all its processes already: signals this close are one.
constexpr std::chrono::milliseconds kOneSignal{300};

/// SIGINT and SIGTERM are taken by one thread: the first asks the work to end, a second ends the process.
void WatchSignals(stoker::CancelToken cancel) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // before any other thread exists, so that all inherit it
  std::thread([set, cancel]() mutable {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) return;
    std::fputs("stoker-bench: stopping; once more to leave at once\n", stderr);
    cancel.Cancel();
    std::this_thread::sleep_for(kOneSignal);
    const timespec at_once{};
    while (sigtimedwait(&set, nullptr, &at_once) > 0) {
    }
    if (sigwait(&set, &signal) == 0) ::_exit(stoker::bench::kExitInterrupted);
  }).detach();
}

/// Who speaks, when a launcher has started several processes.
void NameSpeaker(const stoker::bench::Launch& launch) {
  if (launch.by == stoker::bench::Launch::By::kNobody) return;
  stoker::bench::SetSpeaker(false, "process " + std::to_string(launch.rank) +
                                       (launch.size > 0 ? " of " + std::to_string(launch.size) : "") + ": ");
}

/// A verb that knows of no other processes must not be done by each of many at once.
stoker::Status Alone(const stoker::bench::Verb& verb, const stoker::bench::Launch& launch) {
  if (verb.spans_processes() || launch.by == stoker::bench::Launch::By::kNobody) return stoker::Status::Ok();
  return {stoker::Code::kInvalidArgument,
          verb.name() +
              " does not share its work between processes, and mpiexec, mpirun or srun started several; "
              "call " +
              verb.name() + " by itself"};
}

}  // namespace

int main(int argc, char** argv) {
  stoker::OpenStandardStreams();
  const stoker::bench::Launch launch = stoker::bench::DetectLaunch();
  NameSpeaker(launch);
  const stoker::Result<stoker::bench::Invocation> invocation = stoker::bench::ParseCommandLine(argc, argv);
  if (!invocation.ok()) return stoker::bench::Fail(invocation.status().message(), stoker::bench::kExitUsage);
  if (invocation->verb == nullptr) {
    std::fputs(invocation->text.c_str(), stdout);
    return stoker::bench::kExitPass;
  }
  const stoker::Status alone = Alone(*invocation->verb, launch);
  if (!alone.ok()) return stoker::bench::Fail(alone.message(), stoker::bench::kExitUsage);
  const stoker::CancelToken cancel;
  WatchSignals(cancel);
  return invocation->verb->Run(cancel);
}
