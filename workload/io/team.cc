#include "workload/io/team.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "workload/base/console.h"
#include "workload/base/host.h"

namespace stoker::bench {
namespace {

using Json = nlohmann::json;

// How far the slowest task of a phase may be behind the fastest. There is no better bound: the test measures
// it.
constexpr Nanos kPatience = std::chrono::hours(24);
constexpr Nanos kQuickly = std::chrono::minutes(1);  // what no storage is needed for

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Team::Team(std::unique_ptr<Communicator> others, uint64_t tasks_here)
    : others_(std::move(others)), tasks_here_(tasks_here), tasks_per_host_(tasks_here) {}

Team::Team(uint64_t tasks) : Team(MakeSoloCommunicator(), tasks) {}

Result<std::unique_ptr<Team>> Team::Join(std::unique_ptr<Communicator> others, uint64_t tasks,
                                         const std::string& command) {
  const uint64_t processes = others->size();
  if (tasks == 0) tasks = processes;
  std::unique_ptr<Team> team(new Team(std::move(others), std::max<uint64_t>(1, tasks / processes)));
  Status met;
  if (tasks % processes == 0) {
    met = team->Meet(command);
  } else {
    met = Status(Code::kInvalidArgument,
                 std::to_string(tasks) + " tasks do not divide evenly over the " + std::to_string(processes) +
                     " processes that were started: ask for a multiple, or leave it out");
  }
  if (met.ok()) return team;
  IgnoreStatus(team->others_->Finish(kQuickly));  // there is a better reason to report
  return met;
}

Status Team::Meet(const std::string& command) {
  if (processes() == 1) return Status::Ok();
  const Json mine{{"host", ReadHostInfo().hostname}, {"command", command}, {"version", STOKER_VERSION}};
  ASSIGN_OR_RETURN(const std::vector<std::string> all, Share(Dump(mine)));
  std::vector<std::string> hosts;
  std::vector<std::string> names;
  for (size_t i = 0; i < all.size(); ++i) {
    const Json one = Json::parse(all[i]);
    hosts.push_back(one["host"]);
    names.push_back("process " + std::to_string(i) + " on host " + hosts.back());
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (const char* key : {"version", "command"}) {
      const std::string here = Json::parse(all[i])[key];
      const std::string first = Json::parse(all[0])[key];
      if (here != first) {
        return Status(Code::kInvalidArgument, names[i] + " has another " + key + " (" + here + ") than " +
                                                  names[0] + " (" + first + ")");
      }
    }
  }
  others_->SetNames(names);
  hosts_ = std::set<std::string>(hosts.begin(), hosts.end()).size();
  tasks_per_host_ = tasks_here_ * static_cast<uint64_t>(std::count(hosts.begin(), hosts.end(), hosts[0]));
  uint64_t changes = 0;
  for (size_t i = 1; i < hosts.size(); ++i) changes += hosts[i] != hosts[i - 1];
  hosts_in_rows_ = changes + 1 == hosts_;

  ASSIGN_OR_RETURN(const std::vector<Communicator::Clocks> clocks, others_->MeasureClocks(kQuickly));
  Json ahead = Json::array();
  for (const Communicator::Clocks& one : clocks) ahead.push_back(one.steady_s);
  ASSIGN_OR_RETURN(const std::string told, others_->Broadcast(Dump(ahead), kQuickly));
  clock_ahead_s_ = Json::parse(told).at(others_->rank());
  return Status::Ok();
}

Result<std::vector<std::string>> Team::Share(const std::string& text) {
  if (processes() == 1) return std::vector<std::string>{text};
  ASSIGN_OR_RETURN(const std::vector<std::optional<std::string>> parts, others_->Gather(text, kPatience));
  Json all = Json::array();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) return Status(Code::kDeadlineExceeded, others_->NameOf(i) + " is silent");
    all.push_back(*parts[i]);
  }
  ASSIGN_OR_RETURN(const std::string told, others_->Broadcast(Dump(all), kPatience));
  return Json::parse(told).get<std::vector<std::string>>();
}

Status Team::Agree(const Status& mine) {
  if (processes() == 1) return mine;
  const Json one{
      {"code", static_cast<int>(mine.code())}, {"errno", mine.os_errno()}, {"text", mine.message()}};
  ASSIGN_OR_RETURN(const std::vector<std::string> all, Share(Dump(one)));
  for (size_t i = 0; i < all.size(); ++i) {
    const Json json = Json::parse(all[i]);
    const Code code = static_cast<Code>(json["code"].get<int>());
    if (code == Code::kOk) continue;
    return Status(code, others_->NameOf(i) + ": " + json["text"].get<std::string>(), json["errno"]);
  }
  return Status::Ok();
}

Result<uint64_t> Team::FromLeader(uint64_t number) {
  if (processes() == 1) return number;
  ASSIGN_OR_RETURN(const std::string told, others_->Broadcast(std::to_string(number), kPatience));
  return std::stoull(told);
}

Status Team::Run(const std::function<void(uint64_t, Rendezvous&)>& work, const std::function<void()>& stop) {
  const bool bridged = processes() > 1;
  Rendezvous meeting(tasks_here_, bridged);
  Status bridge;
  const Status ran = RunThreads(
      tasks_here_,
      [&](uint64_t task) {
        work(first() + task, meeting);
        meeting.Leave();
      },
      [&] {
        if (!bridged) return;
        const auto exchange = [&](uint64_t largest) -> Result<uint64_t> {
          ASSIGN_OR_RETURN(const std::vector<std::string> all, Share(std::to_string(largest)));
          for (const std::string& one : all) largest = std::max<uint64_t>(largest, std::stoull(one));
          return largest;
        };
        bridge = meeting.Serve(exchange, [&] {
          if (!others_->News().ok()) stop();
        });
        if (!bridge.ok()) stop();
      });
  if (!ran.ok() && bridged)
    others_->Abort(Fail(ran.message(), 1));  // the others wait for tasks that will not come
  RETURN_IF_ERROR(ran);
  return bridge;
}

double Team::Seconds(Nanos stamp) const {
  return std::chrono::duration<double>(stamp).count() - clock_ahead_s_;
}

void Team::Finish(int exit_status) {
  if (processes() == 1) return;
  if (!others_->Finish(kQuickly).ok()) others_->Abort(exit_status);
}

}  // namespace stoker::bench
