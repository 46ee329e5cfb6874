#include <cstdio>

#include "cache/base/units.h"
#include "fuse/cli.h"
#include "fuse/cli_find.h"
#include "fuse/control_client.h"
#include "fuse/control_path.h"
#include "fuse/status_page.h"
#include "fuse/warm_display.h"

namespace stoker {
namespace {

/// Sockets that a daemon answers on. Others are skipped; those that are not for us are told.
std::vector<std::string> AnsweringSockets() {
  std::vector<std::string> out;
  for (const std::string& path : ListControlSockets()) {
    const Result<std::string> answer = ControlClient(path).DescribeJson();
    if (answer.ok()) {
      out.push_back(path);
    } else if (answer.status().code() != Code::kUnavailable) {
      std::fprintf(stderr, "stoker: %s\n", answer.status().message().c_str());
    }
  }
  return out;
}

int StatusOfAll(bool json) {
  std::vector<std::string> bodies;
  std::vector<DaemonStatus> statuses;
  for (const std::string& path : AnsweringSockets()) {
    Result<std::string> body = ControlClient(path).DescribeJson();
    if (!body.ok()) continue;  // stopped just now
    Result<DaemonStatus> status = DecodeStatus(*body);
    if (!status.ok()) return Fail(status.status());
    bodies.push_back(std::move(body).value());
    statuses.push_back(std::move(status).value());
  }
  if (json) {
    std::fputs(JoinStatuses(bodies).c_str(), stdout);
  } else if (statuses.empty()) {
    std::printf("no stoker mount is running for this user\n");
  } else if (statuses.size() == 1) {
    std::fputs(StatusPage(statuses.front()).c_str(), stdout);
  } else {
    std::fputs(StatusTable(statuses).c_str(), stdout);
  }
  return kExitOk;
}

/// The one daemon that a command without a mount point means.
Result<std::string> OnlySocket() {
  const std::vector<std::string> sockets = AnsweringSockets();
  if (sockets.size() == 1) return sockets.front();
  if (sockets.empty()) return Status(Code::kNotFound, "no stoker mount is running for this user");
  return Status(Code::kInvalidArgument, "several mounts are running: name one (`stoker status` lists them)");
}

}  // namespace

int RunStatus(const StatusArguments& arguments) {
  if (arguments.mountpoint.empty()) return StatusOfAll(arguments.json);
  const Result<MountEntry> mount = FindOurMount(arguments.mountpoint);
  if (!mount.ok()) return Fail(mount.status());
  const Result<std::string> body = ControlClient(ControlSocketPath(mount->mountpoint)).DescribeJson();
  if (!body.ok()) return Fail(ExplainNoDaemon(*mount, body.status()));
  if (arguments.json) {
    std::fputs(body->c_str(), stdout);
    return kExitOk;
  }
  const Result<DaemonStatus> status = DecodeStatus(*body);
  if (!status.ok()) return Fail(status.status());
  std::fputs(StatusPage(*status).c_str(), stdout);
  return kExitOk;
}

int RunJobs(const JobsArguments& arguments) {
  std::string socket;
  if (arguments.mountpoint.empty()) {
    Result<std::string> only = OnlySocket();
    if (!only.ok()) return Fail(only.status());
    socket = *only;
  } else {
    const Result<MountEntry> mount = FindOurMount(arguments.mountpoint);
    if (!mount.ok()) return Fail(mount.status());
    socket = ControlSocketPath(mount->mountpoint);
  }
  ControlClient client(socket);
  if (!arguments.cancel.empty()) {
    const Result<std::string> answer = client.Call("DELETE", "/jobs/" + arguments.cancel);
    if (!answer.ok()) return Fail(answer.status());
    std::printf("job %s is cancelled\n", arguments.cancel.c_str());
    return kExitOk;
  }
  if (arguments.json) {
    const Result<std::string> body = client.JobsJson();
    if (!body.ok()) return Fail(body.status());
    std::fputs(body->c_str(), stdout);
    return kExitOk;
  }
  const Result<std::vector<WarmProgress>> jobs = client.Jobs();
  if (!jobs.ok()) return Fail(jobs.status());
  if (jobs->empty()) std::printf("no warm job has run on this mount\n");
  for (const WarmProgress& job : *jobs) {
    const std::string line = job.state == WarmProgress::State::kRunning ? WarmLine(job) : WarmSummary(job);
    std::printf("%llu %-9s %s\n", static_cast<unsigned long long>(job.id),
                std::string(StateName(job.state)).c_str(), line.c_str());
  }
  return kExitOk;
}

}  // namespace stoker
