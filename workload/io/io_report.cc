#include "workload/io/io_report.h"

#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cache/base/units.h"
#include "workload/base/host.h"

namespace stoker::bench {
namespace {

constexpr double kMiBPerByte = 1.0 / (1 << 20);

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

using Unsigned = unsigned long long;

std::string SpreadColumns(const IoSummary& row) {
  return Format("%-9s %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.5f ",
                AccessName(row.access), row.bandwidth.max * kMiBPerByte, row.bandwidth.min * kMiBPerByte,
                row.bandwidth.mean * kMiBPerByte, row.bandwidth.deviation * kMiBPerByte, row.rate.max,
                row.rate.min, row.rate.mean, row.rate.deviation, row.mean_s);
}

/// #Tasks … xsize.
std::string OptionColumns(const IoOptions& options) {
  return Format("%6llu %3llu %4llu %3d %5d %8llu %9d %4lld %6llu %8llu %8llu ", Unsigned{options.tasks},
                Unsigned{options.tasks_per_host}, Unsigned{options.repetitions}, options.file_per_process,
                options.shift_tasks, Unsigned{options.task_offset}, options.random_tasks,
                static_cast<long long>(options.random_tasks_seed), Unsigned{options.segments},
                Unsigned{options.block_bytes}, Unsigned{options.transfer_bytes});
}

std::string Sized(uint64_t bytes) {
  return FormatBytes(bytes);
}

std::string Ordering(const IoOptions& options) {
  if (options.shift_tasks) return "constant task offset " + std::to_string(options.task_offset);
  if (options.random_tasks) return "random task offset, seed " + std::to_string(options.random_tasks_seed);
  return "no tasks offsets";
}

}  // namespace

std::vector<IoSummary> SummarizeIo(const IoOptions& options, const std::vector<PhaseResult>& phases) {
  std::vector<IoSummary> summaries;
  for (const Access access : {Access::kWrite, Access::kRead}) {
    IoSummary row;
    row.access = access;
    std::vector<double> bandwidths;
    std::vector<double> seconds;
    std::vector<double> rates;
    for (const PhaseResult& phase : phases) {
      if (phase.access != access) continue;
      if (bandwidths.empty()) row.bytes = phase.bytes;
      bandwidths.push_back(phase.bandwidth());
      rates.push_back(phase.bandwidth() / static_cast<double>(options.transfer_bytes));
      seconds.push_back(phase.total_s);
      row.stonewall_s += phase.stonewall_s;
      row.stonewall_bytes += static_cast<double>(phase.stonewall_bytes);
    }
    if (bandwidths.empty()) continue;
    row.bandwidth = SpreadOf(bandwidths);
    row.rate = SpreadOf(rates);
    row.mean_s = SpreadOf(seconds).mean;
    row.stonewall_s /= static_cast<double>(bandwidths.size());
    row.stonewall_bytes /= static_cast<double>(bandwidths.size());
    summaries.push_back(row);
  }
  return summaries;
}

std::string TenColumns(double value) {
  return Format("%-10.*f", value < 1 ? 6 : value < 3600 ? 2 : 0, value);
}

std::string IoOptionsText(const IoOptions& options) {
  const auto line = [](const char* name, const std::string& value) {
    return Format("%-20s: ", name) + value + "\n";
  };
  std::string text = "Options:\n";
  text += line("api", options.direct ? "POSIX (O_DIRECT)" : "POSIX");
  text += line("test filename", options.file);
  text += line("access", options.file_per_process ? "file-per-process" : "single-shared-file");
  text += line("segments", std::to_string(options.segments));
  text += line("ordering in a file", options.random_offsets ? "random" : "sequential");
  text += line("ordering inter file", Ordering(options));
  text += line("nodes", std::to_string(options.hosts));
  text += line("tasks", std::to_string(options.tasks));
  text += line("clients per node", std::to_string(options.tasks_per_host));
  text += line("repetitions", std::to_string(options.repetitions));
  text += line("xfersize", Sized(options.transfer_bytes));
  text += line("blocksize", Sized(options.block_bytes));
  text += line("aggregate filesize", Sized(options.layout().total_bytes()));
  if (options.stonewall_s > 0) {
    text += line("stonewallingTime", std::to_string(options.stonewall_s));
    text += line("stoneWallingWearOut", options.wear_out ? "1" : "0");
  }
  text.pop_back();
  return text;
}

std::string IoTableHead() {
  return "access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   "
         "total(s)   iter\n"
         "------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   "
         "--------   ----";
}

std::string IoTableRow(const IoOptions& options, const PhaseResult& phase) {
  return Format("%-10s", AccessName(phase.access)) + TenColumns(phase.bandwidth() * kMiBPerByte) + " " +
         TenColumns(phase.transfers_per_s()) + " " + TenColumns(phase.latency_s) + "  " +
         TenColumns(static_cast<double>(options.block_bytes) / 1024) + " " +
         TenColumns(static_cast<double>(options.transfer_bytes) / 1024) + " " + TenColumns(phase.open_s) +
         " " + TenColumns(phase.transfer_s) + " " + TenColumns(phase.close_s) + " " +
         TenColumns(phase.total_s) + " " + Format("%-4llu", Unsigned{phase.repetition});
}

std::string IoRemoveRow(double seconds, uint64_t repetition) {
  return Format("%-10s%-10s %-10s %-10s  %-10s %-10s %-10s %-10s %-10s ", "remove", "-", "-", "-", "-", "-",
                "-", "-", "-") +
         TenColumns(seconds) + " " + Format("%-4llu", Unsigned{repetition});
}

std::string IoMaxText(const std::vector<IoSummary>& summaries) {
  std::string text;
  for (const IoSummary& row : summaries) {
    text += Format("%-10s %.2f MiB/sec (%.2f MB/sec)\n",
                   row.access == Access::kWrite ? "Max Write:" : "Max Read:", row.bandwidth.max * kMiBPerByte,
                   row.bandwidth.max * 1e-6);
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string IoSummaryText(const IoOptions& options, const std::vector<IoSummary>& summaries) {
  std::string text =
      "Summary of all tests:\n"
      "Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    "
      "Mean(s) "
      "Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt   blksiz   "
      " xsize "
      "aggs(MiB)   API RefNum";
  for (const IoSummary& row : summaries) {
    text += "\n" + SpreadColumns(row);
    text += row.stonewall_s > 0 ? Format("%10.2f %13.2f ", row.stonewall_s, row.stonewall_bytes * kMiBPerByte)
                                : Format("%10s %13s ", "NA", "NA");
    text += Format("%5d ", 0) + OptionColumns(options) +
            Format("%9.1f %5s %6llu", static_cast<double>(row.bytes) * kMiBPerByte, "POSIX",
                   Unsigned{options.reference_number});
  }
  return text;
}

std::string IoOldSummaryText(const IoOptions& options, const std::vector<IoSummary>& summaries) {
  std::string text =
      "Operation  Max (MiB)  Min (MiB)  Mean (MiB)   Std Dev  Max (OPs)  Min (OPs)  Mean (OPs)   Std Dev   "
      "Mean (s)  "
      "#Tasks tPN reps fPP reord reordoff reordrand seed segcnt   blksiz    xsize      aggsize Test# API";
  for (const IoSummary& row : summaries) {
    text += "\n" + SpreadColumns(row) + " " + OptionColumns(options) +
            Format("%12llu %5d POSIX", Unsigned{row.bytes}, 0);
  }
  return text;
}

std::string IoJson(const IoOptions& options, const IoOutcome& outcome, const IoNotes& notes,
                   const std::string& status, const std::string& command_line) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["tool"] = "stoker-bench io";
  json["version"] = STOKER_VERSION;
  json["Command line"] = command_line;
  json["Machine"] = ReadHostInfo().hostname;
  json["status"] = status;
  json["notes"] = notes;
  if (!outcome.failure.ok()) json["failure"] = outcome.failure.message();
  json["Options"] = {{"api", "POSIX"},
                     {"testFileName", options.file},
                     {"numTasks", options.tasks},
                     {"tasksPerNode", options.tasks_per_host},
                     {"numNodes", options.hosts},
                     {"repetitions", options.repetitions},
                     {"filePerProc", options.file_per_process},
                     {"writeFile", options.write},
                     {"readFile", options.read},
                     {"checkWrite", options.check_write},
                     {"checkRead", options.check_read},
                     {"fsync", options.fsync},
                     {"fsyncperwrite", options.fsync_per_write},
                     {"useO_DIRECT", options.direct},
                     {"coldRead", options.cold_read},
                     {"hugePages", options.huge_pages},
                     {"reorderTasks", options.shift_tasks},
                     {"taskPerNodeOffset", options.task_offset},
                     {"reorderTasksRandom", options.random_tasks},
                     {"reorderTasksRandomSeed", options.random_tasks_seed},
                     {"randomOffset", options.random_offsets},
                     {"intraTestBarriers", options.barriers},
                     {"keepFile", options.keep_files},
                     {"useExistingTestFile", options.use_existing},
                     {"deadlineForStonewall", options.stonewall_s},
                     {"stoneWallingWearOut", options.wear_out},
                     {"segmentCount", options.segments},
                     {"blockSize", options.block_bytes},
                     {"transferSize", options.transfer_bytes},
                     {"refnum", options.reference_number}};
  json["Results"] = Json::array();
  for (const PhaseResult& phase : outcome.phases) {
    json["Results"].push_back({{"access", AccessName(phase.access)},
                               {"iter", phase.repetition},
                               {"bwMiB", phase.bandwidth() * kMiBPerByte},
                               {"iops", phase.transfers_per_s()},
                               {"latency", phase.latency_s},
                               {"openTime", phase.open_s},
                               {"wrRdTime", phase.transfer_s},
                               {"closeTime", phase.close_s},
                               {"totalTime", phase.total_s},
                               {"bytes", phase.bytes},
                               {"expectedBytes", phase.expected_bytes},
                               {"wrongWords", phase.wrong_words},
                               {"cpuSeconds", phase.cpu_s},
                               {"taskSeconds", phase.task_s}});
  }
  json["removeSeconds"] = outcome.remove_s;
  json["max"] = Json::object();
  json["summary"] = Json::array();
  for (const IoSummary& row : SummarizeIo(options, outcome.phases)) {
    const std::string name = AccessName(row.access);
    json["max"][name + "MiB"] = row.bandwidth.max * kMiBPerByte;
    json["max"][name + "MB"] = row.bandwidth.max * 1e-6;
    json["summary"].push_back({{"operation", name},
                               {"API", "POSIX"},
                               {"numTasks", options.tasks},
                               {"blockSize", options.block_bytes},
                               {"transferSize", options.transfer_bytes},
                               {"segmentCount", options.segments},
                               {"bwMaxMIB", row.bandwidth.max * kMiBPerByte},
                               {"bwMinMIB", row.bandwidth.min * kMiBPerByte},
                               {"bwMeanMIB", row.bandwidth.mean * kMiBPerByte},
                               {"bwStdMIB", row.bandwidth.deviation * kMiBPerByte},
                               {"OPsMax", row.rate.max},
                               {"OPsMin", row.rate.min},
                               {"OPsMean", row.rate.mean},
                               {"OPsSD", row.rate.deviation},
                               {"MeanTime", row.mean_s},
                               {"aggregateMiB", static_cast<double>(row.bytes) * kMiBPerByte}});
    if (row.stonewall_s > 0) {
      json["summary"].back()["StoneWallTime"] = row.stonewall_s;
      json["summary"].back()["StoneWallMiB"] = row.stonewall_bytes * kMiBPerByte;
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stoker::bench
