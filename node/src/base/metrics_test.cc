#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ramcloud {
namespace {

TEST(Histogram, BucketsAreOrderedAndTight) {
  int last = -1;
  for (uint64_t ns = 0; ns < 100'000; ns = ns < 64 ? ns + 1 : ns + ns / 16) {
    const int index = Histogram::index_of(ns);
    EXPECT_GE(index, last);
    EXPECT_GE(Histogram::upper_bound(index), ns);
    EXPECT_LE(static_cast<double>(Histogram::upper_bound(index)),
              static_cast<double>(ns) * 1.032 + 1);
    last = index;
  }
  EXPECT_LT(Histogram::index_of(~uint64_t{0}), Histogram::kBuckets);
}

TEST(Histogram, Quantiles) {
  Histogram h;
  EXPECT_EQ(h.quantile(0.5), 0u);
  for (uint64_t i = 1; i <= 1000; ++i) h.record(i * 1000);
  EXPECT_NEAR(static_cast<double>(h.quantile(0.5)), 500e3, 500e3 * 0.032);
  EXPECT_NEAR(static_cast<double>(h.quantile(0.99)), 990e3, 990e3 * 0.032);
  EXPECT_EQ(h.count(), 1000u);
}

TEST(Histogram, AloneIsTheSame) {
  Histogram shared, alone;
  for (uint64_t ns = 1; ns < 1'000'000'000; ns = ns * 3 / 2 + 1) {
    shared.record(ns);
    alone.record_from_one_thread(ns);
    EXPECT_EQ(alone.count_at_most(ns), shared.count_at_most(ns)) << ns;
  }
  EXPECT_EQ(alone.count(), shared.count());
  EXPECT_EQ(alone.sum(), shared.sum());
  Counter counter;
  counter.add(2);
  counter.add_from_one_thread();
  counter.add_from_one_thread(4);
  EXPECT_EQ(counter.value(), 7u);
}

TEST(Metrics, PrometheusText) {
  MetricsRegistry registry;
  registry.counter("ops_total", "Operations.", {{"op", "read"}}).add(3);
  registry.counter("ops_total", "Operations.", {{"op", "write"}}).add(4);
  registry.counter("ops_total", "Operations.", {{"op", "read"}}).add(1);
  registry.gauge("free_bytes", "Free.", [] { return 12.5; });
  registry.histogram("latency_seconds", "Latency.").record(1'500'000);
  const std::string text = registry.text();
  EXPECT_THAT(text, testing::HasSubstr("# TYPE ops_total counter\nops_total{op=\"read\"} 4\n"
                                       "ops_total{op=\"write\"} 4\n"));
  EXPECT_THAT(text, testing::HasSubstr("free_bytes 12.5\n"));
  EXPECT_THAT(text, testing::HasSubstr("latency_seconds_bucket{le=\"0.002\"} 1\n"));
  EXPECT_THAT(text, testing::HasSubstr("latency_seconds_bucket{le=\"0.001\"} 0\n"));
  EXPECT_THAT(text, testing::HasSubstr("latency_seconds_count 1\n"));
}

TEST(Metrics, ShardsAreShownAsTheirSums) {
  MetricsRegistry registry;
  MetricsRegistry& a = registry.add_shard();
  MetricsRegistry& b = registry.add_shard();
  registry.counter("ops_total", "Operations.", {{"op", "read"}}).add(1);
  a.counter("ops_total", "Operations.", {{"op", "read"}}).add(2);
  b.counter("ops_total", "Operations.", {{"op", "read"}}).add(4);
  b.counter("ops_total", "Operations.", {{"op", "write"}}).add(8);
  a.histogram("latency_seconds", "Latency.").record(1'500'000);
  b.histogram("latency_seconds", "Latency.").record(500'000);
  const std::string text = registry.text();
  EXPECT_THAT(text, testing::HasSubstr("# TYPE ops_total counter\nops_total{op=\"read\"} 7\n"
                                       "ops_total{op=\"write\"} 8\n"));
  EXPECT_THAT(text, testing::HasSubstr("latency_seconds_bucket{le=\"0.001\"} 1\n"));
  EXPECT_THAT(text, testing::HasSubstr("latency_seconds_bucket{le=\"0.002\"} 2\n"));
  EXPECT_THAT(text, testing::HasSubstr("latency_seconds_sum 0.002\n"));
  EXPECT_THAT(text, testing::HasSubstr("latency_seconds_count 2\n"));
}

}  // namespace
}  // namespace ramcloud
