// stoker-bench: a training job's storage side, judged from outside. Signals and exit status; the rest is in
// the verbs.

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <thread>

#include "cache/base/standard_streams.h"
#include "workload/base/console.h"
#include "workload/cli/cli.h"

namespace {

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
    if (sigwait(&set, &signal) == 0) ::_exit(stoker::bench::kExitInterrupted);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  stoker::OpenStandardStreams();
  const stoker::Result<stoker::bench::Invocation> invocation = stoker::bench::ParseCommandLine(argc, argv);
  if (!invocation.ok()) return stoker::bench::Fail(invocation.status().message(), stoker::bench::kExitUsage);
  if (invocation->verb == nullptr) {
    std::fputs(invocation->text.c_str(), stdout);
    return stoker::bench::kExitPass;
  }
  const stoker::CancelToken cancel;
  WatchSignals(cancel);
  return invocation->verb->Run(cancel);
}
