// Counters, gauges and latency histograms, and their Prometheus text. One registry for each daemon
// (a process can have several). An update is one relaxed atomic operation (a plain store if only
// one thread updates); registering allocates.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ramcloud {

/// Name and value pairs, for example {{"op", "read"}}.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  /// The same without a locked instruction (which costs about 5 ns): only if a single thread ever
  /// adds, as for the counters of a reactor's shard. Any thread may read.
  void add_from_one_thread(uint64_t n = 1) { value_.store(value() + n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

/// A histogram of nanoseconds: 32 buckets per power of two, so a quantile is at most 3.2 % too
/// high.
class Histogram {
 public:
  static constexpr int kSubBits = 5;
  static constexpr int kSubBuckets = 1 << kSubBits;
  static constexpr int kBuckets = (64 - kSubBits + 1) * kSubBuckets;

  void record(uint64_t ns) {
    buckets_[index_of(ns)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(ns, std::memory_order_relaxed);
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  /// The same without locked instructions: only if a single thread ever records.
  void record_from_one_thread(uint64_t ns) {
    const auto add = [](std::atomic<uint64_t>& to, uint64_t n) {
      to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    };
    add(buckets_[static_cast<size_t>(index_of(ns))], 1);
    add(sum_, ns);
    add(count_, 1);
  }
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }
  /// Upper bound of the bucket in which the q-th quantile lies, in ns; 0 when empty. 0 <= q <= 1.
  uint64_t quantile(double q) const;
  /// How many values were at most `ns` (up to bucket resolution).
  uint64_t count_at_most(uint64_t ns) const;

  static int index_of(uint64_t ns) {
    if (ns < kSubBuckets) return static_cast<int>(ns);
    const int exponent = 63 - std::countl_zero(ns);
    return (exponent - kSubBits + 1) * kSubBuckets +
           static_cast<int>((ns >> (exponent - kSubBits)) & (kSubBuckets - 1));
  }
  static uint64_t upper_bound(int index);

 private:
  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> sum_{0};
  std::atomic<uint64_t> count_{0};
};

class MetricsRegistry {
 public:
  MetricsRegistry() = default;
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  /// The same name and labels give the same metric. References live as long as the registry.
  Counter& counter(std::string_view name, std::string_view help, MetricLabels labels = {});
  /// Shown in seconds, as Prometheus wants it; the name should end in "_seconds".
  Histogram& histogram(std::string_view name, std::string_view help, MetricLabels labels = {});
  /// `read` is called when the text is built, on the thread that serves it.
  void gauge(std::string_view name, std::string_view help, std::function<double()> read,
             MetricLabels labels = {});

  /// Adds a registry for the counters and histograms of one thread, so that threads do not write
  /// the same cache lines. text() shows the sums. It lives as long as this registry.
  MetricsRegistry& add_shard();

  /// Prometheus text exposition format 0.0.4, ordered by name.
  std::string text() const;

 private:
  struct Metric;
  Metric& find_or_add(std::string_view name, std::string_view help, MetricLabels labels, int kind);
  mutable std::mutex mutex_;
  std::deque<Metric> metrics_;
  std::deque<MetricsRegistry> shards_;  // guarded by mutex_
};

struct MetricsRegistry::Metric {
  std::string name, help;
  MetricLabels labels;
  int kind = 0;
  Counter counter;
  std::unique_ptr<Histogram> histogram;
  std::function<double()> gauge;
};

}  // namespace ramcloud
