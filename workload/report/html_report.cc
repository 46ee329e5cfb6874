#include "workload/report/html_report.h"

#include <algorithm>
#include <set>

#include "cache/base/units.h"
#include "workload/base/console.h"
#include "workload/report/html.h"
#include "workload/report/html_charts.h"
#include "workload/report/html_style.h"

namespace stoker::bench {
namespace {

constexpr size_t kOpenRuns = 2;  // more are folded away: the comparison comes first

/// The threshold that the runs were held to.
double ThresholdOf(const RunSummary& run, Edition edition) {
  if (run.own) return run.own->au_threshold_percent;
  return edition != Edition::kV05 && run.model == "cosmoflow" ? 70 : run.model == "retinanet" ? 85 : 90;
}

std::string_view Tone(ResultClass result) {
  switch (result) {
    case ResultClass::kClosed:
      return "good";
    case ResultClass::kOpen:
    case ResultClass::kWhatIf:
      return "info";
    case ResultClass::kInvalid:
      break;
  }
  return "bad";
}

std::string Plural(uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// "8 b200 accelerators".
std::string Accelerators(uint64_t count, const std::string& kind) {
  return Plural(count, (kind.empty() ? "" : kind + " ") + std::string("accelerator"));
}

std::string Tile(const std::string& name, const std::string& value, const std::string& more) {
  return "<div class=\"tile\"><dt>" + name + "</dt><dd>" + value +
         (more.empty() ? "" : "<small>" + more + "</small>") + "</dd></div>";
}

/// "44 703.8 MiB/s" and below it the same in decimal units.
std::string Gigabytes(double mib_per_s) {
  const double mb = mib_per_s * static_cast<double>(kMiB) / 1e6;
  return mb >= 1000 ? Num(mb / 1000, 2) + " GB/s" : Num(mb) + " MB/s";
}

std::string Sentence(const Submission& group) {
  const CombinedRun& first = group.runs.front();
  const double threshold = ThresholdOf(first.hosts.front(), group.edition);
  const double au = group.counted > 0 ? group.au_mean : first.au_percent;
  const bool enough = au >= threshold;
  return "The storage kept " + Accelerators(first.accelerators, group.accelerator) + " busy " + Num(au, 2) +
         " % of the time; " + (group.model.empty() ? "the workload" : group.model) + " asks for " +
         Text("%g", threshold) + " %. " +
         (enough ? "That is enough." : "That is not enough: the accelerators waited for data.");
}

/// What keeps a result out of a division in the open; mere notes to unfold.
std::string FindingsList(const std::vector<Finding>& findings) {
  std::string grave;
  std::string notes;
  uint64_t count = 0;
  for (const Finding& finding : findings) {
    const bool note = finding.severity == Severity::kNote;
    const char* const tone = finding.severity == Severity::kInvalid ? "bad" : note ? "info" : "warn";
    const char* const word = finding.severity == Severity::kInvalid ? "Not allowed"
                             : note                                 ? "Note"
                                                                    : "OPEN only";
    count += note ? 1 : 0;
    (note ? notes : grave) +=
        std::string("<li class=\"") + tone + "\"><b>" + word + ": " + EscapeHtml(finding.rule) + "</b>" +
        (finding.where.empty() ? "" : " <span class=\"soft\">" + EscapeHtml(finding.where) + "</span>") +
        "<br>" + EscapeHtml(finding.text) + "</li>";
  }
  if (!grave.empty()) grave = "<ul class=\"findings\">" + grave + "</ul>";
  if (!notes.empty()) {
    notes = "<details><summary>" + Plural(count, "note") + "</summary><ul class=\"findings\">" + notes +
            "</ul></details>";
  }
  return grave + notes;
}

std::string VerdictCard(const Submission& group) {
  const bool several = group.counted > 1;
  const auto spread = [several](double value, int decimals) {
    return several ? "± " + Num(value, decimals) + " between runs" : std::string();
  };
  const CombinedRun& first = group.runs.front();
  const double threshold = ThresholdOf(first.hosts.front(), group.edition);
  std::string out = "<section class=\"card verdict " + std::string(Tone(group.result)) + "\"><h3>" +
                    EscapeHtml(group.model) + " " + std::string(Name(group.edition)) +
                    (group.accelerator.empty() ? "" : ", " + EscapeHtml(group.accelerator)) +
                    " <span class=\"badge\">" + std::string(Name(group.result)) + "</span></h3>" +
                    "<p class=\"soft\"><code>" + EscapeHtml(group.folder) + "</code></p><p class=\"lead\">" +
                    EscapeHtml(Sentence(group)) + "</p><p><strong>" + std::string(Name(group.result)) +
                    "</strong>: " + EscapeHtml(ClassText(group.result, group.findings)) + ".</p>";
  const double au = several ? group.au_mean : first.au_percent;
  const double mib = several ? group.mib_mean : first.mib_per_s;
  out += "<dl class=\"tiles\">";
  out += Tile(
      "AU, mean", Num(au, 2) + "\u00a0%",
      (several ? spread(group.au_stdev, 2) + "; " : "") + "threshold " + Text("%g", threshold) + "\u00a0%");
  out += Tile("Throughput, nominal", Num(mib) + " MiB/s", "= " + Gigabytes(mib));
  out += Tile("Samples", Num(several ? group.samples_mean : first.samples_per_s, 2) + " /s",
              spread(group.samples_stdev, 2));
  out += Tile("Accelerators", std::to_string(first.accelerators), EscapeHtml(group.accelerator));
  const uint64_t hosts = first.hosts.size() > 1 ? first.hosts.size() : first.hosts.front().hosts;
  out += Tile("Runs", std::to_string(group.runs.size()),
              Plural(hosts, "client host") + (group.runs.size() > group.counted ? ", first is warm-up" : ""));
  out += "</dl>" + FindingsList(group.findings) + "</section>\n";
  return out;
}

std::string Meter(double share) {
  return "<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:" +
         Text("%.1f", 100 * std::clamp(share, 0.0, 1.0)) + "%\"></i></span>";
}

/// Without the columns in which no run has a figure.
std::vector<std::vector<std::string>> WithoutEmpty(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> out(rows.size());
  for (size_t c = 0; c < rows.front().size(); ++c) {
    const bool any =
        std::any_of(rows.begin() + 1, rows.end(), [c](const auto& row) { return row[c] != "–"; });
    for (size_t r = 0; any && r < rows.size(); ++r) out[r].push_back(rows[r][c]);
  }
  return out;
}

/// One line a run: what people put side by side.
std::string ComparisonTable(const std::vector<NamedRun>& runs, const std::vector<const Submission*>& groups) {
  double most = 0;
  for (const NamedRun& named : runs) most = std::max(most, named.run->mib_mean);
  std::vector<std::vector<std::string>> rows = {
      {"run", "accelerators", "AU, mean ± sd", "nominal MiB/s", "samples/s", "true MiB/s", "share of demand",
       "read call p50", "read call p99", "file p99", "from the UFS", "class"}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunSummary& run = *runs[i].run;
    std::vector<std::string> row = {
        EscapeHtml(runs[i].name), std::to_string(run.accelerators) + " " + EscapeHtml(run.accelerator),
        Num(run.au_mean, 2) + " ± " + Num(run.au_stdev, 2) + " %" + Meter(run.au_mean / 100),
        Num(run.mib_mean) + Meter(most > 0 ? run.mib_mean / most : 0), Num(run.samples_mean, 2)};
    if (run.own) {
      const OwnSummary& own = *run.own;
      std::string ufs = "–";
      if (run.series && run.series->daemon.size() > 1) {
        ufs = FormatBytes(run.series->daemon.back().total.bytes_ufs);
      }
      row.insert(row.end(), {Num(own.true_mib_per_s),
                             own.demand_mib_per_s > 0 ? Share(run.mib_mean / own.demand_mib_per_s) : "–",
                             Micros(own.call_us.p50), Micros(own.call_us.p99), Micros(own.file_us.p99), ufs});
    } else {
      row.insert(row.end(), {"–", "–", "–", "–", "–", "–"});
    }
    row.push_back(std::string(Name(groups[i]->result)));
    rows.push_back(std::move(row));
  }
  return "<div class=\"card\">" + HtmlTable(WithoutEmpty(rows), "Runs side by side") + "</div>\n";
}

std::string PairsTable(const std::vector<std::pair<std::string, std::string>>& pairs,
                       const std::string& caption) {
  std::vector<std::vector<std::string>> rows = {{"key", "value"}};
  for (const auto& [key, value] : pairs) rows.push_back({EscapeHtml(key), EscapeHtml(value)});
  std::string table = HtmlTable(rows, caption);
  return table.replace(table.find("<table>"), 7, "<table class=\"wide\">");
}

std::string PageCacheText(const OwnSummary& own) {
  const auto share = [](const std::optional<double>& value) {
    return value ? Share(*value) : std::string("unknown");
  };
  return share(own.page_cache_before) + " before, " + share(own.page_cache_after) + " after (by a sample)";
}

std::string Configuration(const RunSummary& run) {
  std::vector<std::pair<std::string, std::string>> about = {
      {"results", run.folder},
      {"start", run.start},
      {"end", run.end},
      {"host", run.hostname},
      {"files x samples per file", std::to_string(run.files) + " x " + std::to_string(run.samples_per_file)},
      {"epochs", std::to_string(run.epochs)},
      {"overrides", run.overrides.empty() ? "none" : Join(run.overrides)}};
  std::string out;
  if (run.own) {
    const OwnSummary& own = *run.own;
    about.insert(about.begin(), {"data", own.data_dir});
    about.push_back(
        {"file system", own.fstype + " at " + own.mount + (own.stoker_mount ? " (Stoker mount)" : "")});
    about.push_back({"steps an epoch", std::to_string(own.steps_per_epoch)});
    about.push_back({"page cache", PageCacheText(own)});
    about.push_back({"memory of the host", FormatBytes(own.memory_bytes)});
    about.push_back({"generator's CPU", Text("%.3f", own.cpu_s_per_gb) + " s per GB, " +
                                            Text("%.1f", 100 * own.client_cpu_share) + " % of the client"});
    about.push_back({"true bytes read",
                     FormatBytes(own.true_bytes) + " in " + std::to_string(own.files_read) + " files"});
    about.push_back({"stoker-bench", own.version});
    out += PairsTable(own.rules, "Rules in force");
    out += PairsTable(own.parameters, "Parameters in force");
    if (!own.daemon.empty()) out += PairsTable(own.daemon, "Counters of the daemon over the run");
  }
  return "<div class=\"card\"><details><summary>Configuration</summary>" + PairsTable(about, "The run") +
         out + "</details></div>\n";
}

/// Why there is no picture of caches.
std::string CacheWords(const RunSummary& run) {
  if (!run.own) return "";
  if (run.series && !run.series->daemon_note.empty()) {
    return "<p class=\"soft\">Counters of the cache daemon: " + EscapeHtml(run.series->daemon_note) + ".</p>";
  }
  if (run.own->stoker_mount || run.own->null_storage) return "";
  return "<p class=\"soft\">The data lies on " +
         EscapeHtml(run.own->fstype.empty() ? "a file system" : run.own->fstype) +
         ", not in a Stoker mount: there are no cache counters to draw.</p>";
}

std::string RunSection(const NamedRun& named, const Submission& group, bool open) {
  const RunSummary& run = *named.run;
  const double threshold = ThresholdOf(run, group.edition);
  std::string out = std::string("<details class=\"run\"") + (open ? " open" : "") + "><summary>" +
                    EscapeHtml(named.name) + " <span class=\"soft\">AU " + Num(run.au_mean, 2) + " %, " +
                    Num(run.mib_mean) + " MiB/s, " + EscapeHtml(run.hostname) + "</span></summary>\n";
  out += "<div class=\"charts\">" + AuFigure(run, threshold) + ThroughputFigure(run) + LatencyFigure(run) +
         CacheFigures(run) + "</div>" + CacheWords(run);
  if (!run.own) {
    out +=
        "<p class=\"soft\">This summary was not written by stoker-bench: there are no time series, latencies "
        "or "
        "accelerators to show.</p>";
  }
  out += "<div class=\"below\">" + AcceleratorTable(run, threshold) + LatencyTable(run) + Configuration(run) +
         "</div>";
  return out + "</details>\n";
}

std::string DefaultTitle(const std::vector<Submission>& submissions) {
  std::set<std::string> models;
  uint64_t runs = 0;
  for (const Submission& group : submissions) {
    models.insert(group.model + (group.accelerator.empty() ? "" : " on " + group.accelerator));
    runs += group.runs.size();
  }
  return Join(std::vector<std::string>(models.begin(), models.end())) + ", " + Plural(runs, "run");
}

/// Names without the beginning that all of them have.
std::vector<NamedRun> NamedRuns(const std::vector<Submission>& submissions,
                                std::vector<const Submission*>& groups) {
  std::vector<NamedRun> out;
  for (const Submission& group : submissions) {
    for (const CombinedRun& run : group.runs) {
      for (const RunSummary& host : run.hosts) {
        std::string name = run.name;
        if (run.hosts.size() > 1) name += "/" + host.hostname;
        if (submissions.size() > 1 && !host.below.empty()) name = group.folder + "/" + name;
        if (run.warm_up) name += " (warm-up)";
        out.push_back({name, &host});
        groups.push_back(&group);
      }
    }
  }
  if (out.size() == 1) {
    std::string& name = out.front().name;
    name.erase(0, name.rfind('/') + 1);  // npos + 1 is 0
    return out;
  }
  if (out.empty()) return out;
  size_t common = out.front().name.size();
  for (const NamedRun& named : out) {
    size_t same = 0;
    while (same < std::min(common, named.name.size()) && named.name[same] == out.front().name[same]) ++same;
    common = same;
  }
  const size_t slash = out.front().name.substr(0, common).rfind('/');
  if (slash == std::string::npos) return out;
  for (NamedRun& named : out) named.name.erase(0, slash + 1);
  return out;
}

}  // namespace

std::string HtmlReport(const std::vector<Submission>& submissions, const std::string& title) {
  std::vector<const Submission*> groups;
  const std::vector<NamedRun> runs = NamedRuns(submissions, groups);
  const std::string heading = EscapeHtml(title.empty() ? DefaultTitle(submissions) : title);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>" +
      heading + "</title>\n<style>" + std::string(HtmlStyle()) + "</style></head>\n<body><header><h1>" +
      heading +
      "</h1><p class=\"soft\">Training-storage benchmark: how well storage feeds simulated accelerators. AU "
      "is the "
      "share of time they were busy; nominal throughput counts each sample at its nominal size. "
      "1 MiB = 1 048 576 bytes, 1 MB = 1 000 000 bytes.</p></header>\n<main>\n<h2>Verdict</h2>\n";
  for (const Submission& group : submissions) out += VerdictCard(group);
  if (runs.size() > 1) {
    out += "<h2>Side by side</h2>\n" + ComparisonTable(runs, groups) + "<div class=\"charts\">" +
           CompareAuFigure(runs, ThresholdOf(*runs.front().run, groups.front()->edition)) +
           CompareThroughputFigure(runs) + "</div>\n";
  }
  out += runs.size() > 1 ? "<h2>Run by run</h2>\n" : "<h2>The run</h2>\n";
  for (size_t i = 0; i < runs.size(); ++i) out += RunSection(runs[i], *groups[i], runs.size() <= kOpenRuns);
  return out +
         "</main>\n<footer>Made by stoker-bench report. This page is one file: it fetches nothing and runs "
         "no "
         "script.</footer></body></html>\n";
}

}  // namespace stoker::bench
