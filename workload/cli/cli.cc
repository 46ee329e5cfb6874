#include "workload/cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cache/base/spelling.h"
#include "workload/base/rules.h"

namespace stoker::bench {
namespace {

constexpr char kExitText[] =
    "Exit status: 0 done (run: AU at or above the threshold); 1 failed while working; 2 wrong flag, profile, "
    "dataset or results folder, nothing was done; 3 the answer is no (run, compare: AU under the threshold; "
    "capacity: not even one accelerator is fed; report: a run is invalid); 4 interrupted (run: partial "
    "results "
    "were written).";

std::vector<std::string> LongFlags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Status UnknownArgument(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  if (name.empty() || name.front() != '-') {
    return Status(Code::kInvalidArgument, "unexpected argument \"" + argument + "\"");
  }
  const std::string near = NearestSpelling(name, LongFlags(app));
  return Status(Code::kInvalidArgument, app.get_name() + ": unknown flag " + name +
                                            (near.empty() ? "; see stoker-bench " + app.get_name() + " --help"
                                                          : "; did you mean " + near + "?"));
}

/// What the parser would take silently (a value for a flag without one) or refuse in its own words (a flag
/// given twice). Looks at the words of a verb as the parser does: each that begins with -- is a flag.
Status CheckWords(CLI::App& app, std::span<const char* const> words) {
  std::set<const CLI::Option*> seen;
  for (const std::string word : words) {
    if (word == "--") break;
    if (!word.starts_with("--")) continue;
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) continue;
    const bool takes_no_value = option->get_expected_max() == 0;
    if (takes_no_value && equals != std::string::npos) {
      return {Code::kInvalidArgument, name + ": takes no value, but was given \"" + word.substr(equals + 1) +
                                          "\"; write " + name + " alone, or leave it out"};
    }
    if (option->get_expected_max() == 1 && !seen.insert(option).second) {
      return {Code::kInvalidArgument, name + ": is given more than once; give it once"};
    }
  }
  return Status::Ok();
}

/// A value that is there but empty (--seed "$UNSET") would pass for a flag left out, and the default be
/// taken.
Status CheckValues(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      return {Code::kInvalidArgument,
              option->get_name() + ": the value is empty; give one, or leave the flag out"};
    }
  }
  return Status::Ok();
}

}  // namespace

Result<Invocation> ParseCommandLine(int argc, const char* const* argv) {
  CLI::App app("Workload generator: what a training job would ask of its storage, and how well it was fed.",
               "stoker-bench");
  app.footer(kExitText);
  app.set_version_flag("--version", "stoker-bench " STOKER_VERSION);
  app.require_subcommand(0, 1);
  app.allow_extras();
  Verbs verbs = MakeVerbs();
  std::vector<std::string> names;
  for (const std::unique_ptr<Verb>& verb : verbs) {
    names.push_back(verb->name());
    CLI::App* const sub = app.add_subcommand(verb->name(), verb->summary());
    verb->AddFlags(*sub);
    sub->allow_extras();
    sub->footer(kExitText);
  }

  Invocation invocation;
  for (std::unique_ptr<Verb>& verb : verbs) {
    if (argc < 2 || !verb->takes_words() || verb->name() != argv[1]) continue;
    ASSIGN_OR_RETURN(invocation.text, verb->TakeWords({argv + 2, argv + argc}));
    if (!invocation.text.empty()) return invocation;
    RETURN_IF_ERROR(verb->Check());
    invocation.verb = std::move(verb);
    return invocation;
  }
  if (argc >= 2 && std::ranges::count(names, argv[1]) != 0) {
    RETURN_IF_ERROR(CheckWords(*app.get_subcommand(argv[1]), {argv + 2, argv + argc}));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    invocation.text = app.help();
    return invocation;
  } catch (const CLI::CallForVersion&) {
    invocation.text = "stoker-bench " STOKER_VERSION "\n";
    return invocation;
  } catch (const CLI::ParseError& error) {
    return Status(Code::kInvalidArgument, error.what());
  }
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty()) {
    const std::vector<std::string> rest = app.remaining();
    if (!rest.empty()) return Status(Code::kInvalidArgument, NotOneOf("command", rest.front(), names));
    invocation.text = app.help();
    return invocation;
  }
  for (const CLI::App* where :
       {static_cast<const CLI::App*>(&app), static_cast<const CLI::App*>(chosen[0])}) {
    const std::vector<std::string> rest = where->remaining();
    if (!rest.empty()) return UnknownArgument(*chosen[0], rest.front());
  }
  RETURN_IF_ERROR(CheckValues(*chosen[0]));
  for (std::unique_ptr<Verb>& verb : verbs) {
    if (verb->name() == chosen[0]->get_name()) invocation.verb = std::move(verb);
  }
  RETURN_IF_ERROR(invocation.verb->Check());
  return invocation;
}

}  // namespace stoker::bench
