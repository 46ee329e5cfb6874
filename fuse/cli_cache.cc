#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "cache/base/units.h"
#include "fuse/cache_protocol.h"
#include "fuse/cli.h"
#include "fuse/cli_find.h"
#include "fuse/cli_follow.h"
#include "fuse/control_client.h"
#include "fuse/control_path.h"

namespace stoker {
namespace {

constexpr size_t kMaxNotesShown = 20;
constexpr int kMaxSilence = 3;                                 // answers in a row that may time out
constexpr auto kLineInterval = std::chrono::seconds(2);        // for pipes
constexpr auto kBarInterval = std::chrono::milliseconds(200);  // for terminals

using Kind = CacheJobRequest::Kind;
using State = CacheJobProgress::State;

std::string Count(uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string Outcome(const CacheJobProgress& p) {
  if (p.kind == Kind::kEvict) {
    return Count(p.objects, "file", "files") + ", " + FormatBytes(p.bytes) + " freed";
  }
  return Count(p.objects, "file", "files") + ", " + FormatBytes(p.bytes) + " good; " +
         (p.damaged_parts == 0 ? "no damage" : Count(p.damaged_parts, "damaged part", "damaged parts"));
}

/// Also tells what is missing when the job did not get to its end.
std::string Seen(const CacheJobProgress& p) {
  return std::to_string(p.objects_seen) + " of " + std::to_string(std::max(p.objects_seen, p.objects_total)) +
         " cached files looked at";
}

struct Target {
  MountEntry mount;
  std::vector<std::string> ufs_paths;
};

Result<Target> FindTarget(const std::vector<std::string>& paths) {
  std::optional<Target> target;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(PathInMount found, FindGoneInMount(path));
    if (!target) target = Target{found.mount, {}};
    if (found.mount.mountpoint != target->mount.mountpoint) {
      return Status(Code::kInvalidArgument, "the paths lie in two mounts, " + target->mount.mountpoint +
                                                " and " + found.mount.mountpoint +
                                                ": name those of one mount at a time");
    }
    target->ufs_paths.push_back(std::move(found.ufs_path));
  }
  if (!target) return Status(Code::kInvalidArgument, "name at least one PATH");
  return *std::move(target);
}

void PrintNotes(const CacheJobProgress& p) {
  const char* const what = p.kind == Kind::kEvict ? "kept" : "damaged";
  const size_t shown = std::min(p.notes.size(), kMaxNotesShown);
  for (size_t i = 0; i < shown; ++i) {
    std::fprintf(stderr, "stoker: %s: %s: %s\n", what, p.notes[i].first.c_str(), p.notes[i].second.c_str());
  }
  const uint64_t total = p.kept_open + p.kept_warming + p.damaged_parts;
  if (total > shown)
    std::fprintf(stderr, "stoker: and %llu more\n", static_cast<unsigned long long>(total - shown));
}

/// Follows the job; its last state, or why that is not known.
Result<CacheJobProgress> Follow(ControlClient& client, CacheJobId job, const char* verb, bool json) {
  const Follower follower;
  const bool tty = !json && ::isatty(STDOUT_FILENO) == 1;
  std::chrono::steady_clock::time_point next = std::chrono::steady_clock::now() + kBarInterval;
  bool cancelled = false;
  int silent = 0;
  while (true) {
    if (follower.interrupted() && !cancelled) {
      cancelled = true;
      std::fprintf(stderr, "stoker: cancelling (interrupt again to leave at once)\n");
      RETURN_IF_ERROR(client.CancelCacheJob(job));
    }
    Result<CacheJobProgress> progress = client.CacheProgress(job);
    if (!progress.ok()) {
      if (progress.status().code() == Code::kDeadlineExceeded && ++silent < kMaxSilence) continue;
      return progress.status();
    }
    silent = 0;
    if (progress->state != State::kRunning) {
      if (tty) std::printf("\r\x1b[K");
      return progress;
    }
    if (const auto now = std::chrono::steady_clock::now(); !json && now >= next) {
      next = now + (tty ? std::chrono::nanoseconds(kBarInterval) : kLineInterval);
      std::printf("%s%s: %s; %s%s", tty ? "\r\x1b[K" : "", verb, Outcome(*progress).c_str(),
                  Seen(*progress).c_str(), tty ? "" : "\n");
      std::fflush(stdout);
    }
    follower.Pause();
  }
}

/// `failed`: the exit status when the job could not be done to its end.
int RunJob(CacheJobRequest request, const CacheArguments& arguments, const char* verb, int failed) {
  const Result<Target> target = FindTarget(arguments.paths);
  if (!target.ok()) {
    Fail(target.status());
    return kExitBadInput;
  }
  if (arguments.all && (target->ufs_paths.size() != 1 || !target->ufs_paths.front().empty())) {
    return Fail(
        {Code::kInvalidArgument, "--all takes the mount point alone, which is " + target->mount.mountpoint});
  }
  request.paths = target->ufs_paths;
  ControlClient client(ControlSocketPath(target->mount.mountpoint));
  const Result<CacheJobId> job = client.StartCacheJob(request);
  if (!job.ok()) {
    Fail(ExplainNoDaemon(target->mount, job.status()));
    return failed;
  }
  const Result<CacheJobProgress> end = Follow(client, *job, verb, arguments.json);
  if (!end.ok()) {
    std::fprintf(stderr, "stoker: %s was not followed to its end: %s\n", verb,
                 end.status().message().c_str());
    return failed;
  }
  if (arguments.json) {
    std::fputs(EncodeCacheProgress(*end).c_str(), stdout);
  } else {
    const char* const state = end->state == State::kCancelled ? "cancelled: "
                              : end->state == State::kFailed  ? "not done to the end: "
                                                              : "";
    std::string line = std::string(verb) + ": " + state + Outcome(*end);
    if (end->kept_open != 0) line += "; " + Count(end->kept_open, "file is", "files are") + " open and kept";
    if (end->kept_warming != 0)
      line += "; " + std::to_string(end->kept_warming) + " kept for a warm job that runs";
    if (end->state != State::kDone) line += "; " + Seen(*end);
    std::printf("%s\n", line.c_str());
    PrintNotes(*end);
  }
  std::fflush(stdout);
  if (end->state == State::kCancelled) return kExitInterrupted;
  if (end->state == State::kFailed) {
    std::fprintf(stderr, "stoker: %s\n", end->error.c_str());
    return failed;
  }
  return end->damaged_parts != 0 ? kExitFailed : kExitOk;
}

}  // namespace

int RunEvict(const CacheArguments& arguments) {
  CacheJobRequest request;
  request.kind = Kind::kEvict;
  return RunJob(std::move(request), arguments, "evict", kExitFailed);
}

int RunVerify(const CacheArguments& arguments) {
  CacheJobRequest request;
  request.kind = Kind::kVerify;
  if (!arguments.rate.empty()) {
    std::string text = arguments.rate;
    if (text.size() > 2 && text.compare(text.size() - 2, 2, "/s") == 0) text.resize(text.size() - 2);
    const Result<uint64_t> rate = ParseBytes(text);
    if (!rate.ok() || *rate == 0) {
      return Fail(
          {Code::kInvalidArgument, "--rate " + arguments.rate +
                                       ": give bytes a second above 0, such as 200MB/s or 1GiB/s; leave it "
                                       "out for no limit"});
    }
    request.bytes_per_second = *rate;
  }
  return RunJob(std::move(request), arguments, "verify", kExitBadInput);
}

}  // namespace stoker
