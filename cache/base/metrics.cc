#include "cache/base/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace stoker {

std::vector<MetricSample> Snapshot(const Metrics& metrics) {
  std::vector<MetricSample> samples;
#define X(field, kind, name, unit, meaning)                                             \
  samples.push_back({#field, name, unit, meaning, std::string_view(#kind) == "Counter", \
                     static_cast<int64_t>(metrics.field.value())});
  STOKER_METRICS(X)
#undef X
  return samples;
}

std::string RenderPrometheus(const std::vector<MetricSample>& samples) {
  std::vector<prometheus::MetricFamily> families;
  families.reserve(samples.size());
  for (const MetricSample& sample : samples) {
    prometheus::MetricFamily family;
    family.name = sample.name;
    family.help = sample.meaning;
    family.type = sample.is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
    prometheus::ClientMetric metric;
    if (sample.is_counter) {
      metric.counter.value = static_cast<double>(sample.value);
    } else {
      metric.gauge.value = static_cast<double>(sample.value);
    }
    family.metric.push_back(std::move(metric));
    families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::string RenderMetricsMarkdown() {
  std::string out = "| Metric | Kind | Unit | Meaning |\n|---|---|---|---|\n";
  for (const MetricSample& sample : Snapshot(Metrics())) {
    out += "| `" + std::string(sample.name) + "` | " + (sample.is_counter ? "counter" : "gauge") + " | " +
           std::string(sample.unit) + " | " + std::string(sample.meaning) + " |\n";
  }
  return out;
}

}  // namespace stoker
