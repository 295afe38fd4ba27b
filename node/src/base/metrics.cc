#include "base/metrics.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "base/text.h"

namespace ramcloud {
namespace {

enum Kind : int { kCounter, kHistogram, kGauge };

std::string label_text(const MetricLabels& labels, std::string_view extra = {}) {
  std::string text;
  for (const auto& [name, value] : labels) {
    if (!text.empty()) text += ',';
    text += name + "=" + json_string(value);
  }
  if (!extra.empty()) {
    if (!text.empty()) text += ',';
    text += extra;
  }
  return text.empty() ? text : "{" + text + "}";
}

/// The buckets of a histogram in the text: for latencies from a microsecond to ten seconds.
constexpr uint64_t kShownBounds[] = {
    1'000,         2'000,         5'000,         10'000,      20'000,      50'000,
    100'000,       200'000,       500'000,       1'000'000,   2'000'000,   5'000'000,
    10'000'000,    20'000'000,    50'000'000,    100'000'000, 200'000'000, 500'000'000,
    1'000'000'000, 2'000'000'000, 10'000'000'000};

/// Appends the sum of the histograms.
void append_histogram(std::string& out, const std::string& name, const MetricLabels& labels,
                      const std::vector<const Histogram*>& histograms) {
  const auto sum_of = [&](auto part) {
    uint64_t sum = 0;
    for (const Histogram* histogram : histograms) sum += part(*histogram);
    return sum;
  };
  // Read first: a value that is recorded meanwhile must not make a bucket larger than the count.
  const uint64_t count = sum_of([](const Histogram& h) { return h.count(); });
  for (const uint64_t bound : kShownBounds) {
    const auto le = fmt::format("le=\"{}\"", static_cast<double>(bound) / 1e9);
    const uint64_t below = sum_of([bound](const Histogram& h) { return h.count_at_most(bound); });
    out += fmt::format("{}_bucket{} {}\n", name, label_text(labels, le), std::min(count, below));
  }
  out += fmt::format("{}_bucket{} {}\n", name, label_text(labels, "le=\"+Inf\""), count);
  out += fmt::format("{}_sum{} {}\n", name, label_text(labels),
                     static_cast<double>(sum_of([](const Histogram& h) { return h.sum(); })) / 1e9);
  out += fmt::format("{}_count{} {}\n", name, label_text(labels), count);
}

}  // namespace

uint64_t Histogram::upper_bound(int index) {
  if (index < kSubBuckets) return static_cast<uint64_t>(index);
  const int exponent = index / kSubBuckets + kSubBits - 1;
  const uint64_t sub = static_cast<uint64_t>(index % kSubBuckets);
  return ((kSubBuckets + sub + 1) << (exponent - kSubBits)) - 1;
}

uint64_t Histogram::quantile(double q) const {
  const uint64_t total = count();
  if (total == 0) return 0;
  const auto rank = static_cast<uint64_t>(q * static_cast<double>(total - 1)) + 1;
  uint64_t seen = 0;
  for (int i = 0; i < kBuckets; ++i) {
    seen += buckets_[i].load(std::memory_order_relaxed);
    if (seen >= rank) return upper_bound(i);
  }
  return upper_bound(kBuckets - 1);
}

uint64_t Histogram::count_at_most(uint64_t ns) const {
  uint64_t seen = 0;
  for (int i = 0; i <= index_of(ns) && i < kBuckets; ++i) {
    if (upper_bound(i) > ns) break;
    seen += buckets_[i].load(std::memory_order_relaxed);
  }
  return seen;
}

MetricsRegistry::Metric& MetricsRegistry::find_or_add(std::string_view name, std::string_view help,
                                                      MetricLabels labels, int kind) {
  for (auto& metric : metrics_) {
    if (metric.name == name && metric.labels == labels) return metric;
  }
  auto& metric = metrics_.emplace_back();
  metric.name = name;
  metric.help = help;
  metric.labels = std::move(labels);
  metric.kind = kind;
  if (kind == kHistogram) metric.histogram = std::make_unique<Histogram>();
  return metric;
}

Counter& MetricsRegistry::counter(std::string_view name, std::string_view help,
                                  MetricLabels labels) {
  const std::lock_guard guard(mutex_);
  return find_or_add(name, help, std::move(labels), kCounter).counter;
}

Histogram& MetricsRegistry::histogram(std::string_view name, std::string_view help,
                                      MetricLabels labels) {
  const std::lock_guard guard(mutex_);
  return *find_or_add(name, help, std::move(labels), kHistogram).histogram;
}

void MetricsRegistry::gauge(std::string_view name, std::string_view help,
                            std::function<double()> read, MetricLabels labels) {
  const std::lock_guard guard(mutex_);
  find_or_add(name, help, std::move(labels), kGauge).gauge = std::move(read);
}

MetricsRegistry& MetricsRegistry::add_shard() {
  const std::lock_guard guard(mutex_);
  return shards_.emplace_back();
}

std::string MetricsRegistry::text() const {
  const std::lock_guard guard(mutex_);
  std::vector<const Metric*> ordered;
  for (const auto& metric : metrics_) ordered.push_back(&metric);
  for (const auto& shard : shards_) {
    const std::lock_guard shard_guard(shard.mutex_);
    for (const auto& metric : shard.metrics_)
      ordered.push_back(&metric);  // metrics are never moved
  }
  std::sort(ordered.begin(), ordered.end(), [](const Metric* a, const Metric* b) {
    return std::tie(a->name, a->labels) < std::tie(b->name, b->labels);
  });
  std::string out;
  const std::string* last_name = nullptr;
  for (size_t i = 0, next; i < ordered.size(); i = next) {
    const Metric* metric = ordered[i];
    next = i + 1;
    while (next < ordered.size() && ordered[next]->name == metric->name &&
           ordered[next]->labels == metric->labels) {
      ++next;
    }
    const std::span same(ordered.data() + i, next - i);
    if (last_name == nullptr || *last_name != metric->name) {
      constexpr std::string_view kTypes[] = {"counter", "histogram", "gauge"};
      out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", metric->name, metric->help, metric->name,
                         kTypes[metric->kind]);
      last_name = &metric->name;
    }
    if (metric->kind == kCounter) {
      uint64_t sum = 0;
      for (const Metric* one : same) sum += one->counter.value();
      out += fmt::format("{}{} {}\n", metric->name, label_text(metric->labels), sum);
    } else if (metric->kind == kGauge) {
      out += fmt::format("{}{} {}\n", metric->name, label_text(metric->labels), metric->gauge());
    } else {
      std::vector<const Histogram*> histograms;
      for (const Metric* one : same) histograms.push_back(one->histogram.get());
      append_histogram(out, metric->name, metric->labels, histograms);
    }
  }
  return out;
}

}  // namespace ramcloud
