#include "workload/report/capacity_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cache/base/check.h"
#include "workload/report/report.h"
#include "workload/report/student_t.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kMostSteps = 4;  // away from an edge that repeats do not decide: 1 + 2 + 4 + 8
/// Numbers that are confirmed in one search; noise that asks for more has no edge to be found.
constexpr uint64_t kMostNumbers = 16;

double SampleDeviation(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  return PopulationStdev(values) * std::sqrt(n / (n - 1));
}

}  // namespace

double CapacityPoint::mean() const {
  return Mean(confirmed.empty() ? scouted : confirmed);
}

double CapacityPoint::margin(const CapacityOptions& options) const {
  const uint64_t n = confirmed.size();
  if (n < 2) return std::numeric_limits<double>::infinity();
  const double looks = static_cast<double>(options.repeats - 1);
  const double deviation = std::max(SampleDeviation(confirmed), options.least_deviation);
  return StudentQuantile(error_share / looks, n - 1) * deviation / std::sqrt(static_cast<double>(n));
}

uint64_t CapacityPoint::passes(double threshold_percent) const {
  const auto passed = [&](double au) { return au >= threshold_percent; };
  return static_cast<uint64_t>(std::count_if(scouted.begin(), scouted.end(), passed) +
                               std::count_if(confirmed.begin(), confirmed.end(), passed));
}

CapacitySearch::CapacitySearch(const CapacityOptions& options) : options_(options) {
  STOKER_CHECK(options.max >= 1 && options.repeats >= 2);
  STOKER_CHECK(options.confidence >= 0.5 && options.confidence < 1);
}

void CapacitySearch::Add(const CapacityProbe& probe, double au_percent) {
  CapacityPoint& point = points_[probe.accelerators];
  point.accelerators = probe.accelerators;
  if (!probe.confirming) {
    point.scouted.push_back(au_percent);
    return;
  }
  if (point.confirmed.empty()) {
    ++confirmed_numbers_;
    const double order = static_cast<double>(confirmed_numbers_);
    point.error_share = (1 - options_.confidence) / (order * (order + 1));  // these add up to the whole
  }
  point.confirmed.push_back(au_percent);
  if (point.verdict != CapacityVerdict::kOpen) return;
  const double mean = point.mean();
  const double margin = point.margin(options_);
  if (mean - margin >= options_.threshold_percent) point.verdict = CapacityVerdict::kFed;
  if (mean + margin < options_.threshold_percent) point.verdict = CapacityVerdict::kStarved;
}

bool CapacitySearch::LooksFed(const CapacityPoint& point) const {
  if (point.verdict != CapacityVerdict::kOpen) return point.verdict == CapacityVerdict::kFed;
  return point.mean() >= options_.threshold_percent;
}

bool CapacitySearch::Exhausted(uint64_t accelerators) const {
  const auto found = points_.find(accelerators);
  return found != points_.end() && found->second.verdict == CapacityVerdict::kOpen &&
         found->second.confirmed.size() >= options_.repeats;
}

bool CapacitySearch::Open(uint64_t accelerators) const {
  const auto found = points_.find(accelerators);
  if (found == points_.end() || found->second.confirmed.empty()) return confirmed_numbers_ < kMostNumbers;
  return found->second.verdict == CapacityVerdict::kOpen && found->second.confirmed.size() < options_.repeats;
}

CapacitySearch::Edge CapacitySearch::FindEdge() const {
  Edge edge;
  edge.starved = edge.high = options_.max + 1;
  for (const auto& [n, point] : points_) {
    if (point.verdict == CapacityVerdict::kFed) edge.fed = n;
  }
  // What lies at or below a proved number is fed as well, whatever single measurements said.
  for (auto at = points_.upper_bound(edge.fed); at != points_.end(); ++at) {
    const auto& [n, point] = *at;
    if (edge.high > options_.max && !LooksFed(point)) edge.high = n;
    if (point.verdict == CapacityVerdict::kStarved) {
      edge.starved = n;
      break;
    }
  }
  edge.low = edge.fed;
  for (const auto& [n, point] : points_) {
    if (n > edge.low && n < edge.high) edge.low = n;
  }
  return edge;
}

std::optional<CapacityProbe> CapacitySearch::Confirm(const Edge& edge) const {
  std::optional<CapacityProbe> best;
  uint64_t fewest = options_.repeats;
  const auto offer = [&](uint64_t n) {
    if (n <= edge.fed || n >= edge.starved || !Open(n)) return;
    const auto found = points_.find(n);
    const uint64_t have = found == points_.end() ? 0 : found->second.confirmed.size();
    if (have >= fewest) return;
    fewest = have;
    best = CapacityProbe{n, true};
  };
  // In turns, so that a storage that changes over time changes for both sides.
  offer(edge.low);
  if (edge.high <= options_.max) offer(edge.high);
  if (best) return best;
  for (const auto& [n, point] : points_) {
    if (!point.confirmed.empty()) offer(n);  // begun when it was the edge, or a step away from it
  }
  return best;
}

std::optional<uint64_t> CapacitySearch::StepDown(const Edge& edge) const {
  if (edge.low <= edge.fed) return std::nullopt;  // proved up to the edge
  uint64_t lowest = edge.low;
  uint64_t steps = 0;
  for (auto at = points_.upper_bound(edge.fed); at != points_.end() && at->first <= edge.low; ++at) {
    if (!Exhausted(at->first)) continue;
    lowest = std::min(lowest, at->first);
    ++steps;
  }
  if (steps == 0 || steps > kMostSteps || lowest <= edge.fed + 1) return std::nullopt;
  const uint64_t step = std::min(uint64_t{1} << (steps - 1), lowest - edge.fed - 1);
  return lowest - step;
}

std::optional<uint64_t> CapacitySearch::StepUp(const Edge& edge) const {
  if (edge.high > options_.max || edge.high >= edge.starved) return std::nullopt;
  uint64_t highest = edge.high;
  uint64_t steps = 0;
  for (auto at = points_.lower_bound(edge.high); at != points_.end() && at->first < edge.starved; ++at) {
    if (!Exhausted(at->first)) continue;
    highest = at->first;
    ++steps;
  }
  if (steps == 0 || steps > kMostSteps || highest + 1 >= edge.starved) return std::nullopt;
  const uint64_t step = std::min(uint64_t{1} << (steps - 1), edge.starved - 1 - highest);
  return highest + step;
}

std::optional<CapacityProbe> CapacitySearch::Next() const {
  const Edge edge = FindEdge();
  if (edge.high > options_.max && edge.low < options_.max) {
    return CapacityProbe{edge.low == 0 ? 1 : edge.low + std::min(edge.low, options_.max - edge.low), false};
  }
  if (edge.high <= options_.max && edge.high - edge.low > 1) {
    return CapacityProbe{edge.low + (edge.high - edge.low) / 2, false};
  }
  if (const std::optional<CapacityProbe> confirm = Confirm(edge)) return confirm;
  std::optional<uint64_t> away = StepDown(edge);
  if (!away) away = StepUp(edge);
  if (!away || !Open(*away)) return std::nullopt;
  return CapacityProbe{*away, true};
}

CapacityResult CapacitySearch::Result() const {
  const Edge edge = FindEdge();
  CapacityResult out;
  out.finished = !Next().has_value();
  out.fed = edge.fed;
  if (edge.starved <= options_.max) out.starved = edge.starved;
  out.likely = edge.low;
  for (const auto& [n, point] : points_) out.points.push_back(point);
  return out;
}

}  // namespace stoker::bench
