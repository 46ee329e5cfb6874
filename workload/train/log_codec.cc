#include "workload/train/log_codec.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace stoker::bench {
namespace {

// A field that is added to one of these needs a line in Encode and Decode below.
static_assert(sizeof(StepTimes) == 24 && sizeof(RankEpoch) == 56 && sizeof(EpochLog) == 48);
static_assert(sizeof(ReadStats) == 4 * 8 + sizeof(std::string) + 2 * sizeof(Histogram) + sizeof(ReadMeter*));
static_assert(sizeof(TrainingLog) == sizeof(Nanos) + sizeof(std::vector<EpochLog>) + 8 + sizeof(ReadStats) +
                                         24 + sizeof(Status) + 8);

class Writer {
 public:
  template <typename T>
  void Plain(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = out_.size();
    out_.resize(at + sizeof value);
    std::memcpy(out_.data() + at, &value, sizeof value);
  }
  void Text(const std::string& text) {
    Plain<uint64_t>(text.size());
    out_ += text;
  }
  void Counts(const Histogram& histogram) {
    uint64_t buckets = 0;
    histogram.ForEach([&](size_t, uint64_t) { ++buckets; });
    Plain(buckets);
    histogram.ForEach([&](size_t bucket, uint64_t count) {
      Plain<uint64_t>(bucket);
      Plain(count);
    });
    Plain(histogram.max());
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

/// Every call after the first that found too few bytes yields zeros; ok() tells.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  template <typename T>
  T Plain() {
    T value{};
    if (in_.size() < sizeof value) {
      ok_ = false;
      in_ = {};
      return value;
    }
    std::memcpy(&value, in_.data(), sizeof value);
    in_.remove_prefix(sizeof value);
    return value;
  }
  /// A number of things of at least `bytes_each` that are still to come.
  uint64_t Count(size_t bytes_each) {
    const auto count = Plain<uint64_t>();
    if (count <= in_.size() / bytes_each) return count;
    ok_ = false;
    in_ = {};
    return 0;
  }
  std::string Text() {
    const uint64_t size = Count(1);
    std::string out(in_.substr(0, size));
    in_.remove_prefix(size);
    return out;
  }
  void Counts(Histogram& into) {
    for (uint64_t left = Count(16); left > 0; --left) {
      const auto bucket = Plain<uint64_t>();
      if (!into.AddCounts(bucket, Plain<uint64_t>())) ok_ = false;
    }
    into.RaiseMax(Plain<uint64_t>());
  }
  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }

 private:
  std::string_view in_;
  bool ok_ = true;
};

void Encode(const ReadStats& reads, Writer& out) {
  out.Plain(reads.files);
  out.Plain(reads.bytes);
  out.Plain(reads.calls);
  out.Plain(reads.errors);
  out.Text(reads.first_error);
  out.Counts(reads.file_ns);
  out.Counts(reads.call_ns);
}

void Decode(Reader& in, ReadStats& reads) {
  reads.files = in.Plain<uint64_t>();
  reads.bytes = in.Plain<uint64_t>();
  reads.calls = in.Plain<uint64_t>();
  reads.errors = in.Plain<uint64_t>();
  reads.first_error = in.Text();
  in.Counts(reads.file_ns);
  in.Counts(reads.call_ns);
}

void Encode(const EpochLog& epoch, Writer& out) {
  out.Plain(epoch.unix_start);
  out.Plain(epoch.unix_end);
  out.Plain(epoch.complete);
  out.Plain<uint64_t>(epoch.ranks.size());
  for (const RankEpoch& rank : epoch.ranks) {
    out.Plain(rank.block_start);
    out.Plain(rank.iter_start);
    out.Plain(rank.block_end);
    out.Plain(rank.loader_end);
    out.Plain<uint64_t>(rank.steps.size());
    for (const StepTimes& step : rank.steps) out.Plain(step);
  }
}

void Decode(Reader& in, EpochLog& epoch) {
  epoch.unix_start = in.Plain<double>();
  epoch.unix_end = in.Plain<double>();
  epoch.complete = in.Plain<uint8_t>() != 0;
  epoch.ranks.resize(in.Count(4 * sizeof(double)));
  for (RankEpoch& rank : epoch.ranks) {
    rank.block_start = in.Plain<double>();
    rank.iter_start = in.Plain<double>();
    rank.block_end = in.Plain<double>();
    rank.loader_end = in.Plain<double>();
    rank.steps.resize(in.Count(sizeof(StepTimes)));
    for (StepTimes& step : rank.steps) step = in.Plain<StepTimes>();
  }
}

/// On another clock: all stamps are `later` seconds more.
RankEpoch Shifted(RankEpoch rank, double later) {
  for (double* stamp : {&rank.block_start, &rank.iter_start, &rank.block_end, &rank.loader_end})
    *stamp += later;
  for (StepTimes& step : rank.steps) {
    for (double* stamp : {&step.load_end, &step.compute_end, &step.barrier_end}) *stamp += later;
  }
  return rank;
}

double Seconds(Nanos time) {
  return std::chrono::duration<double>(time).count();
}

void MergePart(const LogPart& part, const LogPart& first, TrainingLog& out) {
  const TrainingLog& log = part.log;
  const double later = Seconds(log.steady_start) - part.clock_ahead_s - Seconds(first.log.steady_start);
  for (size_t i = 0; i < out.epochs.size(); ++i) {
    EpochLog& epoch = out.epochs[i];
    const bool here = part.received && i < log.epochs.size();
    epoch.complete = epoch.complete && here && log.epochs[i].complete;
    for (uint64_t rank = 0; rank < part.ranks; ++rank) {
      const bool there = here && rank < log.epochs[i].ranks.size();
      epoch.ranks.push_back(there ? Shifted(log.epochs[i].ranks[rank], later) : RankEpoch());
    }
  }
  if (!part.received) {
    if (out.failure.ok()) {
      out.failure = Status(Code::kUnavailable, part.name + " did not send what it had measured");
    }
    return;
  }
  if (!log.reads.first_error.empty() && out.reads.first_error.empty()) {
    out.reads.first_error = part.name + ": " + log.reads.first_error;
  }
  out.reads.Merge(log.reads);
  out.cpu_user_s += log.cpu_user_s;
  out.cpu_system_s += log.cpu_system_s;
  out.interrupted = out.interrupted || log.interrupted;
  if (out.failure.ok() && !log.failure.ok()) {
    out.failure =
        &part == &first ? log.failure : Status(log.failure.code(), part.name + ": " + log.failure.message());
  }
}

}  // namespace

std::string EncodeTrainingLog(const TrainingLog& log) {
  Writer out;
  out.Plain(log.steady_start);
  out.Plain<uint64_t>(log.epochs.size());
  for (const EpochLog& epoch : log.epochs) Encode(epoch, out);
  out.Plain(log.epochs_planned);
  Encode(log.reads, out);
  out.Plain(log.cpu_user_s);
  out.Plain(log.cpu_system_s);
  out.Plain(log.interrupted);
  out.Plain(log.failure.code());
  out.Plain(log.failure.os_errno());
  out.Text(log.failure.message());
  return out.Take();
}

Result<TrainingLog> DecodeTrainingLog(std::string_view bytes) {
  Reader in(bytes);
  TrainingLog log;
  log.steady_start = in.Plain<Nanos>();
  log.epochs.resize(in.Count(2 * sizeof(double)));
  for (EpochLog& epoch : log.epochs) Decode(in, epoch);
  log.epochs_planned = in.Plain<uint64_t>();
  Decode(in, log.reads);
  log.cpu_user_s = in.Plain<double>();
  log.cpu_system_s = in.Plain<double>();
  log.interrupted = in.Plain<uint8_t>() != 0;
  const Code code = in.Plain<Code>();
  const int os_errno = in.Plain<int>();
  std::string message = in.Text();
  if (code != Code::kOk) log.failure = Status(code, std::move(message), os_errno);
  if (!in.ok() || !in.at_end()) return Status(Code::kCorruption, "not the log of a training run");
  return log;
}

TrainingLog MergeLogs(const std::vector<LogPart>& parts) {
  const LogPart& first = parts.front();
  TrainingLog out;
  out.steady_start = first.log.steady_start;
  out.epochs_planned = first.log.epochs_planned;
  out.stuck = first.log.stuck;
  size_t epochs = 0;
  for (const LogPart& part : parts) epochs = std::max(epochs, part.log.epochs.size());
  out.epochs.resize(epochs);
  for (size_t i = 0; i < epochs; ++i) {
    EpochLog& epoch = out.epochs[i];
    epoch.complete = true;
    // One clock for all: the first process's, or that of the first that came so far.
    for (const LogPart& part : parts) {
      if (i >= part.log.epochs.size()) continue;
      epoch.unix_start = part.log.epochs[i].unix_start;
      epoch.unix_end = part.log.epochs[i].unix_end;
      break;
    }
  }
  for (const LogPart& part : parts) MergePart(part, first, out);
  return out;
}

}  // namespace stoker::bench
