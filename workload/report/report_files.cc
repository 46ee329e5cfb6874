#include "workload/report/report_files.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "workload/base/console.h"
#include "workload/base/text_table.h"

namespace stoker::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

const RunSummary& First(const Submission& submission) {
  return submission.runs.front().hosts.front();
}

std::string_view Name(Severity severity) {
  switch (severity) {
    case Severity::kInvalid:
      return "invalid";
    case Severity::kOpen:
      return "open";
    case Severity::kNote:
      break;
  }
  return "note";
}

Json FindingsJson(const std::vector<Finding>& findings) {
  Json out = Json::array();
  for (const Finding& finding : findings) {
    out.push_back(Json{{"severity", Name(finding.severity)},
                       {"rule", finding.rule},
                       {"run", finding.where},
                       {"text", finding.text}});
  }
  return out;
}

/// One host of one run as the public list of runs has it.
Json RunJson(const Submission& submission, const CombinedRun& run, const RunSummary& host) {
  Json parameters = Json::object();
  if (host.own) {
    for (const auto& [key, value] : host.own->parameters) parameters[key] = value;
  }
  Json overrides = Json::object();
  for (const std::string& assignment : host.overrides) {
    const size_t split = assignment.find('=');
    overrides[assignment.substr(0, split)] = split == std::string::npos ? "" : assignment.substr(split + 1);
  }
  return Json{{"run_id", run.name},
              {"benchmark_type", "training"},
              {"model", submission.model},
              {"accelerator", submission.accelerator},
              {"command", "run"},
              {"num_processes", host.accelerators},
              {"num_hosts", host.hosts},
              {"hostname", host.hostname},
              {"run_datetime", host.start},
              {"warm_up", run.warm_up},
              {"class", Name(submission.result)},
              {"parameters", parameters},
              {"override_parameters", overrides},
              {"metrics", Json::parse(host.metric_json)},
              {"result_dir", host.folder}};
}

/// {"a": {"b": 1}} becomes a.b = 1; lists become one text.
void Flatten(const Json& json, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& out) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      Flatten(value, prefix.empty() ? key : prefix + "." + key, out);
    }
    return;
  }
  out.emplace_back(prefix, json.is_string() ? json.get<std::string>()
                                            : json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// RFC 4180; a text that a spreadsheet would take for a formula gets an apostrophe before it.
std::string CsvField(std::string text) {
  const bool number = !text.empty() && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  if (!text.empty() && !number && std::string("=+-@\t\r").find(text.front()) != std::string::npos) {
    text.insert(0, 1, '\'');
  }
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

bool PublicReportAllowed(const Submission& submission) {
  static const std::set<std::string> checked = {"number of runs", "folders",   "equal runs", "hosts",
                                                "AU threshold",   "whole run", "reading"};
  return std::none_of(submission.findings.begin(), submission.findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::kInvalid && checked.count(finding.rule) > 0;
  });
}

std::string PublicReportJson(const Submission& submission) {
  const bool accelerator = submission.edition != Edition::kV05;
  const CombinedRun& first = submission.runs.front();
  Json overall;
  overall["model"] = submission.model;
  if (accelerator) overall["accelerator"] = submission.accelerator;
  if (!accelerator) overall["num_client_hosts"] = first.hosts.size();
  overall["num_benchmark_runs"] = submission.runs.size();
  overall["train_num_accelerators"] = std::to_string(first.accelerators);
  overall["num_files_train"] = First(submission).files;
  overall["num_samples_per_file"] = First(submission).samples_per_file;
  overall["train_throughput_mean_samples_per_second"] = submission.samples_mean;
  overall["train_throughput_stdev_samples_per_second"] = submission.samples_stdev;
  overall["train_throughput_mean_MB_per_second"] = submission.mib_mean;
  overall["train_throughput_stdev_MB_per_second"] = submission.mib_stdev;
  Json runs = Json::object();
  for (const CombinedRun& run : submission.runs) {
    Json& out = runs[run.name];
    out["train_throughput_samples_per_second"] = run.samples_per_s;
    out["train_throughput_MB_per_second"] = run.mib_per_s;
    out["train_num_accelerators"] = std::to_string(run.accelerators);
    out["model"] = submission.model;
    if (accelerator) out["accelerator"] = submission.accelerator;
    out["num_files_train"] = run.hosts.front().files;
    out["num_samples_per_file"] = run.hosts.front().samples_per_file;
  }
  return Dump(Json{{"overall", overall}, {"runs", runs}}, 4);
}

std::string ResultsJson(const std::vector<Submission>& submissions) {
  Json out = Json::array();
  for (const Submission& submission : submissions) {
    for (const CombinedRun& run : submission.runs) {
      for (const RunSummary& host : run.hosts) out.push_back(RunJson(submission, run, host));
    }
  }
  return Dump(out, 2);
}

std::string ResultsCsv(const std::vector<Submission>& submissions) {
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> columns;
  std::set<std::string> known;
  for (const Submission& submission : submissions) {
    for (const CombinedRun& run : submission.runs) {
      for (const RunSummary& host : run.hosts) {
        std::vector<std::pair<std::string, std::string>> flat;
        Flatten(RunJson(submission, run, host), "", flat);
        for (const auto& [key, value] : flat) {
          if (known.insert(key).second) columns.push_back(key);
        }
        rows.emplace_back(flat.begin(), flat.end());
      }
    }
  }
  std::string out;
  for (size_t i = 0; i < columns.size(); ++i) out += (i == 0 ? "" : ",") + CsvField(columns[i]);
  out += "\r\n";
  for (const auto& row : rows) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto value = row.find(columns[i]);
      out += (i == 0 ? "" : ",") + (value == row.end() ? "" : CsvField(value->second));
    }
    out += "\r\n";
  }
  return out;
}

std::string FullReportJson(const std::vector<Submission>& submissions) {
  Json out = Json::array();
  for (const Submission& submission : submissions) {
    Json runs = Json::array();
    for (const CombinedRun& run : submission.runs) {
      Json hosts = Json::array();
      for (const RunSummary& host : run.hosts) hosts.push_back(RunJson(submission, run, host));
      runs.push_back(Json{{"name", run.name},
                          {"warm_up", run.warm_up},
                          {"num_accelerators", run.accelerators},
                          {"au_percent", run.au_percent},
                          {"samples_per_second", run.samples_per_s},
                          {"nominal_MiB_per_second", run.mib_per_s},
                          {"hosts", hosts}});
    }
    out.push_back(Json{{"folder", submission.folder},
                       {"mlperf", Name(submission.edition)},
                       {"model", submission.model},
                       {"accelerator", submission.accelerator},
                       {"class", Name(submission.result)},
                       {"verdict", ClassText(submission.result, submission.findings)},
                       {"counted_runs", submission.counted},
                       {"au_mean_percent", submission.au_mean},
                       {"au_stdev_percent", submission.au_stdev},
                       {"samples_mean_per_second", submission.samples_mean},
                       {"samples_stdev_per_second", submission.samples_stdev},
                       {"nominal_mean_MiB_per_second", submission.mib_mean},
                       {"nominal_stdev_MiB_per_second", submission.mib_stdev},
                       {"findings", FindingsJson(submission.findings)},
                       {"runs", runs}});
  }
  return Dump(out, 2);
}

std::string ReportText(const std::vector<Submission>& submissions) {
  std::string out;
  for (const Submission& submission : submissions) {
    if (!out.empty()) out += "\n";
    out += submission.model + " " + std::string(Name(submission.edition)) +
           (submission.accelerator.empty() ? "" : ", " + submission.accelerator) + ": " + submission.folder +
           "\n";
    std::vector<std::vector<std::string>> rows = {
        {"run", "hosts", "accelerators", "AU %", "samples/s", "MiB/s nominal", "MB/s nominal"}};
    const auto row = [&rows](const std::string& name, const std::string& hosts,
                             const std::string& accelerators, double au, double samples, double mib) {
      rows.push_back({name, hosts, accelerators, Text("%.2f", au), Text("%.2f", samples), Text("%.1f", mib),
                      Text("%.1f", mib * 1.048576)});
    };
    for (const CombinedRun& run : submission.runs) {
      const uint64_t hosts = run.hosts.size() > 1 ? run.hosts.size() : run.hosts.front().hosts;
      row(run.name + (run.warm_up ? " (warm-up)" : ""), std::to_string(hosts),
          std::to_string(run.accelerators), run.au_percent, run.samples_per_s, run.mib_per_s);
    }
    if (submission.counted > 1) {
      row("mean", "", "", submission.au_mean, submission.samples_mean, submission.mib_mean);
      row("stdev", "", "", submission.au_stdev, submission.samples_stdev, submission.mib_stdev);
    }
    out += TextTable(rows, {.indent = 2, .gap = 1});
    out += std::string(Name(submission.result)) + ": " + ClassText(submission.result, submission.findings) +
           "\n";
    for (const Finding& finding : submission.findings) {
      out += "  [" + std::string(Name(finding.severity)) + "] " + finding.rule +
             (finding.where.empty() ? "" : ", " + finding.where) + ": " + finding.text + "\n";
    }
  }
  return out;
}

}  // namespace stoker::bench
