#include "workload/cli/io_flags.h"

#include <strings.h>
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <sstream>

#include "cache/base/spelling.h"
#include "workload/cli/flags.h"
#include "workload/cli/short_options.h"
#include "workload/io/crew.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kMany = std::numeric_limits<uint32_t>::max();

const std::vector<ShortOption>& Options() {
  static const std::vector<ShortOption> options{
      {'a', nullptr, "API", "POSIX (the only one here)"},
      {'b', nullptr, "SIZE", "contiguous bytes of a task in a segment (default 1m)"},
      {'t', nullptr, "SIZE", "bytes of one read or write call (default 256k)"},
      {'s', nullptr, "N", "segments; a task moves s x b bytes (default 1)"},
      {'N', "tasks", "N", "tasks, over all processes (default: one in each process that mpirun started)"},
      {'i', nullptr, "N", "repetitions (default 1)"},
      {'F', nullptr, nullptr, "a file for each task (NAME.00000003) instead of a shared one"},
      {'w', nullptr, nullptr, "write phase"},
      {'r', nullptr, nullptr, "read phase (with no phase named: write and read)"},
      {'W', nullptr, nullptr, "read back and compare after the write, not timed"},
      {'R', nullptr, nullptr, "compare in the read phase"},
      {'o', nullptr, "FILE", "file name, or its beginning with -F (default testFile)"},
      {'O', nullptr, "KEY=VALUE,…", "directives, e.g. lustreStripeCount=4,stoneWallingWearOut=1"},
      {'e', nullptr, nullptr, "fsync after the write phase, timed"},
      {'Y', nullptr, nullptr, "fsync after every write"},
      {'C', nullptr, nullptr, "read what task + Q wrote"},
      {'Q', nullptr, "N", "offset of -C (default 1)"},
      {'Z', nullptr, nullptr, "read what a random task wrote"},
      {'X', nullptr, "N", "seed of -Z; negative: another draw in each repetition (default 0)"},
      {'z', nullptr, nullptr, "random offsets instead of ascending ones"},
      {'D', nullptr, "SECONDS", "end a phase after this time (stonewall)"},
      {'g', nullptr, nullptr, "barriers between open, transfers and close"},
      {'k', nullptr, nullptr, "keep the files"},
      {'K', nullptr, nullptr, "keep the files of a repetition with wrong data"},
      {'E', nullptr, nullptr, "write into existing files instead of replacing them"},
      {'d', nullptr, "SECONDS", "delay before each phase"},
      {'T', nullptr, "MINUTES", "begin no repetition later than this"},
      {'G', nullptr, "N", "signature of the data, needed by -R without -w"},
      {'A', nullptr, "N", "reference number for the summary"},
      {'B', "odirect", nullptr, "direct transfers (O_DIRECT)"},
      {0, "posix.odirect", nullptr, "the same, as current IOR spells it"},
      {0, "cold-read", nullptr, "give back the files' page cache before reading (not in IOR)"},
      {0, "no-huge-pages", nullptr, "buffers of 4 KiB pages, as IOR has them"},
      {0, "old-table", nullptr, "also the summary in the columns of IOR before 3.0"},
      {0, "mpi", "KIND", "auto, off, mpich or openmpi (default auto: as the launcher wants it)"},
      {0, "json", "FILE", "write all results to FILE, which must not exist"},
      {'v', nullptr, nullptr, "say more; may be repeated"},
      {'h', "help", nullptr, "this text"},
  };
  return options;
}

/// IOR's options that have no meaning here, and why.
const std::map<char, const char*> kElsewhere{
    {'c', "collective calls need MPI-IO"},
    {'f', "test scripts: give the options on the command line"},
    {'H', "hints need MPI-IO"},
    {'I', "datasets need HDF5"},
    {'J', "alignment needs HDF5"},
    {'j', "see the task times in --json"},
    {'l', "the data never compresses"},
    {'M', "use --odirect or --cold-read against the page cache"},
    {'m', "one name serves all repetitions"},
    {'n', "fill values need HDF5"},
    {'p', "preallocation needs MPI-IO"},
    {'P', "shared file pointers need MPI-IO"},
    {'q', "the first wrong word is reported"},
    {'S', "strided datatypes need MPI-IO"},
    {'u', "make the folders and use -o"},
    {'U', "hints need MPI-IO"},
    {'V', "file views need MPI-IO"},
    {'x', "short transfers are always completed"},
};

Status Bad(std::string message) {
  return Status(Code::kInvalidArgument, std::move(message));
}

using Setter = std::function<Status(const std::string& flag, const std::string& value)>;

Setter Count(uint64_t& to, uint64_t min, uint64_t max) {
  return [&to, min, max](const std::string& flag, const std::string& value) -> Status {
    ASSIGN_OR_RETURN(to, ParseCount(flag, value, min, max));
    return Status::Ok();
  };
}
Setter Number(int64_t& to, int64_t min, int64_t max) {
  return [&to, min, max](const std::string& flag, const std::string& value) -> Status {
    ASSIGN_OR_RETURN(to, ParseSigned(flag, value, min, max));
    return Status::Ok();
  };
}
Setter Size(uint64_t& to) {
  return [&to](const std::string& flag, const std::string& value) -> Status {
    ASSIGN_OR_RETURN(to, ParseIorSize(flag, value));
    return Status::Ok();
  };
}
/// Of a letter there is no value; a directive says 0 or 1.
Setter Switch(bool& to) {
  return [&to](const std::string& flag, const std::string& value) -> Status {
    if (value != "" && value != "0" && value != "1") return Bad(flag + ": \"" + value + "\" is not 0 or 1");
    to = value != "0";
    return Status::Ok();
  };
}
Setter Text(std::string& to) {
  return [&to](const std::string&, const std::string& value) {
    to = value;
    return Status::Ok();
  };
}

/// Everything that can be set, by letter or long name and by the name of IOR's directive.
class Table {
 public:
  explicit Table(IoCommand& command) {
    IoOptions& o = command.options;
    constexpr int64_t kInt = std::numeric_limits<int32_t>::max();
    Add("a", "api", [](const std::string& flag, const std::string& value) {
      if (strcasecmp(value.c_str(), "POSIX") == 0) return Status::Ok();
      return Bad(flag + ": \"" + value + "\" is not POSIX, the only interface here");
    });
    Add("b", "blockSize", Size(o.block_bytes));
    Add("t", "transferSize", Size(o.transfer_bytes));
    Add("s", "segmentCount", Count(o.segments, 1, kMany));
    Add("N", "numTasks", Count(command.tasks, 1, kMaxTasks));
    Add("i", "repetitions", Count(o.repetitions, 1, 1000000));
    Add("F", "filePerProc", Switch(o.file_per_process));
    Add("w", "writeFile", Switch(o.write));
    Add("r", "readFile", Switch(o.read));
    Add("W", "checkWrite", Switch(o.check_write));
    Add("R", "checkRead", Switch(o.check_read));
    Add("o", "testFile", Text(o.file));
    Add("e", "fsync", Switch(o.fsync));
    Add("Y", "fsyncPerWrite", Switch(o.fsync_per_write));
    Add("C", "reorderTasksConstant", Switch(o.shift_tasks));
    Add("Q", "taskPerNodeOffset", Count(o.task_offset, 0, kMaxTasks));
    Add("Z", "reorderTasksRandom", Switch(o.random_tasks));
    Add("X", "reorderTasksRandomSeed", Number(o.random_tasks_seed, -kInt, kInt));
    Add("z", "randomOffset", Switch(o.random_offsets));
    Add("D", "deadlineForStonewalling", Count(o.stonewall_s, 0, 86400));
    Add("", "stoneWallingWearOut", Switch(o.wear_out));
    Add("g", "intraTestBarriers", Switch(o.barriers));
    Add("k", "keepFile", Switch(o.keep_files));
    Add("K", "keepFileWithError", Switch(o.keep_files_with_error));
    Add("E", "useExistingTestFile", Switch(o.use_existing));
    Add("d", "interTestDelay", Count(o.delay_s, 0, 86400));
    Add("T", "maxTimeDuration", Count(o.max_minutes, 0, 100000));
    Add("G", "setTimeStampSignature", Count(o.signature, 1, kMany));
    Add("A", "refNum", Count(o.reference_number, 0, kMany));
    Add("B", "useO_DIRECT", Switch(o.direct));
    Add("posix.odirect", "", Switch(o.direct));
    Add("cold-read", "", Switch(o.cold_read));
    Add("no-huge-pages", "", [&o](const std::string&, const std::string&) {
      o.huge_pages = false;
      return Status::Ok();
    });
    Add("old-table", "", Switch(command.old_table));
    Add("json", "", Text(o.json));
    Add("mpi", "", [&command](const std::string& flag, const std::string& value) -> Status {
      ASSIGN_OR_RETURN(command.mpi, ParseMpiChoice(flag, value));
      return Status::Ok();
    });
    Add("h", "", Switch(command.help));
    Add("v", "", [&o](const std::string&, const std::string&) {
      ++o.verbose;
      return Status::Ok();
    });
    Add("", "verbose", Count(o.verbose, 0, 5));
    Add("", "lustreStripeCount", Striped(o, Number(o.striping.count, -1, 100000)));
    Add("", "lustreStripeSize", Striped(o, Size(o.striping.size_bytes)));
    Add("", "lustreStartOST", Striped(o, Number(o.striping.start, -1, 100000)));
    Add("O", "", [this](const std::string&, const std::string& value) { return SetDirectives(value); });
  }

  Status Set(const GivenOption& given) { return options_.at(given.name)(given.flag(), given.value); }

 private:
  void Add(const std::string& option, const std::string& directive, Setter set) {
    if (!option.empty()) options_[option] = set;
    if (!directive.empty()) directives_[directive] = set;
  }

  static Setter Striped(IoOptions& options, Setter set) {
    return [&options, set](const std::string& flag, const std::string& value) {
      options.striping.asked = true;
      return set(flag, value);
    };
  }

  Status SetDirectives(const std::string& list) {
    std::istringstream words(list);
    bool any = false;
    for (std::string word; std::getline(words, word, ',');) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
        return Bad("-O: \"" + word + "\" is not KEY=VALUE");
      }
      const std::string key = word.substr(0, equals);
      const Setter* setter = nullptr;
      std::vector<std::string> names;
      for (const auto& [name, set] : directives_) {
        names.push_back(name);
        if (strcasecmp(name.c_str(), key.c_str()) == 0) setter = &set;
      }
      if (setter == nullptr) {
        const std::string near = NearestSpelling(key, names);
        return Bad("-O: unknown directive " + key + (near.empty() ? "" : "; did you mean " + near + "?"));
      }
      RETURN_IF_ERROR((*setter)("-O " + key, word.substr(equals + 1)));
      any = true;
    }
    return any ? Status::Ok() : Bad("-O: a directive KEY=VALUE is missing");
  }

  std::map<std::string, Setter> options_;
  std::map<std::string, Setter> directives_;
};

/// IOR has letters that we do not: say why, rather than that they do not exist.
Status ExplainOthers(const Status& status) {
  const std::string start = "io: unknown option -";
  if (status.message().starts_with(start) && status.message().size() > start.size()) {
    const auto found = kElsewhere.find(status.message()[start.size()]);
    if (found != kElsewhere.end()) {
      return Bad(std::string("io: IOR's -") + found->first + " is not here: " + found->second);
    }
  }
  return status;
}

}  // namespace

Result<IoCommand> ParseIoArguments(const std::vector<std::string>& arguments) {
  IoCommand command;
  const Result<std::vector<GivenOption>> given = ParseShortOptions("io", arguments, Options());
  if (!given.ok()) return ExplainOthers(given.status());
  Table table(command);
  for (const GivenOption& one : *given) {
    if (const Status set = table.Set(one); !set.ok()) return Bad("io: " + set.message());
  }
  command.options.tasks = command.options.tasks_per_host = std::max<uint64_t>(1, command.tasks);
  if (!command.help) RETURN_IF_ERROR(CompleteIoOptions(command.options));
  return command;
}

std::string IoHelp() {
  return "Bandwidth test in the manner of IOR\n"
         "Usage: stoker-bench io [options of IOR]\n\n"
         "  stoker-bench io -F -w -r -t 1m -b 20g -i 2 -N 8 -o DIR/IORFile\n\n" +
         DescribeShortOptions(Options()) +
         "\nSizes: bytes, or k, m, g, t (binary); also 4MiB, 1GB. Values joined or apart: -t1m, -t 1m.\n";
}

}  // namespace stoker::bench
