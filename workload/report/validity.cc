#include "workload/report/validity.h"

#include <algorithm>
#include <set>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/base/profile.h"
#include "workload/data/datasize.h"

namespace stoker::bench {
namespace {

using Keys = std::set<std::string, std::less<>>;

/// From this share of the dataset on the page cache counts as filled before the run.
constexpr double kPrefilledShare = 0.05;
/// The rules name this as the most reading threads; published CLOSED results of v3.0 used more.
constexpr uint64_t kReadThreads = 32;
constexpr uint64_t kClosedPrefetch = 2;  // v1.0 on: the most that CLOSED allows

const Keys& ClosedKeys(Edition edition) {
  static const Keys v05 = {"dataset.num_files_train",    "dataset.num_subfolders_train",
                           "dataset.data_folder",        "reader.read_threads",
                           "reader.computation_threads", "checkpoint.checkpoint_folder",
                           "storage.storage_type",       "storage.storage_root"};
  static const Keys v10 = [] {
    Keys keys = v05;
    keys.insert({"reader.transfer_size", "reader.prefetch_size"});
    return keys;
  }();
  static const Keys v20 = [] {
    Keys keys = v10;
    keys.insert("reader.odirect");
    return keys;
  }();
  static const Keys v30 = [] {
    Keys keys = v20;
    keys.insert("storage.storage_options.prefetch_window");
    return keys;
  }();
  switch (edition) {
    case Edition::kV05:
      return v05;
    case Edition::kV10:
      return v10;
    case Edition::kV20:
      return v20;
    case Edition::kV30:
      break;
  }
  return v30;
}

const Keys& OpenKeys() {
  static const Keys keys = {"reader.transfer_size", "framework", "dataset.format",
                            "dataset.num_samples_per_file", "reader.data_loader"};
  return keys;
}

std::string Percent(double value) {
  return Text("%.2f", value) + " %";
}

std::string Key(const std::string& assignment) {
  return assignment.substr(0, assignment.find('='));
}
std::string Value(const std::string& assignment) {
  const size_t split = assignment.find('=');
  return split == std::string::npos ? "" : assignment.substr(split + 1);
}

/// Collects findings about one run.
class Checker {
 public:
  Checker(const RunSummary& run, Edition edition, std::string where)
      : run_(run), edition_(edition), where_(std::move(where)) {}

  void Whole() {
    if (!run_.own) return;
    const OwnSummary& own = *run_.own;
    if (own.null_storage) {
      Add(Severity::kInvalid, "reading",
          "the run read nothing (--null): it measures the generator, not a storage");
    }
    if (own.read_errors > 0) {
      Add(Severity::kInvalid, "reading",
          std::to_string(own.read_errors) + (own.read_errors == 1 ? " file" : " files") +
              " could not be read; the first: " + own.first_read_error);
    }
    if (own.status == "interrupted") {
      Add(Severity::kInvalid, "whole run", "the run was interrupted: " + Epochs() + "; run it again");
    } else if (own.status != "complete" && own.read_errors == 0) {
      Add(Severity::kInvalid, "whole run",
          "the run failed: " + (own.failure.empty() ? Epochs() : own.failure));
    }
    if (!own.note.empty()) Add(Severity::kNote, "steps", own.note);
    if (own.client_cpu_limits) {
      Add(Severity::kNote, "client",
          "the client's CPU was nearly all used and may have been the limit, not the storage");
    }
  }

  void Utilisation(double threshold_percent) {
    const bool met = edition_ == Edition::kV05 ? run_.au_mean >= 90 : run_.meets_expectation;
    if (met) return;
    // A run that is not whole meets nothing whatever its figure; that is said by another rule.
    if (run_.own && !run_.own->valid && run_.au_mean >= threshold_percent) return;
    Add(Severity::kInvalid, "AU threshold",
        "mean AU is " + Percent(run_.au_mean) + ", under the threshold of " + Text("%g", threshold_percent) +
            " %; use fewer accelerators or faster storage");
  }

  void Overrides() {
    for (const std::string& assignment : run_.overrides) {
      const std::string key = Key(assignment);
      if (key.compare(0, 9, "workflow.") == 0) continue;  // which phases ran, not how
      switch (ClassOfOverride(edition_, key)) {
        case OverrideClass::kClosed:
          ClosedValue(key, Value(assignment));
          break;
        case OverrideClass::kOpen:
          Add(Severity::kOpen, "parameters", assignment + " may be changed in OPEN only");
          break;
        case OverrideClass::kNeither:
          Add(Severity::kInvalid, "parameters",
              assignment + " may be changed in neither division of " + std::string(Name(edition_)) +
                  "; take it out");
          break;
      }
    }
    if (!run_.own) return;
    for (const std::string& flag : run_.own->rule_overrides) {
      Add(Severity::kOpen, "rules of the round",
          flag + " departs from what " + std::string(Name(edition_)) + " prescribes");
    }
  }

  void DatasetSize(const Profile& profile) {
    DatasizeInput input;
    input.formula = edition_;
    input.accelerators = std::max<uint64_t>(1, run_.accelerators);
    input.client_hosts = std::max<uint64_t>(1, run_.hosts);
    double memory = 0;
    for (const double gb : run_.host_memory_gb) memory += gb;
    if (memory > 0) {
      input.host_memory_gb = memory / static_cast<double>(input.client_hosts);
    } else if (run_.own) {
      input.host_memory_gb = static_cast<double>(run_.own->memory_bytes) / static_cast<double>(kGiB);
    }
    input.samples_per_file = profile.num_samples_per_file;
    input.record_bytes = profile.record_bytes;
    input.batch_size = profile.batch_size;
    input.computation_time = profile.computation_time;
    input.epochs = profile.epochs;
    input.steps = profile.total_training_steps;
    if (input.record_bytes < 1) return;
    const Datasize need = ComputeDatasize(input);
    if (run_.files < need.files) {
      const bool steps = need.samples_by_steps >= need.samples_by_memory;
      Add(Severity::kInvalid, "dataset size",
          std::to_string(run_.files) + " files, but at least " + std::to_string(need.files) +
              " are needed: " +
              (steps ? "the rule of enough steps an epoch asks for " + std::to_string(need.samples_by_steps)
                     : "5 times the memory of the hosts (" +
                           Text("%.1f", input.host_memory_gb * static_cast<double>(input.client_hosts)) +
                           " GiB) is " + std::to_string(need.samples_by_memory)) +
              " samples (stoker-bench datasize)");
    }
    if (input.host_memory_gb == 0) {
      Add(Severity::kNote, "dataset size",
          "the summary does not tell the host's memory: only the rule of enough steps was checked");
    }
  }

  void PageCache() {
    const std::optional<double> before = run_.own ? run_.own->page_cache_before : std::nullopt;
    if (before && *before >= kPrefilledShare) {
      Add(Severity::kInvalid, "page cache",
          Text("%.0f", 100 * *before) +
              " % of the dataset (by a sample) was in the page cache before the run; it must begin cold");
    }
    if (std::any_of(run_.potential_caching.begin(), run_.potential_caching.end(),
                    [](uint64_t value) { return value != 0; })) {
      Add(Severity::kNote, "page cache",
          "an epoch's bytes fit in the memory of a host: later epochs may not have "
          "come from the storage");
    }
    if (!run_.series_fault.empty()) Add(Severity::kNote, "time series", run_.series_fault);
  }

  void Add(Severity severity, const std::string& rule, const std::string& text) {
    findings_.push_back({severity, rule, where_, text});
  }
  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  std::string Epochs() const {
    const auto done = std::count_if(run_.own->epochs.begin(), run_.own->epochs.end(),
                                    [](const EpochSummary& epoch) { return epoch.complete; });
    return std::to_string(done) + " of " + std::to_string(run_.epochs) + " epochs are complete";
  }

  /// Keys that CLOSED allows within limits.
  void ClosedValue(const std::string& key, const std::string& value) {
    const bool number = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
    const uint64_t count = number && value.size() < 10 ? std::stoull(value) : 0;
    if (key == "reader.prefetch_size" && count > kClosedPrefetch) {
      Add(Severity::kOpen, "parameters", "reader.prefetch_size=" + value + ": CLOSED allows at most 2");
    }
    if (key == "reader.read_threads" && count > kReadThreads) {
      Add(Severity::kNote, "parameters",
          "reader.read_threads=" + value +
              " is more than the 32 that the rules name; published results have "
              "used more");
    }
    if (key == "reader.odirect" && (value == "true" || value == "True") && run_.model != "unet3d") {
      Add(Severity::kInvalid, "parameters", "reader.odirect is for unet3d only");
    }
  }

  const RunSummary& run_;
  const Edition edition_;
  const std::string where_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string_view Name(ResultClass result) {
  switch (result) {
    case ResultClass::kClosed:
      return "CLOSED";
    case ResultClass::kOpen:
      return "OPEN";
    case ResultClass::kWhatIf:
      return "WHAT-IF";
    case ResultClass::kInvalid:
      break;
  }
  return "INVALID";
}

OverrideClass ClassOfOverride(Edition edition, std::string_view key) {
  if (ClosedKeys(edition).count(key) > 0) return OverrideClass::kClosed;
  return OpenKeys().count(key) > 0 ? OverrideClass::kOpen : OverrideClass::kNeither;
}

std::vector<Finding> CheckRun(const RunSummary& run, Edition edition, const std::string& where,
                              const std::vector<std::string>& profile_dirs) {
  Checker check(run, edition, where);
  check.Whole();
  const Result<Profile> profile = LoadProfile(profile_dirs, run.model, edition, run.accelerator);
  const double threshold = run.own ? run.own->au_threshold_percent : profile.ok() ? 100 * profile->au : 90;
  check.Utilisation(threshold);
  if (run.model.empty()) {
    check.Add(Severity::kInvalid, "workload",
              "nothing names the workload: configs/overrides.yaml with its line workload=… is missing");
  } else if (!profile.ok()) {
    check.Add(Severity::kInvalid, "workload", profile.status().message());
  } else {
    const bool what_if = profile->division != "closed";
    if (what_if && edition != Edition::kV30) {
      check.Add(Severity::kInvalid, "workload",
                run.model + " on " + run.accelerator + " is no workload of " + std::string(Name(edition)));
    }
    // What-if results follow no rules but those of honest measuring.
    if (!what_if) {
      check.Overrides();
      check.DatasetSize(*profile);
    }
  }
  check.PageCache();
  return check.Take();
}

ResultClass ClassOf(const std::vector<Finding>& findings, bool what_if) {
  const auto any = [&](Severity severity) {
    return std::any_of(findings.begin(), findings.end(),
                       [severity](const Finding& finding) { return finding.severity == severity; });
  };
  if (any(Severity::kInvalid)) return ResultClass::kInvalid;
  if (what_if) return ResultClass::kWhatIf;
  return any(Severity::kOpen) ? ResultClass::kOpen : ResultClass::kClosed;
}

std::string ClassText(ResultClass result, const std::vector<Finding>& findings) {
  std::set<std::string> rules;
  for (const Finding& finding : findings) {
    if (finding.severity == (result == ResultClass::kInvalid ? Severity::kInvalid : Severity::kOpen)) {
      rules.insert(finding.rule);
    }
  }
  const std::string broken = Join(std::vector<std::string>(rules.begin(), rules.end()));
  switch (result) {
    case ResultClass::kClosed:
      return "every rule of the CLOSED division that can be checked from the results is kept";
    case ResultClass::kOpen:
      return "valid for the OPEN division; not CLOSED because of: " + broken;
    case ResultClass::kWhatIf:
      return "measured properly, but this workload and accelerator are outside CLOSED and OPEN";
    case ResultClass::kInvalid:
      break;
  }
  return "neither CLOSED nor OPEN, because of: " + broken;
}

}  // namespace stoker::bench
