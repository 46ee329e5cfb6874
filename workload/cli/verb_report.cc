#include "workload/cli/verb_report.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "workload/base/console.h"
#include "workload/base/profile.h"
#include "workload/report/html_report.h"
#include "workload/report/report_files.h"
#include "workload/report/results.h"
#include "workload/report/submission.h"

namespace stoker::bench {
namespace {

/// The files that the round's own tool would have left.
Result<std::vector<std::string>> WriteRoundsFiles(const std::string& folder,
                                                  const std::vector<Submission>& submissions) {
  std::vector<std::string> written;
  std::vector<Submission> listed;
  bool reported = false;
  for (const Submission& submission : submissions) {
    if (submission.edition == Edition::kV20 || submission.edition == Edition::kV30) {
      listed.push_back(submission);
      continue;
    }
    if (!PublicReportAllowed(submission)) {
      Warn(submission.folder + ": no mlperf_storage_report.json, as the checks of " +
           std::string(Name(submission.edition)) + " are not met");
      continue;
    }
    if (reported) {
      return Status(Code::kInvalidArgument,
                    "mlperf_storage_report.json holds one group of runs, but there are more; name one folder "
                    "at a time with --output-dir");
    }
    reported = true;
    written.push_back(folder + "/mlperf_storage_report.json");
    RETURN_IF_ERROR(WriteWhole(written.back(), PublicReportJson(submission)));
  }
  if (!listed.empty()) {
    written.push_back(folder + "/results.json");
    RETURN_IF_ERROR(WriteWhole(written.back(), ResultsJson(listed)));
    written.push_back(folder + "/results.csv");
    RETURN_IF_ERROR(WriteWhole(written.back(), ResultsCsv(listed)));
  }
  return written;
}

}  // namespace

void ReportVerb::AddFlags(CLI::App& app) {
  app.add_option(
         "DIR,--results-dir", folders_,
         "Folders of runs: a run's own, or one with runs below it in the round's layout. Runs named one "
         "by one are taken together")
      ->type_name("DIR");
  app.add_option("--mlperf", mlperf_, "Rules of this round, whatever the summaries say");
  app.add_option("--html", html_, "Write a page with charts to this file");
  app.add_option("--title", title_, "Heading of the page");
  app.add_option("--json", json_, "Write groups, figures and findings to this file");
  app.add_option(
      "--output-dir", output_dir_,
      "Write the round's own files there: mlperf_storage_report.json (v0.5, v1.0), results.json and "
      "results.csv (later)");
  app.add_option("--profiles-dir", profiles_dir_, "Folder of WORKLOAD.yaml files, looked at first");
}

Status ReportVerb::Check() {
  if (folders_.empty()) {
    return Status(Code::kInvalidArgument, "report: name at least one folder of results");
  }
  RETURN_IF_ERROR(CheckProfilesDir(profiles_dir_));
  if (!mlperf_.empty()) {
    ASSIGN_OR_RETURN(const Edition edition, ParseEdition("--mlperf", mlperf_));
    edition_ = edition;
  }
  return Status::Ok();
}

int ReportVerb::Run(const CancelToken&) {
  std::vector<FoundRuns> found;
  for (const std::string& folder : folders_) {
    Result<std::vector<RunSummary>> runs = FindRuns(folder);
    if (!runs.ok()) return Fail(runs.status().message(), kExitUsage);
    found.push_back({folder, std::move(*runs)});
  }
  const std::vector<Submission> submissions = Combine(found, edition_, ProfileDirs(profiles_dir_));
  std::fputs(ReportText(submissions).c_str(), stdout);
  if (!output_dir_.empty()) {
    const Result<std::vector<std::string>> written = WriteRoundsFiles(output_dir_, submissions);
    if (!written.ok())
      return Fail("--output-dir: " + written.status().message() + "; give a folder that can be written",
                  kExitError);
    for (const std::string& path : *written) Print("written: " + path);
  }
  for (const auto& [flag, path, text] :
       {std::tuple{"--json", json_, json_.empty() ? "" : FullReportJson(submissions)},
        std::tuple{"--html", html_, html_.empty() ? "" : HtmlReport(submissions, title_)}}) {
    if (path.empty()) continue;
    const Status status = WriteWhole(path, text);
    if (!status.ok())
      return Fail(std::string(flag) + ": " + status.message() + "; give a file that can be written",
                  kExitError);
    Print("written: " + path);
  }
  for (const Submission& submission : submissions) {
    if (submission.result == ResultClass::kInvalid) return kExitBelow;
  }
  return kExitPass;
}

}  // namespace stoker::bench
