// Replays access traces against every cache policy and prints hit ratios beside the off-line optimum.

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store/eviction_policy.h"
#include "tests/support/access_trace.h"

namespace {

using namespace stoker;

constexpr const char* kHelp =
    "evict_sim [--objects N] [--sizes equal|mixed] [--seed S] [--watermark R] [--trace NAME]... [--why]\n"
    "  --objects N     objects of mean size that fit in the cache, 4 to 1000000 (1000)\n"
    "  --sizes S       equal, or mixed: half to one and a half times the mean, one in a hundred 8 times it "
    "(equal)\n"
    "  --seed S        of the traces and of auto's sample (1)\n"
    "  --watermark R   evicting, once started, goes down to this share of the cache, 0.5 to 1 (0.95, as the "
    "store)\n"
    "  --trace NAME    only these traces (all)\n"
    "  --why           also what auto says of its choice at the end\n"
    "Prints a Markdown table of byte hit ratios; `off` is how far auto is from the best of the three.\n";

[[noreturn]] void Refuse(const std::string& message) {
  std::fprintf(stderr, "evict_sim: %s\n", message.c_str());
  std::exit(2);
}

template <typename T>
T Number(std::string_view flag, const char* text, T min, T max) {
  T value{};
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < min || value > max) {
    Refuse(std::string(flag) + " " + text + ": give a number from " + std::to_string(min) + " to " +
           std::to_string(max));
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  testing::TraceSpec spec;
  double watermark = 0.95;
  std::vector<std::string> names;
  bool why = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      std::fputs(kHelp, stdout);
      return 0;
    }
    if (flag == "--why") {
      why = true;
      continue;
    }
    if (i + 1 == argc) Refuse("what is " + std::string(flag) + "? `evict_sim --help` lists the options");
    const char* const value = argv[++i];
    if (flag == "--objects") {
      spec.cache_objects = Number<uint64_t>(flag, value, 4, 1'000'000);
    } else if (flag == "--seed") {
      spec.seed = Number<uint64_t>(flag, value, 0, UINT64_MAX);
    } else if (flag == "--watermark") {
      watermark = Number<double>(flag, value, 0.5, 1.0);
    } else if (flag == "--sizes") {
      if (std::string_view(value) != "equal" && std::string_view(value) != "mixed")
        Refuse("--sizes " + std::string(value) + ": use equal or mixed");
      spec.sizes =
          std::string_view(value) == "equal" ? testing::TraceSizes::kEqual : testing::TraceSizes::kMixed;
    } else if (flag == "--trace") {
      std::string all;
      bool known = false;
      for (const std::string& name : testing::TraceNames()) {
        known |= name == value;
        all += " " + name;
      }
      if (!known) Refuse("--trace " + std::string(value) + ": there are" + all);
      names.emplace_back(value);
    } else {
      Refuse("what is " + std::string(flag) + "? `evict_sim --help` lists the options");
    }
  }
  if (names.empty()) names = testing::TraceNames();

  std::printf("| Trace | retain | lru | s3fifo | auto | off | optimum | What is read, in caches |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (const std::string& name : names) {
    const testing::AccessTrace trace = testing::MakeTrace(name, spec);
    const uint64_t capacity = spec.cache_objects * testing::kTraceObjectBytes;
    std::printf("| %s |", name.c_str());
    double best = 0;
    std::string reason;
    for (const CachePolicy policy :
         {CachePolicy::kRetain, CachePolicy::kLru, CachePolicy::kS3Fifo, CachePolicy::kAuto}) {
      const auto made = MakeEvictionPolicy(policy, spec.seed);
      const double ratio = testing::Replay(trace, *made, capacity, watermark).bytes;
      if (policy != CachePolicy::kAuto) best = std::max(best, ratio);
      std::printf(" %.3f |", ratio);
      if (policy != CachePolicy::kAuto) continue;
      std::printf(" %+.3f |", ratio - best);
      reason = std::string(PolicyName(made->State().deciding)) + ", " +
               std::to_string(made->State().switches) + " switches, " + made->Reason();
    }
    std::printf(" %.3f | %s |\n", testing::ReplayBelady(trace, capacity).bytes, trace.what.c_str());
    if (why) std::printf("    %s\n", reason.c_str());
    std::fflush(stdout);
  }
  return 0;
}
