#include "workload/cli/short_options.h"

#include <getopt.h>
#include <charconv>
#include <cstdio>

#include "cache/base/spelling.h"
#include "cache/base/units.h"

namespace stoker::bench {
namespace {

Status Bad(std::string message) {
  return Status(Code::kInvalidArgument, std::move(message));
}

constexpr int kFirstLong = 256;  // getopt's return values from here on: long names without a letter

}  // namespace

Result<std::vector<GivenOption>> ParseShortOptions(const std::string& verb,
                                                   const std::vector<std::string>& arguments,
                                                   const std::vector<ShortOption>& options) {
  std::string letters = ":";  // a missing value is told apart from an unknown option
  std::vector<option> longs;
  std::vector<std::string> long_names;
  for (size_t i = 0; i < options.size(); ++i) {
    const ShortOption& known = options[i];
    if (known.letter != 0) {
      letters += known.letter;
      if (known.value_name != nullptr) letters += ':';
    }
    if (known.long_name != nullptr) {
      longs.push_back({known.long_name, known.value_name != nullptr ? required_argument : no_argument,
                       nullptr, known.letter != 0 ? known.letter : kFirstLong + static_cast<int>(i)});
      long_names.push_back(std::string("--") + known.long_name);
    }
  }
  longs.push_back({nullptr, 0, nullptr, 0});
  std::vector<std::string> words{verb};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int argc = static_cast<int>(words.size());

  const std::string see = "; see stoker-bench " + verb + " --help";
  std::vector<GivenOption> given;
  opterr = 0;
  optind = 0;  // begin anew, even after an earlier call
  while (true) {
    const int found = getopt_long(argc, argv.data(), letters.c_str(), longs.data(), nullptr);
    if (found == -1) break;
    const std::string word = optind > 0 && optind <= argc ? argv[static_cast<size_t>(optind - 1)] : "";
    if (found == '?') {
      if (optopt == 0) {  // a long name
        const std::string name = word.substr(0, word.find('='));
        const std::string near = NearestSpelling(name, long_names);
        return Bad(verb + ": unknown option " + name + (near.empty() ? see : "; did you mean " + near + "?"));
      }
      if (optopt >= kFirstLong || letters.find(static_cast<char>(optopt)) != std::string::npos) {
        return Bad(verb + ": " + word.substr(0, word.find('=')) + " takes no value" + see);
      }
      return Bad(verb + ": unknown option -" + std::string(1, static_cast<char>(optopt)) + see);
    }
    if (found == ':') {
      return Bad(verb + ": " +
                 (word.starts_with("--") ? word : "-" + std::string(1, static_cast<char>(optopt))) +
                 " needs a value" + see);
    }
    GivenOption one;
    one.name = found >= kFirstLong ? options[static_cast<size_t>(found - kFirstLong)].long_name
                                   : std::string(1, static_cast<char>(found));
    if (optarg != nullptr) {
      one.value = optarg;
      const bool joined = optarg != argv[static_cast<size_t>(optind - 1)];
      if (joined && found < kFirstLong && one.value.starts_with('=')) one.value.erase(0, 1);
    }
    given.push_back(std::move(one));
  }
  if (optind < argc) {
    return Bad(verb + ": \"" + argv[static_cast<size_t>(optind)] + "\" belongs to no option" + see);
  }
  return given;
}

std::string DescribeShortOptions(const std::vector<ShortOption>& options) {
  std::string text;
  for (const ShortOption& option : options) {
    std::string name = option.letter != 0 ? std::string("-") + option.letter : "  ";
    if (option.long_name != nullptr)
      name += std::string(option.letter != 0 ? ", --" : "  --") + option.long_name;
    if (option.value_name != nullptr) name += std::string(" ") + option.value_name;
    char line[256];
    std::snprintf(line, sizeof line, "  %-24s %s\n", name.c_str(), option.help);
    text += line;
  }
  return text;
}

Result<uint64_t> ParseIorSize(const std::string& flag, const std::string& text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end) return number;
  if (error == std::errc() && stop + 1 == end) {
    const std::string_view units = "kmgt";
    const size_t unit = units.find(static_cast<char>(*stop | 0x20));
    if (unit != std::string_view::npos) {
      uint64_t bytes = 0;
      if (!__builtin_mul_overflow(number, uint64_t{1} << (10 * (unit + 1)), &bytes)) return bytes;
    }
  }
  const Result<uint64_t> ours = ParseBytes(text);
  if (ours.ok()) return ours;
  return Bad(flag + ": \"" + text +
             "\" is not a size: a number of bytes, or with k, m, g or t (binary), e.g. 1m");
}

Result<int64_t> ParseSigned(const std::string& flag, const std::string& text, int64_t min, int64_t max) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < min || value > max) {
    return Bad(flag + ": \"" + text + "\" is not a whole number from " + std::to_string(min) + " to " +
               std::to_string(max));
  }
  return value;
}

}  // namespace stoker::bench
