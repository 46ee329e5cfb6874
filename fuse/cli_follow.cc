#include "fuse/cli_follow.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "fuse/cli.h"

namespace stoker {
namespace {

constexpr auto kShortestPoll = std::chrono::milliseconds(10);
constexpr auto kLongestPoll = std::chrono::milliseconds(200);
constexpr int kPollsOfItsAge = 20;  // a pause is this fraction of the job's age

volatile sig_atomic_t g_interrupts = 0;

void OnInterrupt(int) {
  if (g_interrupts >= 1) ::_exit(kExitInterrupted);
  g_interrupts = 1;
}

}  // namespace

Follower::Follower() {
  struct sigaction action {};
  action.sa_handler = &OnInterrupt;
  ::sigaction(SIGINT, &action, nullptr);  // no SA_RESTART: the sleep ends early
  ::sigaction(SIGTERM, &action, nullptr);
}

bool Follower::interrupted() const {
  return g_interrupts != 0;
}

void Follower::Pause() const {
  const auto wait = std::clamp<std::chrono::nanoseconds>(
      (std::chrono::steady_clock::now() - start_) / kPollsOfItsAge, kShortestPoll, kLongestPoll);
  const timespec pause{0, wait.count()};
  ::nanosleep(&pause, nullptr);
}

}  // namespace stoker
