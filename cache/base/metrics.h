#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/metric_defs.h"

namespace stoker {

/// Only grows. Any thread; relaxed: a sum read while others add is a moment's value.
class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  alignas(64) std::atomic<uint64_t> value_{0};
};

/// Goes up and down. Any thread.
class Gauge {
 public:
  void Add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void Sub(int64_t n = 1) { value_.fetch_sub(n, std::memory_order_relaxed); }
  void Set(int64_t n) { value_.store(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  alignas(64) std::atomic<int64_t> value_{0};
};

/// Every metric of the program (metric_defs.h), passed by reference, never global.
struct Metrics {
#define X(field, kind, name, unit, meaning) kind field;
  STOKER_METRICS(X)
#undef X
};

/// One metric at one moment.
struct MetricSample {
  std::string_view field;  // member of Metrics
  std::string_view name;   // Prometheus name
  std::string_view unit;
  std::string_view meaning;
  bool is_counter = false;
  int64_t value = 0;
};
std::vector<MetricSample> Snapshot(const Metrics& metrics);
/// Prometheus text exposition of a snapshot.
std::string RenderPrometheus(const std::vector<MetricSample>& samples);
/// The table of docs/metrics.md.
std::string RenderMetricsMarkdown();

}  // namespace stoker
