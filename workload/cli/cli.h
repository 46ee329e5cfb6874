#pragma once

#include <memory>
#include <string>

#include "cache/base/result.h"
#include "workload/cli/verb.h"

namespace stoker::bench {

/// A command line that was understood: either a text to print (help, version), or a verb that is checked.
struct Invocation {
  std::string text;
  std::unique_ptr<Verb> verb;
};

/// kInvalidArgument: wrong usage; the message names flag, value and what is allowed.
Result<Invocation> ParseCommandLine(int argc, const char* const* argv);

}  // namespace stoker::bench
