#include "cache/base/sync_point.h"

#include <csignal>
#include <cstdlib>
#include <map>
#include <string>

#include "cache/base/mutex.h"

namespace stoker {
namespace {

struct State {
  Mutex mu;
  std::map<std::string, std::function<void()>, std::less<>> actions GUARDED_BY(mu);
  std::map<std::string, uint64_t, std::less<>> passed GUARDED_BY(mu);
  std::string kill_name;
  uint64_t kill_at = 0;

  State() {
    const char* text = std::getenv("STOKER_KILL_POINT");
    if (text == nullptr) return;
    kill_name = text;
    kill_at = 1;
    if (const size_t colon = kill_name.rfind(':'); colon != std::string::npos) {
      kill_at = std::strtoull(kill_name.c_str() + colon + 1, nullptr, 10);
      kill_name.resize(colon);
    }
  }
};
State& Points() {
  static auto* state = new State();
  return *state;
}

}  // namespace

void SyncPoints::Set(std::string_view name, std::function<void()> action) {
  MutexLock lock(Points().mu);
  Points().actions[std::string(name)] = std::move(action);
}

void SyncPoints::Clear() {
  MutexLock lock(Points().mu);
  Points().actions.clear();
  Points().passed.clear();
}

uint64_t SyncPoints::Passed(std::string_view name) {
  MutexLock lock(Points().mu);
  const auto it = Points().passed.find(name);
  return it == Points().passed.end() ? 0 : it->second;
}

void SyncPoints::Pass(std::string_view name) {
  std::function<void()> action;
  {
    State& state = Points();
    MutexLock lock(state.mu);
    const uint64_t count = ++state.passed[std::string(name)];
    if (name == state.kill_name && count == state.kill_at) {
      std::raise(SIGKILL);
    }
    if (const auto it = state.actions.find(name); it != state.actions.end()) action = it->second;
  }
  if (action) action();
}

}  // namespace stoker
