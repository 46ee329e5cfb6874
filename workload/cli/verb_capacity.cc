#include "workload/cli/verb_capacity.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "workload/base/console.h"
#include "workload/cli/flags.h"
#include "workload/report/results.h"

namespace stoker::bench {
namespace {

constexpr char kResultName[] = "capacity.json";

/// "a,b" as names; kInvalidArgument: an empty or a repeated one.
Result<std::vector<std::string>> SplitNames(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text + ",");
  for (std::string name; std::getline(in, name, ',');) {
    if (name.empty() || std::find(out.begin(), out.end(), name) != out.end()) {
      return Status(Code::kInvalidArgument,
                    "--workload: \"" + text + "\" has " +
                        (name.empty() ? "an empty name" : "\"" + name + "\" twice") +
                        "; give different names with commas between, e.g. unet3d,resnet50");
    }
    out.push_back(name);
  }
  return out;
}

int ExitStatusOf(const std::vector<CapacityRecord>& records) {
  int status = kExitPass;
  for (const CapacityRecord& record : records) {
    if (record.interrupted) return kExitInterrupted;
    if (!record.failure.ok()) {
      return Fail(record.command.profile.workload + ": " + record.failure.message(), kExitError);
    }
    if (record.result.fed == 0) status = kExitBelow;
  }
  return status;
}

}  // namespace

void CapacityVerb::AddFlags(CLI::App& app) {
  flags_.AddCommon(app);
  app.get_option("--workload")->description("Names of profiles with commas between, e.g. unet3d,resnet50");
  flags_.AddData(app);
  flags_.AddReading(app);
  app.add_option("--results-dir", results_dir_, "Folder that receives capacity.json");
  app.add_option("--max", max_, "Most accelerators to try (default 1024)");
  app.add_option("--repeats", repeats_, "Measurements that confirm one number, at most (default 5)");
  app.add_option("--confidence", confidence_,
                 "With which the answer holds, 0.5 to 0.9999 (default 0.95); more asks for more repeats");
  app.add_option("--steps", steps_,
                 "Steps that count in one measurement (default: 5 s of computing, at least 20)");
  app.add_option("--time-limit", time_limit_, "For each workload; then what was found so far (default 30m)");
}

Status CapacityVerb::Check() {
  CapacityRequest request;
  if (!max_.empty()) {
    ASSIGN_OR_RETURN(request.search.max, ParseCount("--max", max_, 1, 100'000));
  }
  if (!repeats_.empty()) {
    ASSIGN_OR_RETURN(request.search.repeats, ParseCount("--repeats", repeats_, 2, 1000));
  }
  if (!confidence_.empty()) {
    const Result<double> confidence = ParseNumber("--confidence", confidence_, 0.9999);
    request.search.confidence = confidence.ok() ? *confidence : 0;
    if (request.search.confidence < 0.5) {
      return {Code::kInvalidArgument, "--confidence: \"" + confidence_ + "\" is not from 0.5 to 0.9999"};
    }
  }
  if (!steps_.empty()) {
    ASSIGN_OR_RETURN(request.steps, ParseCount("--steps", steps_, 10, 10'000'000));
  }
  if (!time_limit_.empty()) {
    ASSIGN_OR_RETURN(request.time_limit, ParseTime("--time-limit", time_limit_, std::chrono::seconds(1),
                                                   std::chrono::hours(24 * 7)));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, SplitNames(flags_.workload()));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(request.command, flags_.FillFor(name));
    if (!request.command.null_storage) RETURN_IF_ERROR(NeedData(request.command));
    if (request.command.profile.au <= 0) {
      return {Code::kInvalidArgument, "metric.au: the capacity for " + name +
                                          " needs a threshold above 0; any number of accelerators has AU 0"};
    }
    requests_.push_back(request);
  }
  if (!results_dir_.empty()) return Status::Ok();
  return {Code::kInvalidArgument, "--results-dir is missing: the folder that receives capacity.json"};
}

int CapacityVerb::Run(const CancelToken& cancel) {
  // All datasets are looked for before the first is read.
  std::vector<CapacityPlan> plans;
  for (const CapacityRequest& request : requests_) {
    Result<CapacityPlan> plan = PlanCapacity(request);
    if (!plan.ok()) {
      return Fail(request.command.profile.workload + ": " + plan.status().message(), kExitUsage);
    }
    plans.push_back(std::move(*plan));
  }
  if (::access((results_dir_ + "/" + kResultName).c_str(), F_OK) == 0) {
    return Fail(results_dir_ + " already holds a search (" + kResultName + "); give another --results-dir",
                kExitUsage);
  }
  Result<std::unique_ptr<ResultsDir>> results = ResultsDir::Reserve(results_dir_);
  if (!results.ok()) return Fail(results.status().message(), kExitUsage);
  const std::string hostname = plans.front().training.record.host.hostname;
  std::vector<CapacityRecord> records;
  Status written;
  for (const CapacityPlan& plan : plans) {
    records.push_back(FindCapacity(plan, cancel, Print));
    const CapacityRecord& last = records.back();
    Print(last.command.profile.workload + ": " + CapacityStatement(last));
    if (last.limit.limit != CapacityLimit::kNone) {
      Print(last.command.profile.workload + ": limited by " + std::string(Name(last.limit.limit)) + ": " +
            last.limit.reason);
    }
    // After each: a long list that is killed has what was found.
    written = (*results)->Write(kResultName, CapacityJson(records, hostname));
    if (!written.ok() || !last.failure.ok() || last.interrupted || last.stuck) break;
  }
  std::fputs(CapacityTable(records).c_str(), stdout);
  int exit_status = ExitStatusOf(records);
  if (!written.ok()) {
    exit_status = Fail("the results could not be written: " + written.message(), kExitError);
  } else {
    Print("results: " + (*results)->folder() + "/" + kResultName);
  }
  if (records.back().stuck) {
    // Threads wait in reads that may never return; destructors would wait for them.
    results->reset();
    std::fflush(nullptr);
    ::_exit(exit_status);
  }
  return exit_status;
}

}  // namespace stoker::bench
