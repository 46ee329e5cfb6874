#include "workload/report/submission.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "workload/base/console.h"
#include "workload/base/profile.h"
#include "workload/report/report.h"

namespace stoker::bench {
namespace {

constexpr double kStartSpreadSeconds = 10;  // v0.5: hosts of one run begin within this
constexpr double kRerunShare = 0.05;        // a result must come again within this

/// ".../training/MODEL/run/TIME" (v2.0, v3.0): the index of "training", or nothing.
std::optional<size_t> TrainingLevel(const std::vector<std::string>& parts) {
  if (parts.size() < 4 || parts[parts.size() - 2] != "run" || parts[parts.size() - 4] != "training") {
    return std::nullopt;
  }
  return parts.size() - 4;
}

std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : path + "/") {
    if (c != '/') {
      part += c;
    } else if (!part.empty()) {
      parts.push_back(std::exchange(part, ""));
    }
  }
  return parts;
}

std::string Joined(const std::string& folder, const std::vector<std::string>& parts, size_t count) {
  std::string out = folder;
  for (size_t i = 0; i < count && i < parts.size(); ++i) out += "/" + parts[i];
  return out;
}

/// What the summary says, else what its place says: the time-stamped folders began with v2.0, their division
/// level with v3.0.
Edition EditionOf(const RunSummary& run) {
  if (run.edition) return *run.edition;
  const std::vector<std::string> parts = PartsOf(run.folder);
  const std::optional<size_t> level = TrainingLevel(parts);
  if (!level) return Edition::kV10;
  const bool results = *level >= 2 && parts[*level - 2] == "results";
  return results ? Edition::kV30 : Edition::kV20;
}

void Note(Submission& out, Severity severity, const std::string& rule, const std::string& text,
          const std::string& where = "") {
  out.findings.push_back({severity, rule, where, text});
}

/// The distinct values of a field over all hosts of all runs, as text.
template <typename Field>
std::set<std::string> Distinct(const Submission& submission, Field field) {
  std::set<std::string> out;
  for (const CombinedRun& run : submission.runs) {
    for (const RunSummary& host : run.hosts) out.insert(field(host));
  }
  return out;
}

std::string List(const std::set<std::string>& values) {
  return Join(std::vector<std::string>(values.begin(), values.end()));
}

void CheckEquality(Submission& out) {
  const auto must_agree = [&out](const char* what, const std::set<std::string>& values) {
    if (values.size() > 1) {
      Note(out, Severity::kInvalid, "equal runs",
           std::string(what) + " differs between runs: " + List(values));
    }
  };
  must_agree("the number of training files",
             Distinct(out, [](const RunSummary& run) { return std::to_string(run.files); }));
  must_agree("the number of samples per file",
             Distinct(out, [](const RunSummary& run) { return std::to_string(run.samples_per_file); }));
  std::set<std::string> accelerators;
  std::set<std::string> hosts;
  for (const CombinedRun& run : out.runs) {
    accelerators.insert(std::to_string(run.accelerators));
    hosts.insert(std::to_string(run.hosts.size()));
  }
  must_agree("the number of accelerators", accelerators);
  if (out.edition == Edition::kV05) must_agree("the number of client hosts", hosts);
  const std::set<std::string> seeds =
      Distinct(out, [](const RunSummary& run) { return run.own ? std::to_string(run.own->seed) : ""; });
  if (out.edition != Edition::kV05 && out.counted > 1 && seeds.size() == 1 && *seeds.begin() != "") {
    Note(out, Severity::kNote, "seeds",
         "every run used the seed " + *seeds.begin() + "; the rules ask for another one each time (--seed)");
  }
}

void CheckHosts(Submission& out) {
  for (const CombinedRun& run : out.runs) {
    double first = run.hosts.front().start_unix;
    double last = first;
    std::set<std::string> names;
    for (const RunSummary& host : run.hosts) {
      first = std::min(first, host.start_unix);
      last = std::max(last, host.start_unix);
      if (!names.insert(host.hostname).second) {
        Note(out, Severity::kNote, "hosts", "two summaries are of the host " + host.hostname, run.name);
      }
    }
    if (last - first > kStartSpreadSeconds) {
      Note(out, Severity::kInvalid, "hosts",
           "the hosts began " + Text("%.1f", last - first) + " s apart; they must begin within 10 s",
           run.name);
    }
  }
}

void CheckNumberOfRuns(Submission& out) {
  const bool warm_up = out.runs.size() != out.counted;
  std::string need = "5 runs";
  bool good = out.counted == kCountedRuns;
  if (out.edition == Edition::kV30) {
    need = "6 runs, of which the first is a warm-up";
    good = good && warm_up;
  }
  if (good) return;
  Note(out, Severity::kInvalid, "number of runs",
       std::to_string(out.runs.size()) + (out.runs.size() == 1 ? " run" : " runs") + ", but " +
           std::string(Name(out.edition)) + " calls for " + need);
}

/// The folder levels that v0.5 and v1.0 fix; later rounds are found by their own names.
void CheckLayout(Submission& out) {
  const size_t levels = out.edition == Edition::kV05 ? 2 : 1;
  if (out.edition != Edition::kV05 && out.edition != Edition::kV10) {
    for (const CombinedRun& run : out.runs) {
      if (TrainingLevel(PartsOf(run.hosts.front().folder))) continue;
      Note(out, Severity::kNote, "folders",
           "the summary is not in .../training/" + out.model + "/run/TIME, where " +
               std::string(Name(out.edition)) + " expects it",
           run.name);
    }
    return;
  }
  for (const CombinedRun& run : out.runs) {
    for (const RunSummary& host : run.hosts) {
      if (host.below.size() == levels) continue;
      Note(out, Severity::kInvalid, "folders",
           host.folder + ": " + std::string(Name(out.edition)) + " expects " +
               (levels == 2 ? "RESULTS/RUN/HOST/summary.json" : "RESULTS/RUN/summary.json"),
           run.name);
    }
  }
}

void AddUp(Submission& out) {
  std::vector<double> samples;
  std::vector<double> mib;
  std::vector<double> au;
  for (CombinedRun& run : out.runs) {
    run.au_percent = run.hosts.front().au_mean;
    for (const RunSummary& host : run.hosts) {
      run.samples_per_s += host.samples_mean;
      run.mib_per_s += host.mib_mean;
      run.accelerators += host.accelerators;
      run.au_percent = std::min(run.au_percent, host.au_mean);
    }
    if (run.warm_up) continue;
    samples.push_back(run.samples_per_s);
    mib.push_back(run.mib_per_s);
    au.push_back(run.au_percent);
  }
  out.counted = samples.size();
  out.samples_mean = Mean(samples);
  out.samples_stdev = PopulationStdev(samples);
  out.mib_mean = Mean(mib);
  out.mib_stdev = PopulationStdev(mib);
  out.au_mean = Mean(au);
  out.au_stdev = PopulationStdev(au);
  if (samples.size() < 2 || out.samples_mean <= 0) return;
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  const double spread = (*high - *low) / out.samples_mean;
  if (spread > kRerunShare) {
    Note(out, Severity::kNote, "repeatability",
         "the runs' samples/s lie " + Text("%.1f", 100 * spread) +
             " % apart; a result must come again within 5 %");
  }
}

/// What was found in the same words about several runs is one finding about all of them; the gravest first.
std::vector<Finding> Merged(std::vector<Finding> findings, uint64_t places) {
  std::vector<Finding> out;
  std::vector<uint64_t> counts;
  for (Finding& finding : findings) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const Finding& other) {
      return other.severity == finding.severity && other.rule == finding.rule && other.text == finding.text;
    });
    if (same == out.end()) {
      out.push_back(std::move(finding));
      counts.push_back(1);
      continue;
    }
    same->where += ", " + finding.where;
    ++counts[static_cast<size_t>(same - out.begin())];
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (places == 1) out[i].where.clear();
    if (counts[i] > 1 && counts[i] == places) out[i].where = "all runs";
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return out;
}

}  // namespace

std::vector<Submission> Combine(const std::vector<FoundRuns>& found, std::optional<Edition> edition,
                                const std::vector<std::string>& profile_dirs) {
  // Runs that were named one by one belong together when they could; those below one folder by that folder.
  using Key = std::tuple<std::string, Edition, std::string, std::string>;
  std::map<Key, Submission> groups;
  std::vector<Key> order;
  for (const FoundRuns& where : found) {
    for (const RunSummary& run : where.runs) {
      const Edition round = edition.value_or(EditionOf(run));
      const std::optional<size_t> level = TrainingLevel(run.below);
      const bool single = run.below.empty();
      const std::string folder = single ? "" : level ? Joined(where.folder, run.below, *level) : where.folder;
      const Key key(folder, round, run.model, run.accelerator);
      const auto [group, created] = groups.try_emplace(key);
      Submission& submission = group->second;
      if (created) {
        order.push_back(key);
        submission.folder = single ? run.folder : folder;
        submission.edition = round;
        submission.model = run.model;
        submission.accelerator = run.accelerator;
      }
      std::string name = single ? run.folder : level ? run.below.back() : run.below.front();
      const bool hosts = round == Edition::kV05 && run.below.size() > 1;
      if (!hosts && !single && !level) name = Joined("", run.below, run.below.size()).substr(1);
      auto same = std::find_if(submission.runs.begin(), submission.runs.end(),
                               [&](const CombinedRun& other) { return hosts && other.name == name; });
      if (same == submission.runs.end()) {
        submission.runs.push_back({});
        same = std::prev(submission.runs.end());
        same->name = name;
      }
      same->hosts.push_back(run);
    }
  }
  std::vector<Submission> out;
  for (const Key& key : order) {
    Submission& submission = groups[key];
    const bool six = submission.runs.size() == kCountedRuns + 1;
    if (six && (submission.edition == Edition::kV20 || submission.edition == Edition::kV30)) {
      submission.runs.front().warm_up = true;
    }
    AddUp(submission);
    CheckNumberOfRuns(submission);
    CheckLayout(submission);
    CheckEquality(submission);
    CheckHosts(submission);
    const Result<Profile> profile =
        LoadProfile(profile_dirs, submission.model, submission.edition, submission.accelerator);
    submission.what_if = submission.edition == Edition::kV30 && profile.ok() && profile->division != "closed";
    uint64_t places = 0;
    for (const CombinedRun& run : submission.runs) {
      for (const RunSummary& host : run.hosts) {
        ++places;
        const std::string where = run.hosts.size() > 1 ? run.name + "/" + host.hostname : run.name;
        for (Finding& finding : CheckRun(host, submission.edition, where, profile_dirs)) {
          // A warm-up has to be run, not to pass.
          if (run.warm_up && finding.severity == Severity::kInvalid && finding.rule == "AU threshold")
            continue;
          submission.findings.push_back(std::move(finding));
        }
      }
    }
    submission.findings = Merged(std::move(submission.findings), places);
    submission.result = ClassOf(submission.findings, submission.what_if);
    out.push_back(std::move(submission));
  }
  return out;
}

}  // namespace stoker::bench
