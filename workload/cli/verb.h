#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/result.h"

namespace CLI {
class App;
}

namespace stoker::bench {

/// What the process leaves with.
enum ExitStatus : int {
  kExitPass = 0,         // done; run: AU at or above the threshold
  kExitError = 1,        // something failed while working: storage, disk, results
  kExitUsage = 2,        // found wrong before any work: flags, profile, dataset, results folder
  kExitBelow = 3,        // run: AU under the threshold
  kExitInterrupted = 4,  // SIGINT or SIGTERM; run: partial results were written
};

/// One verb of stoker-bench: its flags, what can be found wrong in them, its work. Each has a file of its own
/// (verb_NAME.cc) and a line in MakeVerbs(). Called in this order, once each, from one thread.
class Verb {
 public:
  virtual ~Verb() = default;
  virtual std::string name() const = 0;
  /// One line for `stoker-bench --help`.
  virtual std::string summary() const = 0;
  /// The bytes behind the flags are this object's. Take numbers as text and read them in Check() with
  /// flags.h, so that the message can say what is allowed.
  virtual void AddFlags(CLI::App& app) = 0;
  /// True: the verb reads its command line by itself, since it is that of an older tool (letters run
  /// together); then TakeWords is called instead of AddFlags' parser, with all words behind the verb's name.
  /// Returns a text to print (help), or nothing to go on. kInvalidArgument as Check().
  virtual bool takes_words() const { return false; }
  virtual Result<std::string> TakeWords(const std::vector<std::string>&) { return std::string(); }
  /// kInvalidArgument: wrong usage; the message names flag, value and what is allowed. Reads no data yet.
  virtual Status Check() = 0;
  /// Several processes started by an MPI launcher can do it together. The others are refused there: each of
  /// many would do all of it.
  virtual bool spans_processes() const { return false; }
  /// Does the work, talks on stdout and stderr (console.h), returns the exit status. `cancel` is set by
  /// SIGINT and SIGTERM.
  virtual int Run(const CancelToken& cancel) = 0;
};

using Verbs = std::vector<std::unique_ptr<Verb>>;
/// All of them, in the order of the help text.
Verbs MakeVerbs();

}  // namespace stoker::bench
